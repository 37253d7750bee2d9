"""The tutorial's programs and commands, in its order, print what it says."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.pages import run_session
from tests.support.server import RedisServer

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
ON_SPARK = "\n## On Spark\n"


def environment(scripts: Path) -> dict[str, str]:
    """Return an environment in which `python` and `trident` are those of these sources."""
    for name, arguments in (("python", ""), ("trident", "-m trident")):
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        script.chmod(0o755)
    roots = os.pathsep.join(str(ROOT / folder) for folder in ("", "state", "spouts"))
    return {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": roots}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for folder in (tmp_path / "tutorial", tmp_path / "bin"):
        folder.mkdir()
    return tmp_path / "tutorial", tmp_path / "bin"


@pytest.mark.soak
def test_the_tutorial_prints_what_it_says(folders: tuple[Path, Path], shared_redis: RedisServer) -> None:
    before = TEXT[: TEXT.index(ON_SPARK)]
    home, scripts = folders
    assert run_session(before, home, environment(scripts), **{"redis://localhost": shared_redis.url}) == 15


@pytest.mark.spark
@pytest.mark.soak
def test_the_tutorial_goes_on_with_spark(folders: tuple[Path, Path]) -> None:
    home, scripts = folders
    begin, end = TEXT.index("\n## A state\n"), TEXT.index("\n## Ask the running program\n")
    assert run_session(TEXT[begin:end] + TEXT[TEXT.index(ON_SPARK) :], home, environment(scripts)) == 11


def test_a_page_that_says_something_else_fails(folders: tuple[Path, Path]) -> None:
    home, scripts = folders
    page = "```python\n# one.py\nprint(1)\n```\n\n```console\n$ python one.py\n1\n$ kill -9 $$\nKilled\n```\n"
    assert run_session(page, home, environment(scripts)) == 2
    with pytest.raises(AssertionError, match=r"\$ python one.py\n1"):
        run_session(page.replace("\n1\n", "\n2\n"), home, environment(scripts))
    with pytest.raises(AssertionError, match="No such file"):
        run_session("```console\n$ cat two\n```\n", home, environment(scripts))
