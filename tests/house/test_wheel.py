"""The wheel, unpacked outside the repository as `pip install --no-deps --target` does: README's first program runs."""

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.support.pages import blocks_of

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None or not (ROOT / "hatch_build.py").exists(),
    reason="hatchling, which builds the wheel, is not installed: run make, which installs requirements.lock",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder outside the repository that has the wheel's files."""
    dist, target = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("target")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def _environment(installed: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(installed), "SPARK_API_MODE": "classic"}


def test_the_page_on_pypi_has_no_link_that_leads_nowhere(installed: Path) -> None:
    (metadata,) = installed.glob("trident_pyspark-*.dist-info/METADATA")
    page = Parser().parsestr(metadata.read_text(encoding="utf-8"))
    assert page["Description-Content-Type"] == "text/markdown"
    text = str(page.get_payload())
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if "://" not in link and not link.startswith("#")] == []
    assert "# trident-pyspark" in text and "the latest results" in " ".join(text.split())
    if page.get_all("Project-URL") is None:  # no address is known yet: the files are named
        assert links == []
    assert "pyspark<5,>=4.2" in page.get_all("Requires-Dist", [])


def test_with_an_address_the_links_are_absolute() -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.ReadmeHook(str(ROOT), {"repository": "https://example.org/trident/"})
    metadata: dict[str, dict[str, str]] = {}
    hook.update(metadata)
    assert "](https://example.org/trident/blob/main/docs/guide/windows.md)" in metadata["readme"]["text"]
    assert metadata["urls"]["Changelog"] == "https://example.org/trident/blob/main/CHANGELOG.md"
    assert module.with_working_links("[a](b.md), [c](#d), [e](https://f)", "") == "a, [c](#d), [e](https://f)"


def test_what_a_program_needs_is_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = (
        "import trident, trident.functions, trident.spouts, trident.state, trident.testing\n"
        "import trident_state, trident_spouts, trident.demo\n"
        "print(trident.__file__, len([*trident.demo.CORPUS.glob('*.txt')]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=_environment(installed), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert ran.stdout.split() == [str(installed / "trident" / "__init__.py"), "136"]
    for package in ("trident", "trident_client", "trident_state", "trident_spouts"):
        assert (installed / package / "py.typed").exists()


@pytest.mark.spark
def test_the_first_program_of_the_readme_runs_as_printed_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    program = blocks_of(ROOT / "README.md")[0]
    (tmp_path / "first.py").write_text(program, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "first.py"],
        cwd=tmp_path, env=_environment(installed), capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert ran.stdout.splitlines() == re.findall(r"print\(.*\)  # (.*)", program), ran.stderr
