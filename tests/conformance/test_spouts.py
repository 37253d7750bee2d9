"""Spouts, asked as the runtime asks them; where an attempt fails is in the case."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.conformance.kit import Case, Seen, conforms, ran
from tests.support.plans import logged
from trident import FailedException, TridentTopology
from trident.spouts import (
    BatchCoordinator,
    BatchSpout,
    Emitter,
    FixedBatchSpout,
    OpaquePartitionedSpout,
    PartitionedSpout,
    SpoutKind,
    TransactionAttempt,
    TridentSpout,
)
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.executor import Metadata


class Asked:
    """A spout in a run: plans, attempts and successes by hand. What names a batch is what the log would keep."""

    def __init__(self, spout: Any) -> None:
        self.spout = spout
        self.executor = as_spout(spout).open()
        self.plans: dict[int, Metadata] = {}
        self.after: dict[int, Metadata] = {0: None}

    def emit(self, name: str) -> list[Any]:
        """What attempt "txid:number" brings. A first attempt, and every one of an opaque spout, is planned."""
        txid, number = map(int, name.split(":"))
        if txid not in self.plans or as_spout(self.spout).kind is SpoutKind.OPAQUE:
            self.plans[txid] = logged(self.executor.plan(TransactionAttempt(txid, number), self.after[txid - 1], 0.0))
        if self.plans[txid] is None:
            return []
        emission = self.executor.emit(TransactionAttempt(txid, number), self.plans[txid])
        self.after[txid] = self.plans[txid] if emission.after is None else logged(emission.after)
        return list(emission.arrow().column(0).to_pylist())

    def fails(self, name: str) -> None:
        txid, number = map(int, name.split(":"))
        self.executor.fail(TransactionAttempt(txid, number))

    def success(self, txid: int) -> None:
        self.executor.success(txid, self.after[txid])

    def restart(self) -> None:
        self.executor.close()
        self.executor = as_spout(self.spout).open()


class Logs(PartitionedSpout):
    """Two records a partition and batch, from lists that grow."""

    outputFields = "record string"

    def __init__(self, **logs: str) -> None:
        self.logs = {name: text.split() for name, text in logs.items()}

    def getPartitions(self) -> list[str]:
        return list(self.logs)

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        at = 0 if lastMetadata is None else lastMetadata["end"]
        end = min(at + 2, len(self.logs[partition]))
        metadata = {"at": at, "end": end}
        return self.emitPartitionBatch(attempt, partition, metadata), metadata

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        return self.logs[partition][metadata["at"] : metadata["end"]]


def emitted(asked: Asked, case: Case, *names: str) -> None:
    """These attempts bring what the case expects."""
    for name in names:
        expected = case.expected[name] if name in case.expected else case.expected[name.partition(":")[0]]
        assert sorted(asked.emit(name)) == sorted(expected), name


def grown() -> Asked:
    """After 1:0 was emitted the source has grown."""
    asked = Asked(Logs(p="a b c d e", q="x y z"))
    asked.emit("1:0")
    asked.spout.logs["p"].append("f")
    asked.spout.logs["r"] = ["N1", "N2", "N3"]
    asked.fails("1:0")
    return asked


@conforms("spout-tx-replay")
def test_a_transactional_replay_has_the_same_tuples_however_the_source_grew(case: Case) -> None:
    asked = Asked(Logs(p="a b c d e", q="x y z"))
    emitted(asked, case, "1:0")
    asked = grown()
    emitted(asked, case, "1:1", "2:0")
    plan = asked.plans[1]
    assert isinstance(plan, dict) and list(plan["batch"]) == case.expected["coordinator_metadata_for_1"]


@conforms("spout-tx-restart")
def test_a_transactional_spout_goes_on_after_a_restart(case: Case) -> None:
    asked = grown()
    for name in ("1:1", "2:0"):
        asked.emit(name)
    asked.success(1)
    asked.success(2)
    asked.restart()
    emitted(asked, case, "2:1", "3:0")
    plan = asked.plans[2]
    assert isinstance(plan, dict) and set(plan["positions"]) == {"p", "q", "r"}, "one entry, of every partition"


class Feed(OpaquePartitionedSpout):
    """As many records a partition as are wanted now; some may be away, or not even listed."""

    outputFields = "record string"

    def __init__(self, most: int, **feeds: str) -> None:
        self.feeds = {name: text.split() for name, text in feeds.items()}
        self.most = most
        self.away: set[str] = set()
        self.listed: list[str] | None = None
        self.asked: list[str] = []

    def getPartitions(self) -> list[str]:
        return list(self.feeds) if self.listed is None else self.listed

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        self.asked.append(partition)
        at = lastMetadata or 0
        if partition in self.away:
            return None, lastMetadata
        rows = self.feeds[partition][at : at + self.most]
        return rows, at + len(rows)


def shrunk_and_grown(case: Case | None = None) -> Asked:
    """The case "shrink and grow", up to the success of its third batch."""
    feed = Feed(2, p="a b c d e f g h", q="x y z w v")
    asked = Asked(feed)

    def emit(name: str) -> None:
        if case is None:
            asked.emit(name)
        else:
            emitted(asked, case, name)

    emit("1:0")
    asked.success(1)
    emit("2:0")
    asked.fails("2:0")
    feed.away.add("q")
    emit("2:1")
    asked.success(2)
    feed.away.clear()
    emit("3:0")
    asked.fails("3:0")
    feed.most = 3
    emit("3:1")
    asked.success(3)
    return asked


@conforms("spout-opaque-shrink-grow", differs=True)
def test_every_attempt_starts_where_the_last_success_ended_and_may_hold_more_or_less(case: Case) -> None:
    """In a topology an attempt fails only before its content is frozen; then its positions count."""
    shrunk_and_grown(case)


@conforms("spout-opaque-new-partition")
def test_a_new_partition_is_there_for_every_attempt(case: Case) -> None:
    asked = shrunk_and_grown()
    asked.spout.feeds["r"] = ["N1", "N2"]
    for attempt in ("4:0", "4:1"):
        assert [record for record in asked.emit(attempt) if record[0] == "N"] == case.expected[f"{attempt}_r"]
        asked.fails(attempt)


@conforms("spout-opaque-partition-leaves-and-returns")
def test_a_partition_that_returns_goes_on_where_it_was(case: Case) -> None:
    asked = Asked(Feed(1, p="a b c", q="x y z"))
    for txid, listed in ((1, ["p", "q"]), (2, ["p"]), (3, ["p", "q"])):
        asked.spout.listed = listed
        emitted(asked, case, f"{txid}:0")
        asked.success(txid)


@conforms("spout-opaque-pipelined-failure")
def test_what_follows_a_failed_batch_starts_anew_from_it(case: Case) -> None:
    asked = Asked(Feed(1, p="a b c", q="x y z"))
    for name in ("1:0", "2:0", "3:0"):
        asked.emit(name)
    asked.success(1)
    asked.fails("2:0")
    asked.fails("3:0")
    emitted(asked, case, "2:1", "3:1")
    asked.success(2)
    asked.restart()
    emitted(asked, case, "3:2")


def test_the_same_in_a_topology(tmp_path: Path) -> None:
    """Batch 2 fails once; a restart after it goes on behind what is committed."""
    failed: list[str] = []

    def fails_at_b(record: str) -> str:
        if record == "b" and not failed:
            failed.append(record)
            raise FailedException("once")
        return record

    seen, feed = Seen(), Feed(1, p="a b c", q="x y z")
    for most in (1, 3):
        topology = TridentTopology()
        records = topology.newStream("s", feed).map("record", fails_at_b, "record string")
        seen.watch(records)
        with ran(topology, tmp_path, maxSpoutPending=3):
            feed.feeds |= {"p": [*feed.feeds["p"], "d", "e"]} if most == 1 else {}
        feed.most = 3
    assert [sorted(record for (record,) in rows) for rows in seen.batches] == [
        ["a", "x"],
        ["b", "y"],
        ["c", "z"],
        ["d", "e"],
    ]
    assert failed == ["b"]


@conforms("spout-opaque-removed-partition-cleanup")
def test_a_partition_that_vanished_leaves_no_position_behind(case: Case) -> None:
    asked = Asked(Feed(1, p="a", q="x", z="k"))
    asked.emit("1:0")
    asked.fails("1:0")
    asked.spout.listed = ["p", "q"]
    asked.emit("1:1")
    after = asked.after[1]
    assert isinstance(after, dict) and after["positions"] == {"p": 1, "q": 1}
    assert case.expected["stored_after"]["z"] == "no entry for txid 1"


@conforms("spout-partition-assignment", differs=True)
def test_partitions_are_asked_one_after_the_other_in_the_driver(case: Case) -> None:
    """Trident's tasks each have every n-th one: p0, p2, p4 and p1, p3. Together they are asked for the same."""
    feed = Feed(1, **{f"p{at}": f"r{at}" for at in range(5)})
    asked = Asked(feed)
    assert asked.emit("1:0") == [f"r{at}" for at in range(5)]
    assert feed.asked == sorted(case.expected["task0"] + case.expected["task1"])


