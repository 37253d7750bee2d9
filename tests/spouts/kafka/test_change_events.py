"""Events of Debezium on a real topic: states are those of the database's tables, through drivers that die."""

import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.support.change_events import ROW, Connector, Message
from tests.support.changes import History
from tests.support.kafka import KafkaBroker
from tests.support.pages import blocks_of
from tests.support.soak import Soak, some_of
from trident import ChangeStream, Count, Debezium, FromJson, TridentTopology
from trident.spouts import KafkaSpout
from trident.state import MemoryMapState
from trident.testing import CRASH_POINTS, crash_at, run_through
from trident.testing.local import start_local

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "change-sources.md"
POINTS = [point for point in CRASH_POINTS if not point.startswith(("output.", "snapshot."))]


def send(kafka: KafkaBroker, topic: str, messages: list[Message]) -> None:
    """Send messages as producers do: those of a key to one of two partitions."""
    for key, value in messages:
        kafka.send(topic, [value], partition=zlib.crc32(key) % 2, key=key)


class Shop:
    """Two tables of a database, their topics, and a program over them."""

    def __init__(self, kafka: KafkaBroker, topic: str, seed: int) -> None:
        self.kafka, self.topics = kafka, [kafka.create(f"{topic}-{name}", 2) for name in "ab"]
        self.histories = History(seed), History(seed + 100)
        self.connectors = Connector(seed), Connector(seed, full=False)

    def change(self, batches: int) -> None:
        for topic, history, connector in zip(self.topics, self.histories, self.connectors, strict=True):
            first = len(history.batches)
            for batch in history.grow(batches).batches[first:]:
                repeats = 0 if connector.full else 3  # after a restart, a connector sends its last events again
                send(self.kafka, topic, connector.messages(batch, repeats))

    def program(self) -> TridentTopology:
        topology = TridentTopology()
        first, second = (
            topology.newStream(name, KafkaSpout(self.kafka.servers, topic, maxOffsetsPerBatch=9))
            for name, topic in zip("ab", self.topics, strict=True)
        )
        changes: ChangeStream = first.asChanges(Debezium(ROW))
        changes.groupBy("g").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="sizes")
        left = changes.toTable("id", name="left")
        right = second.asUpserts(Debezium(ROW)).toTable("id", name="right")
        left.join(right, outputFields="h, w").toTable("id", name="joined")
        return topology

    def check(self, running: Any) -> None:
        left, right = (history.rows for history in self.histories)
        joined = {key: (*left[key][1:], *right[key][1:]) for key in left if key in right}
        assert dict(running.state("left").items()) == {key: row[1:] for key, row in left.items()}
        assert dict(running.state("right").items()) == {key: row[1:] for key, row in right.items()}
        assert dict(running.state("sizes").items()) == Counter(row[1] for row in left.values())
        assert dict(running.state("joined").items()) == joined


@pytest.mark.parametrize("point", some_of(POINTS, ["emit.after", "freeze.after", "commit.state.after"]))
def test_states_are_those_of_the_tables_after_each_crash(
    kafka: KafkaBroker, topic: str, point: str, tmp_path: Path
) -> None:
    shop = Shop(kafka, topic, POINTS.index(point))
    topology = shop.program()
    for visit in (1, 4):
        shop.change(4)
        with crash_at(point, visit), run_through(topology, name="t", checkpointLocation=tmp_path) as running:
            shop.check(running)


@contextmanager
def broker_dying(kafka: KafkaBroker, after: float) -> Iterator[None]:
    """Kill the broker some time into the block, and start it again at once."""

    def die() -> None:
        time.sleep(after)
        kafka.kill()
        kafka.start()

    thread = threading.Thread(target=die)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.soak
def test_kills_of_drivers_and_brokers_change_nothing(
    mortal: KafkaBroker, topic: str, tmp_path: Path, soak: Soak
) -> None:
    shop = Shop(mortal, topic, soak.seed)
    topology = shop.program()
    for chance in soak.draws(100):
        shop.change(chance.randint(1, 3))
        point, visit = chance.choice(POINTS), chance.randint(1, 3)
        dying = broker_dying(mortal, chance.random()) if chance.random() < 0.3 else nullcontext()
        with dying, crash_at(point, visit), run_through(topology, name="t", checkpointLocation=tmp_path) as running:
            shop.check(running)


def test_a_compacted_topic_is_a_table(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    kafka.create(topic, 2)
    topology = TridentTopology()
    users = topology.newStream("users", KafkaSpout(kafka.servers, topic))
    rows = users.each("key", FromJson("id long")).each("value", FromJson("name string, city string"))
    table = rows.asUpserts().toTable("id", valueFields="name, city", name="users")
    table.changes().groupBy("city").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="cities")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        send(kafka, topic, [(b'{"id": 1}', b'{"name": "Ann", "city": "Ulm"}'), (b'{"id": 2}', b'{"name": "Bob"}')])
        running.processAllAvailable(timeout=30)
        assert dict(running.state("cities").items()) == {"Ulm": 1, None: 1}
        send(kafka, topic, [(b'{"id": 1}', b'{"name": "Ann"}'), (b'{"id": 2}', None), (b'{"id": 3}', None)])
        running.processAllAvailable(timeout=30)
        assert dict(running.state("users").items()) == {1: ("Ann", None)}
        assert dict(running.state("cities").items()) == {None: 1}


def test_the_guides_programs_follow_tables_and_topics(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    topics = {name: f"{topic}-{name[-5:]}" for name in ("shop.public.orders", "shop.public.sales", "users")}
    names: dict[str, Any] = {}
    text = "\n".join(blocks_of(PAGE)).replace("localhost:9092", kafka.servers)
    for name, made in topics.items():
        text = text.replace(f'", "{name}")', f'", "{kafka.create(made, 2)}")')
    exec(text, names)
    orders, sales, users = topics.values()
    rows = [{"id": id, "customer": "Ann", "price": 10 * id} for id in (1, 2, 3)]
    created: list[Any] = [{"op": "r", "after": row, "source": {"lsn": 7}} for row in rows]
    gone = {"op": "d", "before": {"id": 2}, "source": {"lsn": 8}}
    send(kafka, orders, [(b"", json.dumps(event).encode()) for event in [*created, gone, created[0]]])
    moved = {"op": "u", "before": rows[2], "after": rows[2] | {"price": 5}, "source": {"lsn": 9}}
    events: list[Any] = [*created, moved, created[1], moved]
    send(kafka, sales, [(b"%d" % event["after"]["id"], json.dumps(event).encode()) for event in events])
    send(kafka, users, [(b'{"id": 1}', b'{"name": "Ann", "city": "Ulm"}'), (b'{"id": 2}', b"{}"), (b'{"id": 2}', None)])
    with start_local(names["topology"], name="guide", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("orders").items()) == {1: ("Ann", 10), 3: ("Ann", 30)}
        assert dict(running.state("totals").items()) == {"Ann": (2, 40)}
        assert dict(running.state("revenue").items()) == {(): 10 + 20 + 5}
        assert dict(running.state("cities").items()) == {"Ulm": 1}
    assert names["in_avro"](bytes.fromhex("0000000007") + bytes([0, 2, 14, 0, 2]) + b"c") == [(7, None, "insert")]
