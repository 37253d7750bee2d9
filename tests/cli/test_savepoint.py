"""``trident savepoint`` and ``trident fork``: what they do, print and refuse."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.forks import BATCHES, LATER, contents, save, words
from trident import Count, TridentTopology, listSavepoints
from trident.cli.main import main
from trident.log.sqlite_log import SqliteLog
from trident.spouts import BatchSpout
from trident.state import MemoryMapState

Run = Callable[..., Result]

topology = words(BATCHES)
"""The program that `trident savepoint create` loads."""

HERE = f"{__name__}:topology"


@pytest.fixture
def trident_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line; ``--checkpoint`` comes from the environment."""
    monkeypatch.setenv("TRIDENT_CHECKPOINT", str(tmp_path))
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
    runner = CliRunner(**apart)  # type: ignore[arg-type]
    return lambda *given, **more: runner.invoke(main, list(map(str, given)), **more)


def done(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(result: Result, code: int = 1) -> str:
    assert result.exit_code == code and "Traceback" not in result.stderr, result.output
    return result.stderr


def test_a_savepoint_of_a_stopped_topology_is_forked(trident_: Run, tmp_path: Path) -> None:
    assert contents(topology, "first", tmp_path) == {"dog": 2, "cat": 1}
    create = ("savepoint", "create", HERE, "before", "--name", "first", "--engine", "embedded")
    (made,) = done(trident_(*create))
    assert (made["txids"], made["entries"]) == ({"words": 2}, {"counts": 2})
    assert done(trident_("savepoint", "list", "first")) == [made]
    assert "there is a savepoint 'before'" in refused(trident_(*create))
    result = trident_("fork", "first", "before", "second")
    assert done(result) == [] and "second continues from savepoint before of first" in result.stderr
    assert contents(words(LATER), "second", tmp_path) == {"dog": 3, "cat": 1, "cow": 1}
    assert "is complete" in refused(trident_("fork", "first", "before", "second"))
    assert refused(trident_("savepoint", "drop", "first", "before"), 1).endswith("Aborted!\n")
    assert done(trident_("savepoint", "drop", "first", "before", "--yes")) == []
    assert "no savepoints of first" in trident_("savepoint", "list", "first").stderr
    assert "no savepoint 'before'" in refused(trident_("savepoint", "drop", "first", "before", "--yes"))


def test_a_topology_that_a_driver_may_hold_is_not_taken(trident_: Run, tmp_path: Path) -> None:
    contents(topology, "first", tmp_path)
    log = SqliteLog(tmp_path / "first" / "log.sqlite", "first")
    lease = log.take()
    create = ("savepoint", "create", HERE, "before", "--name", "first", "--engine", "embedded")
    assert "a driver holds topology 'first' (epoch 2)" in refused(trident_(*create))
    assert log.lease() == lease and listSavepoints("first", tmp_path) == []
    done(trident_(*create, "--force"))
    assert [info.name for info in listSavepoints("first", tmp_path)] == ["before"]
    log.close()


class Held(BatchSpout):
    outputFields = "word string"

    def emitBatch(self, batchId: int) -> Any:
        return None

    def ack(self, batchId: int) -> None: ...


def test_a_topology_is_restored(trident_: Run, tmp_path: Path) -> None:
    save(topology, tmp_path)
    assert contents(words(LATER), "first", tmp_path) == {"dog": 3, "cat": 1, "cow": 1}
    assert refused(trident_("restore", "first", "before"), 1).endswith("Aborted!\n")
    assert "keepPositions='x'" in refused(trident_("restore", "first", "before", "--keep-position", "x", "--yes"))
    assert "anew='x'" in refused(trident_("restore", "first", "before", "--anew", "x", "--yes"))
    assert "give --log-url" in refused(trident_("restore", "first", "before", "--log-prefix", "p", "--yes"), 2)
    log = SqliteLog(tmp_path / "first" / "log.sqlite", "first")
    log.take()
    log.close()
    assert "use force" in refused(trident_("restore", "first", "before", "--yes"))
    result = trident_("restore", "first", "before", "--yes", "--force")
    assert done(result) == [] and "first continues from savepoint before" in result.stderr
    assert contents(words([*BATCHES, ["owl"]]), "first", tmp_path) == {"dog": 2, "cat": 1, "owl": 1}
    done(trident_("restore", "first", "before", "--yes", "--anew", "words"))
    assert contents(words([["owl"]]), "first", tmp_path) == {"dog": 2, "cat": 1, "owl": 1}


def test_places_and_streams_of_a_fork(trident_: Run, tmp_path: Path) -> None:
    held = TridentTopology()
    held.newStream("words", Held()).groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="counts"
    )
    save(held, tmp_path)
    assert "anew=['words']" in refused(trident_("fork", "first", "before", "second"))
    done(trident_("fork", "first", "before", "second", "--to-checkpoint", tmp_path / "b", "--anew", "words"))
    assert contents(words(BATCHES), "second", tmp_path / "b") == {"dog": 2, "cat": 1}
    assert "no savepoint 'other'" in refused(trident_("fork", "first", "other", "third"))
    assert "give --to-log-url" in refused(trident_("fork", "first", "before", "x", "--to-log-prefix", "p"), 2)
    assert "give --log-url" in refused(trident_("savepoint", "create", HERE, "x", "--log-prefix", "p"), 2)
