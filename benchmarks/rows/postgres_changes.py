"""Changes of a table into counts: our spout on the embedded engine, against a loop that reads the same slot by hand."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import FULL, Bench
from benchmarks.check import Counts
from benchmarks.rounds import median_seconds
from benchmarks.row import Row
from benchmarks.timing import Timed
from benchmarks.workload import Workload
from tests.support.postgres import LOGICAL, PostgresServer, out_of_reach
from trident import Count, TridentTopology
from trident.spouts import PostgresChangesSpout
from trident.state import MemoryMapState

ROWS = 200_000
"""The rows that are inserted. Half of them are updated, a quarter is deleted."""
TRANSACTION = 1_000
BATCH = 100_000
SLOT = "changes"
_OF_LOOP, _A_SECOND = 0.9, 50_000
"""The promise: this part of the loop's rate or so many changes a second, whichever is less."""


def postgres_changes(bench: Bench, load: Workload) -> Iterator[Row]:
    """Change a table once, and count its rows by customer from the slot in each way, round after round."""
    if reason := out_of_reach():
        print(f"    left out: {reason}", flush=True)
        return
    rows = ROWS if bench.scale == FULL else ROWS // 50
    with PostgresServer(*LOGICAL) as server:
        _fill(server, rows)
        ways = _Ways(server)
        expected = ways.expected()
        seconds = median_seconds(bench, {"by hand": ways.by_hand, "ours": ways.ours}, expected)
    rates = {name: (rows + rows // 2 + rows // 4) / each for name, each in seconds.items()}
    text = "changes of a PostgreSQL table into a count, embedded engine, memory state; against a loop over the slot"
    target = min(_OF_LOOP, _A_SECOND / rates["by hand"])
    yield Row("slot.embedded", text, rates["ours"], rates["by hand"], "changes/s", target)


def _fill(server: PostgresServer, rows: int) -> None:
    server.run(
        "create table orders (id bigint primary key, customer text, price bigint, at timestamptz default now())",
        "alter table orders replica identity full",
        "create publication orders for table orders",
        "select pg_create_logical_replication_slot('pristine', 'pgoutput')",
    )
    for first in range(1, rows + 1, TRANSACTION):
        ids = f"generate_series({first}, {first + TRANSACTION - 1}) n"
        server.run(f"insert into orders select n, 'customer ' || n % 5003, n % 997 from {ids}")
    for first in range(1, rows + 1, TRANSACTION):
        between = f"id between {first} and {first + TRANSACTION - 1}"
        server.run(f"update orders set customer = 'customer ' || id % 4001 where {between} and id % 2 = 0")
        server.run(f"delete from orders where {between} and id % 4 = 1")


class _Ways:
    """The ways to count. Each reads a copy of the slot, and returns its seconds and its counts."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def expected(self) -> Counts:
        with self._server.connect() as connection:
            return dict(connection.execute("select customer, count(*) from orders group by customer").fetchall())

    def _rewind(self) -> None:
        self._server.run(
            f"select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '{SLOT}'",
            f"select pg_copy_logical_replication_slot('pristine', '{SLOT}')",
        )

    def ours(self, folder: Path) -> tuple[float, Counts]:
        self._rewind()
        topology = TridentTopology()
        spout = PostgresChangesSpout(
            self._server.url,
            "orders",
            "customer string",
            slot=SLOT,
            publication="orders",
            startingFrom="slot",
            maxRowsPerBatch=BATCH,
        )
        customers = topology.newStream("orders", spout).asChanges().groupBy("customer")
        customers.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        with Timed() as timed:
            running = topology.start(engine="embedded", name="changes", checkpointLocation=str(folder))
            running.processAllAvailable()
        with running:
            return timed.seconds, dict(running.state("counts").items())

    def by_hand(self, folder: Path) -> tuple[float, Counts]:
        self._rewind()
        counts: Counter[str] = Counter()
        peek = (
            f"select data from pg_logical_slot_peek_binary_changes('{SLOT}', null, {BATCH}, 'proto_version', '1', "
            f"'publication_names', 'orders')"
        )
        with Timed() as timed, self._server.connect() as connection:
            while messages := connection.cursor(binary=True).execute(peek).fetchall():
                end = 0
                for (message,) in messages:
                    end = _count(message, counts) or end
                advance = f"select pg_replication_slot_advance('{SLOT}', '{end >> 32:X}/{end & 0xFFFFFFFF:X}')"
                connection.execute(advance.encode())
        return timed.seconds, {customer: count for customer, count in counts.items() if count}


def _count(message: bytes, counts: Counter[str]) -> int | None:
    """Count the rows of a message of pgoutput; return the LSN at the end of a transaction."""
    letter = message[:1]
    if letter == b"C":
        return int.from_bytes(message[10:18])
    if letter == b"I":
        counts[_values(message, 6)[0][1]] += 1
    elif letter == b"D":
        counts[_values(message, 6)[0][1]] -= 1
    elif letter == b"U":
        before, at = _values(message, 6)
        counts[before[1]] -= 1
        counts[_values(message, at + 1)[0][1]] += 1
    return None


def _values(message: bytes, at: int) -> tuple[list[str], int]:
    """Return the values of a row, all of them texts, and the place after it."""
    values = []
    count = int.from_bytes(message[at : at + 2])
    at += 2
    for _ in range(count):
        end = at + 5 + int.from_bytes(message[at + 1 : at + 5])
        values.append(message[at + 5 : end].decode())
        at = end
    return values, at
