"""The programs on the pages run, and their links and file names lead somewhere."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.pages import anchors_of, blocks_of, program_of, run_page
from trident import Count, Stream
from trident.state import MemoryMapState
from trident.testing.local import start_local

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.spark
@pytest.mark.parametrize(("name", "printed"), [("README.md", ["[Row(sum=14137)]", "492"]), ("docs/index.md", ["492"])])
def test_the_first_example_of_a_page_runs_and_says_what_it_says(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    printed: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / name)
    said = capsys.readouterr().out.splitlines()
    assert said == re.findall(r"print\(.*\)  # (.*)", (ROOT / name).read_text(encoding="utf-8")) == printed


@pytest.mark.parametrize(
    ("name", "looked"),
    [("streams.md", 3), ("many-streams.md", 8), ("aggregates.md", 15), ("partitions.md", 1), ("extending.md", 1)],
)
def test_the_guides_streams_run_and_give_what_they_say(
    name: str, looked: int, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / "guide" / name
    looks = re.compile(r"^(\w.*\.take\(\d\))  # (\[.*\])$", re.MULTILINE)
    program = looks.sub(r"assert str(sorted(\1, key=str)) == str(sorted(\2, key=str)), \1", program_of(page))
    assert program.count("assert") == looked
    before = set(vars(Stream))
    exec(compile("from pyspark.sql import Row\n" + program, str(page), "exec"), {"__name__": "page"})
    for added in set(vars(Stream)) - before:
        delattr(Stream, added)
    out = capsys.readouterr().out
    assert all((shown in out) == (name == "streams.md") for shown in ("|jumped|", "flowchart TD"))


def test_the_guides_updaters_queries_and_static_states_run() -> None:
    guide = ROOT / "docs" / "guide"
    blocks = [*blocks_of(guide / "state.md"), *blocks_of(guide / "queries.md")]
    shown = [next(each for each in blocks if what in each) for what in ("def spend", "newStaticState", "class Spender")]
    page: dict[str, Any] = {}
    exec(compile("\n".join(shown), "guide", "exec"), page)
    page["named"].groupBy("name").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="named")
    with start_local(page["topology"], name="guide") as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("spent").items()) == {1: 23, 2: 9}
        assert dict(running.state("large").items()) == {1: 1}
        assert dict(running.state("named").items()) == {"ann": 1}
        kinds = [running.drpc.execute("spender", user)[0].kind for user in (1, 2)]
        assert kinds == ["large", "small"] and running.drpc.execute("spender", 3) == []


@pytest.mark.parametrize(("name", "lines"), [("windows.md", 6), ("over-time.md", 6)])
def test_the_guides_states_over_time_run_and_print_what_they_say(
    name: str, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / "guide" / name
    program = program_of(page).replace("topology.start(", "start_local(topology, ")
    exec(compile(program, str(page), "exec"), {"__name__": "page", "start_local": start_local})
    said = capsys.readouterr().out.splitlines()
    assert said == re.findall(r"print\(.*\)  # (.*)", page.read_text(encoding="utf-8"))
    assert len(said) == lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page: Path) -> None:
    """A | in a cell ends it, also within code: what comes after the last one is not shown."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table


def test_a_pages_program_keeps_the_pages_line_numbers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\n```\n\nand\n\n```python\nraise KeyError(x)\n```\n")
    assert program_of(page).splitlines()[9] == "raise KeyError(x)"
    with pytest.raises(KeyError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno + 1 == 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_place_on_a_page_leads_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    pages = [((page.parent / target).resolve() if target else page, anchor) for target, anchor in links]
    assert [(there.name, anchor) for there, anchor in pages if anchor not in anchors_of(there)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_shown_block_is_python_and_imports_what_is_there(page: Path) -> None:
    shown = re.findall(r"^```python\n# (\w+)\.py$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    elsewhere = {
        *shown,
        "deltalake",
        "confluent_kafka",
        "pyiceberg.catalog",
    }  # test_tutorial and test_recipes import these
    for block in blocks_of(page):
        imports: list[ast.stmt] = [
            node
            for node in ast.walk(ast.parse(block))
            if isinstance(node, ast.Import | ast.ImportFrom)
            and not (isinstance(node, ast.ImportFrom) and node.module in elsewhere)
        ]
        exec(compile(ast.Module(imports, []), str(page), "exec"), {})


def test_the_index_leads_to_every_page_of_the_guide() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [f"guide/{page.name}" for page in (ROOT / "docs" / "guide").glob("*.md")]
    assert [page for page in pages if f"({page})" not in index] == []


def test_every_file_and_folder_of_the_code_that_a_page_names_is_there() -> None:
    roots = [
        ROOT / name
        for name in ("trident", "trident_client", "state", "spouts", "tests", "benchmarks", "notebooks", "docs")
    ]
    there = {f"/{path.relative_to(ROOT).as_posix()}" for root in roots for path in (root, *root.rglob("*"))}
    absent = []
    for page in PAGES:
        whole = page.read_text(encoding="utf-8")
        text = re.sub(r"^```.*?^```", "", whole, flags=re.MULTILINE | re.DOTALL)
        shown = set(re.findall(r"^```python\n# (\w+\.py)$", whole, flags=re.MULTILINE))
        named = set(re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:py|lua)|(?:[\w-]+/)+)`", text))
        absent += [
            (page.name, name) for name in named - shown if not any(p.endswith(f"/{name.rstrip('/')}") for p in there)
        ]
    assert absent == []


def test_no_page_or_docstring_for_users_imports_what_is_not_in_the_wheel() -> None:
    users = [*sorted((ROOT / "docs" / "guide").glob("*.md")), ROOT / "README.md", ROOT / "docs" / "index.md"]
    packages = [
        path
        for root in ("trident", "trident_client", "state", "spouts")
        for path in sorted((ROOT / root).rglob("*.py"))
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [*users, *packages]
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\b(from|import) (tests|benchmarks)\b", line)
    ]
    assert found == []


def test_no_example_takes_a_method_of_tuples_for_a_field_of_a_row() -> None:
    """A Row is a tuple, so ``row.count`` is a method of it, also if the row has a field of this name."""
    texts = [*PAGES, *(ROOT / "notebooks").rglob("*.ipynb"), *(ROOT / "trident").rglob("*.py")]
    found = [
        f"{text.relative_to(ROOT)}: {slip}"
        for text in texts
        for slip in re.findall(r"\b[Rr]ow\.(?:count|index)\b(?!\()", text.read_text(encoding="utf-8"))
    ]
    assert not found, "write row['count']"


def test_the_changelog_has_each_entry_once() -> None:
    """A merge that keeps the lines of both sides writes a reworded entry twice."""
    sections = re.split(r"^#+ ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    beginnings = [(at, line) for at, text in enumerate(sections) for line in re.findall(r"^- .*", text, re.MULTILINE)]
    assert [line for (_, line), times in Counter(beginnings).items() if times > 1] == []


def test_the_page_of_the_installation_lists_each_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "guide" / "install.md").read_text()
    listed = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert listed == {*extras}
