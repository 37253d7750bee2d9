"""The batch that docs/architecture.md follows by hand leaves in the log and in the state what the page shows."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import ROOT, blocks_of
from trident import TridentTopology
from trident.testing import DriverCrashedError, crash_at, start_local

PAGE = ROOT / "docs" / "architecture.md"
ONE, THREE = '[[("the",)]]', '[[("the",)], [("the",), ("cow",), ("the",)]]'


def topology_of(batches: str) -> TridentTopology:
    """Return the page's topology with these batches."""
    program = next(block for block in blocks_of(PAGE) if THREE in block)
    names: dict[str, Any] = {}
    exec(program.replace(THREE, batches), names)
    made: TridentTopology = names["topology"]
    return made


def run(batches: str, point: str | None = None) -> None:
    """Run the topology once; the driver dies at `point`."""

    def process() -> None:
        with start_local(topology_of(batches), name="wc", checkpointLocation="wc.ckpt") as running:
            running.processAllAvailable(timeout=20)

    if point is None:
        process()
        return
    with crash_at(point), pytest.raises(DriverCrashedError):
        process()


def rows(file: str, query: str) -> list[Any]:
    """Return the rows of a query in an SQLite file."""
    database = sqlite3.connect(file)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def log(columns: str, table: str) -> list[Any]:
    """Return columns of a table of the log."""
    return rows("wc.ckpt/wc/log.sqlite", f"SELECT {columns} FROM {table}")


def state() -> dict[str, Any]:
    """Return the records of the state, and the marker as `$state`."""
    found = dict(rows("state.sqlite", 'SELECT key, record FROM "wc/counts"'))
    records = {key.decode(): json.loads(record) for key, record in found.items()}
    return {key.removeprefix("s"): value.get("marker", value) for key, value in records.items()}


def test_the_batch_that_is_followed_by_hand_is_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(ONE)
    before = {"$state": 1, "the": {"txid": 1, "value": 1, "prev": None}}
    assert (log("committed, frozen", "groups"), log("position", "streams"), state()) == ([(1, 1)], [("0",)], before)

    run(THREE, "freeze.before")  # the first of the two deaths
    digests = '{"words":"83dcefb7:3:b424879d"}'
    assert log("txid, number, epoch, deaths, digests", "attempts") == [(2, 0, 2, 0, digests)]
    assert (log("committed, frozen", "groups"), state()) == ([(1, 1)], before)

    run(THREE, "freeze.before")  # the next start, which dies again
    assert log("txid, number, epoch, deaths, digests", "attempts") == [(2, 1, 3, 1, digests)]

    run(THREE, "commit.state.after")  # the second death
    assert (log("committed, frozen", "groups"), log("position", "streams")) == ([(1, 2)], [("1",)])
    assert log("*", "attempts") == []
    assert log("txid, plan", "batches")[-1] == (2, '{"words":1}')
    assert log("txid, stage, output, rows, length(body)", "frozen")[-1] == (2, 1, "counts", 2, 520)
    after = {
        "$state": 2,
        "the": {"txid": 2, "value": 3, "prev": 1},
        "cow": {"txid": 2, "value": 1, "prev": None},
    }
    assert state() == after

    run(THREE)
    assert (log("committed, frozen", "groups"), state()) == ([(2, 2)], after)
