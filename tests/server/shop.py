"""A topology with all that the page shows: groups, promises, windows, functions, dead letters, a step that fails."""

import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trident import Count, MapGet, Sum, TridentTopology, TumblingEventTimeWindow
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout, FileSpout
from trident.state import MemoryMapState

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def each_item(items: str, least: int) -> list[tuple[str, int]]:
    return [(item, least) for item in items.split()]


@dataclass
class Shop:
    """Orders as lines (item,amount,minute) of files in a folder, and visits."""

    folder: Path
    lenient: bool = False
    """Whether an amount that is no number counts as 0: the corrected code."""
    visited: bool = True
    """Whether there are visits, in a batch group of their own that goes on when the orders' stops."""
    visits: FeederBatchSpout = field(default_factory=lambda: FeederBatchSpout("page string"))

    def parse(self, line: str) -> tuple[str, int, datetime]:
        item, amount, minute = line.split(",")
        if self.lenient and not amount.isdecimal():
            amount = "0"
        return item, int(amount), NOON + timedelta(minutes=int(minute))

    def open_till(self, item: str) -> bool:
        if item == "fire":
            raise RuntimeError("the till is on fire")
        return True

    def topology(self) -> TridentTopology:
        topology = TridentTopology()
        orders = topology.newStream("orders", FileSpout(str(self.folder / "*.txt"))).replayable()
        parsed = orders.each("line", self.parse, "item string, amount long, at timestamp", onError="deadLetter")
        paid = parsed.filter("item", self.open_till)
        sold = paid.groupBy("item").persistentAggregate(MemoryMapState.opaque(), "amount", Sum(), "sold", name="sold")
        hours = TumblingEventTimeWindow("1 hour", "at", lateness="5 minutes")
        paid.window(hours, MemoryMapState.opaque(), "amount", Sum(), "sum", name="hours").foreachArrow(
            lambda table, txid, attempt: None, name="report"
        )
        _ = topology.deadLetterState(MemoryMapState.opaque())
        if self.visited:
            visits = topology.newStream("visits", self.visits)
            visits.groupBy("page").persistentAggregate(MemoryMapState.nonTransactional(), Count(), "n", name="visited")
        topology.newDRPCStream("sold", "item string").stateQuery(sold, "item", MapGet(), "sold")
        (
            topology.newDRPCStream("enough", "items string, least long")
            .flatMap(
                "items, least", lambda items, least: [(i, least) for i in items.split()], "item string, least long"
            )
            .stateQuery(sold, "item", MapGet(), "sold")
            .filter("sold, least", lambda sold, least: (sold or 0) >= least)
        )
        return topology

    def order(self, running: RunningTopology, *lines: str, wait: bool = True) -> None:
        whole = self.folder / f"{uuid.uuid4()}.part"
        whole.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        whole.rename(self.folder / f"{time.time_ns()}.txt")
        if wait:
            running.processAllAvailable(30)

    def fill(self, running: RunningTopology) -> None:
        """Have two batches of orders, one broken order, and a batch of visits committed."""
        self.order(running, *(f"item {n:03},{n},{n % 50}" for n in range(120)))
        self.order(running, "apple,3,10", "pear,7,55", "plum,many,56")
        self.visits.feed([("/home",), ("/cart",), ("/home",)])
        running.processAllAvailable(30)
