"""The programs of the gallery run as printed, print what their pages say, and have the pictures of their plans."""

import json
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.golden import check_golden
from tests.support.kafka import KafkaBroker
from tests.support.pages import blocks_of
from trident.errors import TxidNotKeptError

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
PAGES = sorted(page.stem for page in GALLERY.glob("*.md") if page.stem != "index")
LINES = 60


def shown(name: str) -> tuple[str, str]:
    """Return the program of a page, and the output that the page promises."""
    text = (GALLERY / f"{name}.md").read_text(encoding="utf-8")
    (program,) = [block for block in blocks_of(GALLERY / f"{name}.md") if block.startswith(f"# {name}.py\n")]
    (printed,) = re.findall(rf"^```console\n\$ python {name}\.py\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return program, printed


def run(name: str, program: str, as_module: str = "__main__") -> dict[str, Any]:
    """Run a program of a page in the present folder, and return its names."""
    names: dict[str, Any] = {"__name__": as_module}
    exec(compile(program, f"{name}.py", "exec"), names)
    return names


def test_there_are_eight_and_the_index_leads_to_each() -> None:
    index = (GALLERY / "index.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((\w+)\.md\)", index)
    assert len(PAGES) == 8 and sorted(linked) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_program_is_short_and_its_page_shows_its_plan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = shown(name)
    assert program.count("\n") <= LINES + 1, "and a line with the name of the file"
    assert f"![The plan of {name}.py](pictures/{name}.svg)" in (GALLERY / f"{name}.md").read_text(encoding="utf-8")
    monkeypatch.chdir("/")  # a picture has the whole path of an output, and an id that is a digest of its texts
    drawn = run(name, program, "page")["topology"].draw("svg").replace("into /", "into ")
    check_golden(GALLERY, f"{name}.svg", drawn, within="pictures")


@pytest.mark.parametrize("name", [name for name in PAGES if name != "dashboard"])
def test_a_program_prints_what_its_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program, printed = shown(name)
    run(name, program)
    assert capsys.readouterr().out == printed != ""


@pytest.mark.spark
def test_a_dashboard_compares_with_before_and_a_job_reads_the_same_table(
    spark: SparkSession,
    kafka: KafkaBroker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    kafka.create(topic)
    program, printed = shown("dashboard")
    here = program.replace("localhost:9092", kafka.servers).replace('"orders")', f'"{topic}")')
    page = run("dashboard", here.replace('"orders", json', f'"{topic}", json'))
    assert capsys.readouterr().out == printed != ""
    with page["topology"].start(name="shop", checkpointLocation="shop.ckpt", engine="embedded") as running:
        moment = time.time()
        page["send"](item="tea", price=1)
        while running.state("sold")["tea"].n < 3:
            running.processAllAvailable(timeout=60)
        ago = timedelta(seconds=time.time() - moment)
        assert page["change"](running, "tea", ago) == (3, 2)
        with pytest.raises(TxidNotKeptError):
            page["change"](running, "tea")
        job = next(block for block in blocks_of(GALLERY / "dashboard.md") if "SparkSession" in block)
        exec(job, page)
        assert [int(number) for number in re.findall(r"\d+", capsys.readouterr().out)] == [5, 15]
        assert json.dumps(page["top"](running, 1)[0]) == '[["tea", 3, 9]]'
