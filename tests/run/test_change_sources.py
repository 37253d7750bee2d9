"""Events of Debezium and compacted topics as sources of changes: states are those of the source's table."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.change_events import ROW, Connector, Message, compacted
from tests.support.changes import History, expected, found, program
from tests.support.soak import some_of
from trident import Debezium, FromJson, Stream, TridentTopology
from trident.errors import BatchFailedError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import CRASH_POINTS, crash_at, run_through
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

MESSAGE = "key binary, value binary"
POINTS = [point for point in CRASH_POINTS if not point.startswith("output.")]


def complete(messages: Stream) -> Stream:
    """Return the changes in complete events."""
    return messages.asChanges(Debezium(ROW)).toStream()


def by_key(messages: Stream) -> Stream:
    """Return the changes of a table of events in which rows that go have only the key."""
    return messages.asUpserts(Debezium(ROW)).toTable("id", name="held").changes().toStream()


def tombstones(messages: Stream) -> Stream:
    """Return the changes of a table that a compacted topic holds."""
    rows = messages.each("key", FromJson("id long")).each("value", FromJson("g string, v long")).drop("key")
    return rows.asUpserts("value").toTable("id", name="held").changes().toStream()


READERS: dict[str, Any] = {"complete": complete, "key only": by_key, "tombstones": tombstones}


def messages_of(reader: str, history: History, connector: Connector, first: int = 0) -> list[list[Message]]:
    batches = history.batches[first:]
    if reader == "tombstones":
        return [compacted(batch) for batch in batches]
    repeats = 5 if reader == "key only" else 0
    return [connector.messages(batch, repeats * (at % 3 == 2)) for at, batch in enumerate(batches)]


def add_states(topology: TridentTopology, messages: Stream, reader: str) -> None:
    changes = READERS[reader](messages).rename("_change_type", "kind")
    program(topology, changes, MemoryMapState.opaque)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("seed", some_of(range(20), range(2)))
def test_states_are_those_of_the_sources_table_over_restarts(seed: int, reader: str, tmp_path: Path) -> None:
    history, connector = History(seed), Connector(seed, full=reader == "complete")
    topology, feeder = TridentTopology(), FeederBatchSpout(MESSAGE)
    add_states(topology, topology.newStream("s", feeder), reader)
    for _ in range(3):
        first = len(history.batches)
        history.grow(4)
        with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
            pairs = zip(messages_of(reader, history, connector, first), history.after[first:], strict=True)
            for batch, rows in pairs:
                feeder.feed(batch, wait=True, timeout=20)
                wanted = expected(rows.values())
                assert found(running, wanted) == wanted


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("point", some_of(POINTS, POINTS[8:22:2]))
def test_a_killed_driver_loses_and_repeats_nothing(point: str, reader: str, tmp_path: Path) -> None:
    seed = POINTS.index(point)
    history, connector = History(seed).grow(5), Connector(seed, full=reader == "complete")
    topology = TridentTopology()
    spout = FixedBatchSpout(MESSAGE, messages_of(reader, history, connector))
    add_states(topology, topology.newStream("s", spout), reader)
    with crash_at(point, 2), run_through(topology, name="t", checkpointLocation=tmp_path) as running:
        wanted = expected(history.rows.values())
        assert found(running, wanted) == wanted


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b'{"op": "u", "before": null, "after": {"id": 1}}', "row before the update is missing, .*REPLICA IDENTITY"),
        (b'{"op": "d", "before": {"id": 1, "g": "a"}}', r"lacks 'v', .*asUpserts\(Debezium\(...\)\)\.toTable\(key\)"),
        (b'{"op": "t"}', "the table was truncated, .*Reset the topology"),
        (b'{"id": 1}', "expected an event of Debezium, with 'op' one of .*FromJson and asUpserts"),
    ],
)
def test_an_event_that_cannot_be_a_change_fails_its_batch(value: bytes, problem: str, tmp_path: Path) -> None:
    topology = TridentTopology()
    changes = topology.newStream("s", FixedBatchSpout(MESSAGE, [[(b"", value)]])).asChanges(Debezium(ROW))
    changes.toTable("id", name="rows")
    with (
        pytest.raises(BatchFailedError, match=problem) as failed,
        start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=20)
    assert "asChanges(Debezium)" in str(failed.value) and "test_change_sources.py" in str(failed.value)


@pytest.mark.parametrize(
    "messages",
    [
        [(b'{"id": 1}', b'{"v": 1}'), (b'{"ID": 1}', None)],
        [(b'{"id": 1}', b'{"v": 1}'), (b'{"ID": 2}', b'{"v": 2}')],
    ],
    ids=["deletion", "row"],
)
@pytest.mark.parametrize("others", [0, 5000])
def test_a_row_without_its_key_fails_its_batch(messages: list[Message], others: int, tmp_path: Path) -> None:
    """A deletion of the key null would leave the row there, and rows of the key null would replace each other."""
    topology = TridentTopology()
    more = [(b'{"id": 3}', b'{"v": 3}')] * others
    stream = topology.newStream("s", FixedBatchSpout(MESSAGE, [[message, *more] for message in messages]))
    rows = stream.each("key", FromJson("id long")).each("value", FromJson("v long"))
    rows.asUpserts("value").toTable("id", valueFields="v", name="rows")
    with (
        pytest.raises(BatchFailedError, match="key field 'id' is null: the key of the table must be the source's key"),
        start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=20)


def test_a_debezium_deletion_without_the_key_fails_its_batch(tmp_path: Path) -> None:
    topology = TridentTopology()
    events = [b'{"op": "c", "after": {"id": 1, "g": "a", "v": 1}}', b'{"op": "d", "before": {"ID": 1}}']
    stream = topology.newStream("s", FixedBatchSpout(MESSAGE, [[(b"", event)] for event in events]))
    stream.asUpserts(Debezium(ROW)).toTable("id", name="rows")
    with (
        pytest.raises(BatchFailedError, match="key field 'id' is null"),
        start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=20)


def test_an_event_that_cannot_be_read_may_become_a_dead_letter(tmp_path: Path) -> None:
    topology = TridentTopology()
    values = [b'{"op": "c", "after": {"id": 1, "g": "a"}}', b'{"op": "t"}', b'{"op": "d", "before": {"id": 2}}']
    stream = topology.newStream("s", FixedBatchSpout(MESSAGE, [[(b"", value) for value in values]]))
    upserts = stream.asUpserts(Debezium(ROW), onError="deadLetter")
    upserts.toTable("id", name="rows")
    letters = list[Any]()
    upserts.deadLetters().foreachArrow(lambda batch, txid, attempt: letters.extend(batch.to_pylist()))
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("rows").items()) == {1: ("a", None)}
    assert [letter["step"] for letter in letters] == ["s/1:asUpserts(Debezium)"]
