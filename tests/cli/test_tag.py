"""``trident tag``: what it does, prints and refuses."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trident.cli.main import main
from trident.testing.local import start_local

PROGRAM = """
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import DeltaMapState

topology = TridentTopology()
words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",), ("cat",)], [("dog",)]]))
words.groupBy("word").persistentAggregate(DeltaMapState.opaque("states"), Count(), "n", name="counts")
"""


@pytest.fixture
def trident_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command line beside a topology that has run; ``--checkpoint`` comes from the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIDENT_CHECKPOINT", "checkpoint")
    monkeypatch.syspath_prepend(tmp_path)
    Path("tagged_program.py").write_text(PROGRAM)
    names: dict[str, Any] = {}
    exec(PROGRAM, names)  # noqa: S102
    with start_local(names["topology"], name="wc", checkpointLocation="checkpoint") as running:
        running.processAllAvailable()
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
    runner = CliRunner(**apart)  # type: ignore[arg-type]
    return lambda *given: runner.invoke(main, list(map(str, given)))


def done(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(result: Result, code: int = 1) -> str:
    assert result.exit_code == code and "Traceback" not in result.stderr, result.output
    return result.stderr


def test_tags_are_made_read_listed_and_dropped(trident_: Callable[..., Result]) -> None:
    here = ("tagged_program:topology", "--name", "wc")
    (made,) = done(trident_("tag", "create", *here, "first", "--as-of", 1))
    assert (made["name"], made["txids"], made["states"], made["missing"]) == ("first", {"words": 1}, ["counts"], [])
    done(trident_("tag", "create", *here, "last", "--state", "counts"))
    listed = done(trident_("tag", "list", *here))
    assert [(tag["name"], tag["txids"]) for tag in listed] == [("first", {"words": 1}), ("last", {"words": 2})]
    asked = ("sql", *here, "select n from counts where word = 'dog'")
    assert done(trident_(*asked, "--as-of", "tag:first")) == [{"n": 1}]
    assert "TagExistsError: the tag 'first' exists already" in refused(trident_("tag", "create", *here, "first"))
    assert "has no tag 'frist'; did you mean 'first'?" in refused(trident_(*asked, "--as-of", "tag:frist"))
    assert refused(trident_("tag", "drop", *here, "first")).endswith("Aborted!\n")
    assert done(trident_("tag", "drop", *here, "first", "--yes")) == []
    get = ("state", "get", "wc", "counts", "--program", "tagged_program:topology")
    assert done(trident_(*get, "dog", "--as-of", "tag:last")) == [{"key": "dog", "value": 2}]
    done(trident_("tag", "drop", *here, "last", "--yes"))
    assert trident_("tag", "list", *here).stderr == "no tags of wc\n"
    assert "TagNotFoundError: no tag 'last'" in refused(trident_("tag", "drop", *here, "last", "--yes"))
