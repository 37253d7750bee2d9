"""``trident tag``: what it does, prints and refuses."""

import inspect
import json
from collections.abc import Callable, Iterator
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
PLACE = "tagged_program:topology"


Run = Callable[..., Result]


@pytest.fixture(params=["server", "program"])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Run, list[str]]]:
    """Run a command line beside a topology, and name the source for it; ``--checkpoint`` is in the environment.

    The source is the topology's server, or its program after it has ended.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIDENT_CHECKPOINT", "checkpoint")
    monkeypatch.syspath_prepend(tmp_path)
    Path("tagged_program.py").write_text(PROGRAM)
    names: dict[str, Any] = {}
    exec(PROGRAM, names)  # noqa: S102
    with start_local(names["topology"], name="wc", checkpointLocation="checkpoint") as running:
        running.processAllAvailable()
        with running.serve() as server:
            if request.param == "server":
                yield _run, [server.url]
    if request.param == "program":
        yield _run, [PLACE, "--name", "wc"]


def _run(*given: Any) -> Result:
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
    return CliRunner(**apart).invoke(main, list(map(str, given)))  # type: ignore[arg-type]


def done(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(result: Result, code: int = 1) -> str:
    assert result.exit_code == code and "Traceback" not in result.stderr, result.output
    return result.stderr


def test_tags_are_made_read_listed_and_dropped(source: tuple[Run, list[str]]) -> None:
    trident_, here = source
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
    get = ("state", "get", "wc", "counts", "--program", PLACE)
    assert done(trident_(*get, "dog", "--as-of", "tag:last")) == [{"key": "dog", "value": 2}]
    done(trident_("tag", "drop", *here, "last", "--yes"))
    assert trident_("tag", "list", *here).stderr == f"no tags of {'wc' if here[0] == PLACE else here[0]}\n"
    assert "TagNotFoundError: no tag 'last'" in refused(trident_("tag", "drop", *here, "last", "--yes"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("http://x", "--name", "wc", "--checkpoint", "c"), "--name, --checkpoint: this is an option of a program"),
        (
            ("tagged:topology", "--token", "env:PATH"),
            "--token: this is an option of a server, but 'tagged:topology' is not",
        ),
        (("tagged",), "'tagged': expected module:topology"),
    ],
)
def test_an_option_of_the_other_source_is_refused(words: tuple[str, ...], message: str) -> None:
    assert message in refused(_run("tag", "list", *words), 2)
    assert message in refused(_run("sql", words[0], "select 1", *words[1:]), 2)
