"""An upsert topic holds the rows of the table as of each batch, whatever kills the driver."""

import json
import multiprocessing
import os
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.changes import FIELDS, History
from tests.support.kafka import KafkaBroker
from trident import TridentTopology
from trident.base import crash_points
from trident.errors import OutputRefusedError, TridentError
from trident.spouts import FeederBatchSpout, FixedBatchSpout, KafkaSpout
from trident.testing import TestOutput
from trident.testing.local import start_local

Rows = dict[Any, Any]


def topology(servers: str, topic: str, batches: list[Any]) -> TridentTopology:
    """Return a topology that keeps the rows in `topic`, and the sizes of their groups in a second topic."""
    made = TridentTopology()
    changes = made.newStream("rows", FixedBatchSpout(FIELDS, batches)).asChanges("kind")
    changes.writeChanges(servers, topic, "id", name="rows")
    table = changes.toTable("id", name="table")
    table.changes().filter("g", lambda g: g is not None).writeChanges(
        servers, f"{topic}-raw", "id", valueFields="g", valueFormat="raw", name="raw"
    )
    return made


def by_batch(kafka: KafkaBroker, topic: str) -> dict[int, Rows]:
    """Return the messages of each batch by their keys. Fails if a batch has two of a key."""
    found = defaultdict[int, Rows](dict)
    for message in kafka.messages(topic):
        batch = found[int(dict(message.headers())["trident.txid"])]
        key = json.loads(message.key())["id"]
        assert key not in batch, "one message for each key of a batch"
        batch[key] = message.value()
    return found


def check(kafka: KafkaBroker, topic: str, history: History) -> None:
    rows, raw = by_batch(kafka, topic), by_batch(kafka, f"{topic}-raw")
    now, names = Rows(), Rows()
    for txid, after in enumerate(history.after, 1):
        now |= {key: None if value is None else tuple(json.loads(value).values()) for key, value in rows[txid].items()}
        assert {key: row for key, row in now.items() if row is not None} == after, f"as of batch {txid}"
        names |= {key: None if value is None else value.decode() for key, value in raw[txid].items()}
        held = {key: group for key, (_, group, _) in after.items() if group is not None}
        assert {key: name for key, name in names.items() if name is not None} == held, f"as of batch {txid}"


def test_the_topic_holds_the_rows_as_of_each_batch(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    history = History(3).grow(12)
    for each in (topic, f"{topic}-raw"):
        kafka.create(each, 2)
    made = topology(kafka.servers, topic, history.batches)
    with start_local(made, name=topic, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    check(kafka, topic, history)


def live(servers: str, topic: str, folder: Path, crash_at: str, seed: int) -> None:
    """Live once, as a driver: killed at a point, or at the end, when all is committed."""
    crash_points.arm(crash_at)
    made = topology(servers, topic, History(seed).grow(6).batches)
    start_local(made, name=topic, checkpointLocation=folder).processAllAvailable(timeout=60)
    os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.parametrize(
    "points",
    [
        ("output.staged:2", "output.published:3"),
        pytest.param(("output.published:2", "committed.before:1", "output.staged:4"), marks=pytest.mark.soak),
        pytest.param(("output.before:3", "output.published:1", "output.staged:1"), marks=pytest.mark.soak),
    ],
)
def test_drivers_that_die_write_each_change_once(
    kafka: KafkaBroker, topic: str, tmp_path: Path, points: tuple[str, ...]
) -> None:
    for each in (topic, f"{topic}-raw"):
        kafka.create(each)
    forks: Any = multiprocessing.get_context("forkserver")
    for point in (*points, ""):
        child = forks.Process(target=live, args=(kafka.servers, topic, tmp_path, point, 5))
        child.start()
        child.join(60)
        assert child.exitcode == -(signal.SIGKILL if point else signal.SIGUSR1), f"up to {point or 'the end'}"
    check(kafka, topic, History(5).grow(6))


def test_a_null_in_a_key_fails_the_batch_before_it_is_frozen(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka.create(topic)
    made = TridentTopology()
    batch: list[Any] = [(1, "a", 1, "insert"), (None, "b", 2, "insert")]
    stream = made.newStream("rows", FixedBatchSpout(FIELDS, [batch])).asChanges("kind")
    stream.writeChanges(kafka.servers, topic, "id")
    with (
        pytest.raises(TridentError, match=r"writeChanges.*key field 'id' is null"),
        start_local(made, name=topic, checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=60)
    assert kafka.values(topic) == []


def test_a_topic_of_rows_can_be_read_again(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka.create(topic)
    history = History(9).grow(4)
    made = TridentTopology()
    stream = made.newStream("rows", FixedBatchSpout(FIELDS, history.batches)).asChanges("kind")
    stream.writeChanges(kafka.servers, topic, "id")
    output = TestOutput()
    made.newStream("read", KafkaSpout(kafka.servers, topic)).foreachArrow(output)
    with start_local(made, name=topic, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        while len(output.rows) < len(kafka.messages(topic)):
            running.processAllAvailable(timeout=60)
    now = {row.key: row.value for row in output.rows}
    rows = [tuple(json.loads(value).values()) for value in now.values() if value is not None]
    assert sorted(rows, key=lambda row: row[0]) == [history.rows[key] for key in sorted(history.rows)]


def written(kafka: KafkaBroker, topic: str, folder: Path, *batches: Any) -> None:
    """Run a topology that writes batches of changes; a number gives the topic so many partitions."""
    made, feeder = TridentTopology(), FeederBatchSpout("id long, v long, kind string")
    changes = made.newStream("s", feeder).asChanges("kind")
    changes.writeChanges(kafka.servers, topic, "id", name="rows")
    with start_local(made, name=topic, checkpointLocation=folder, commitRetrySecs=5) as running:
        for batch in batches:
            if isinstance(batch, int):
                kafka.grow(topic, batch)
                continue
            feeder.feed(batch)
            running.processAllAvailable(timeout=60)
        running.processAllAvailable(timeout=60)


def kinds(kind: str) -> list[Any]:
    return [(key, 1, kind) for key in range(20)]


def test_rows_do_not_move_to_other_partitions_when_the_topic_gets_more(
    kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """A deletion in another partition than its row would leave the row there for ever."""
    kafka.create(topic, 2)
    told = f"topic '{topic}' has 5 partitions, and had 2 when its rows were written"
    with pytest.raises(OutputRefusedError, match=told):
        written(kafka, topic, tmp_path / "running", kinds("insert"), 5, kinds("delete"))
    assert len(kafka.messages(topic)) == 20
    with pytest.raises(OutputRefusedError, match=told):  # the batch waits
        written(kafka, topic, tmp_path / "running")
    assert len(kafka.messages(topic)) == 20


def test_a_topic_may_get_more_partitions_before_its_first_row(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka.create(topic, 2)
    written(kafka, topic, tmp_path, 3, kinds("insert"))
    assert len(kafka.messages(topic)) == 20
    with pytest.raises(OutputRefusedError, match="has 4 partitions, and had 3"):
        written(kafka, topic, tmp_path, 4, kinds("delete"))