class Letters(BatchSpout):
    """Hands out two letters a batch, each once."""

    outputFields = "letter string"

    def __init__(self, letters: str) -> None:
        self.left: Iterator[str] = iter(letters)

    def emitBatch(self, batchId: int) -> Any:
        return list(islice(self.left, 2)) or None


@conforms("spout-ibatch-cache")
def test_a_batch_is_kept_until_it_is_acked(case: Case) -> None:
    asked = Asked(Letters("abc"))
    found = [asked.emit("1:0"), asked.emit("1:1"), asked.emit("2:0")]
    asked.success(1)
    del asked.plans[1]  # nobody asks again for what is committed, but by planning it
    found += [asked.emit("1:2"), asked.emit("3:0")]
    assert found == case.expected["emissions"]


class Named(TridentSpout):
    """A coordinator that says "m<txid>", and notes what it was asked."""

    outputFields = "name string"
    kind = SpoutKind.OPAQUE

    def __init__(self) -> None:
        self.calls: list[str] = []

    def getCoordinator(self) -> BatchCoordinator:
        calls = self.calls

        class Coordinator(BatchCoordinator):
            def initializeTransaction(self, txid: int, prevMetadata: Metadata, currMetadata: Metadata) -> Metadata:
                shown = [each if each is not None else "null" for each in (prevMetadata, currMetadata)]
                calls.append(f"init({txid},prev={shown[0]},curr={shown[1]})")
                return currMetadata or f"m{txid}"

        return Coordinator()

    def getEmitter(self) -> Emitter:
        class Same(Emitter):
            def emitBatch(self, attempt: TransactionAttempt, metadata: Metadata) -> Any:
                return [metadata]

        return Same()


@conforms("spout-coordinator-metadata", differs=True)
def test_a_coordinator_is_told_what_named_the_batch_before_and_this_one_before(case: Case) -> None:
    """Txids have no gaps here: what comes after 3 is 4."""
    asked = Asked(Named())
    assert [asked.emit(name) for name in ("1:0", "2:0", "2:1")] == [["m1"], ["m2"], ["m2"]]
    asked.success(1)
    asked.success(2)
    assert logged(asked.after[2]) == {"metadata": case.expected["stored_after_success_2"]["2"]}
    asked.restart()
    assert [asked.emit(name) for name in ("3:0", "4:0")] == [["m3"], ["m4"]]
    *same, last = case.expected["calls"]
    assert asked.spout.calls == [*same, last.replace("init(5", "init(4")]


# --- what Trident does by accident -----------------------------------------------------------------------------------


class Forgetful(Feed):
    """Reports no position for a partition that has nothing now."""

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        rows, after = super().emitPartitionBatch(attempt, partition, lastMetadata)
        return (rows, after) if rows else (None, None)


def test_a_partition_that_reports_no_position_keeps_its_own() -> None:
    """In Trident it begins anew."""
    feed = Forgetful(1, p="a b c", q="x")
    asked = Asked(feed)
    found = []
    for txid in (1, 2, 3):
        found.append(asked.emit(f"{txid}:0"))
        asked.success(txid)
    feed.feeds["q"].append("y")
    feed.feeds["p"].append("d")
    asked.restart()
    found.append(asked.emit("4:0"))
    assert found == [["a", "x"], ["b"], ["c"], ["d", "y"]]


class Unready(Named):
    """Is never ready."""

    def getCoordinator(self) -> BatchCoordinator:
        coordinator = super().getCoordinator()
        coordinator.isReady = lambda txid: False  # type: ignore[method-assign]
        return coordinator


def test_a_spout_that_is_not_ready_is_left_out_of_its_groups_batch() -> None:
    """In Trident a batch begins where one spout is ready, and then all of them are asked."""
    topology, unready, seen = TridentTopology(), Unready(), Seen()
    ready = topology.newStream("r", FixedBatchSpout("name string", [["a"], ["b"]]))
    seen.watch(topology.merge(ready, topology.newStream("u", unready)))
    with ran(topology):
        pass
    assert (seen.batches, unready.calls) == ([[("a",)], [("b",)]], [])


def test_a_list_of_partitions_that_changes_while_batches_are_under_way(tmp_path: Path) -> None:
    """In Trident the commit fails then. Every record comes once."""
    feed, seen = Feed(1, p="a b c d", q="x y"), Seen()
    turns = iter([["p"], ["p", "q"], ["q"], ["p"], ["q", "p"]])
    feed.getPartitions = lambda: next(turns, ["p", "q"])  # type: ignore[method-assign]
    topology = TridentTopology()
    seen.watch(topology.newStream("s", feed))
    with ran(topology, tmp_path, maxSpoutPending=3):
        pass
    assert sorted(record for rows in seen.batches for (record,) in rows) == list("abcdxy")
