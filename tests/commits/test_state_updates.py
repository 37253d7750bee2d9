"""Reducers and updaters over persistent state, end to end: what lands, once, whatever fails on the way."""

import math
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.contents import contents
from tests.support.server import RedisServer
from tests.support.spouts import ReplayingSpout
from trident import MapGet, Max, SnapshotGet, Sum, TridentTopology, TupleCollectionGet
from trident.base.attempt import TransactionAttempt
from trident.base.errors import (
    CodeChangedError,
    StateKeyError,
    StateShapeError,
    StateUnavailableError,
    UserFunctionError,
)
from trident.compiler.arrow.engine import ArrowSlot
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import CombinerValueUpdater, MapState, MemoryMapState, RedisMapState, RemovableMapState
from trident.testing.local import start_local
from trident_spouts.executor import SpoutKind
from trident_state.memory.store import MemoryStore
from trident_state.redis.store import RedisStore

MakeState = Callable[[], Any]


pytestmark = pytest.mark.usefixtures("nothing_left_running")


def words(*batches: list[Any], fields: str = "k string, n long") -> FixedBatchSpout:
    return FixedBatchSpout(fields, list(batches))


class Joined:
    def init(self) -> str:
        return "<"

    def reduce(self, curr: str, tuple: Any) -> str:
        return curr + tuple.c


class Added:
    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + tuple.n  # type: ignore[no-any-return]


def add(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
    """The sum of n by k, and each key's new sum emitted."""
    keys = [t.k for t in tuples]
    for key, total in zip(
        keys, state.multiUpdate(keys, [CombinerValueUpdater(Sum(), t.n) for t in tuples]), strict=True
    ):
        collector.emit([key, total])


def adding(state: Any, spout: Any, updater: Any = add) -> TridentTopology:
    topology = TridentTopology()
    topology.newStream("s", spout).partitionPersist(
        state, updater, "k string, total long", keyFields="k", valueType="long", name="sums"
    )
    return topology


# --- what Trident's own cases say -----------------------------------------------------------------------------------


def test_a_reducer_over_persistent_state(make_state: MakeState, tmp_path: Path) -> None:
    """init() only where nothing is stored; new values are the keys of the batch."""
    topology = TridentTopology()
    rows = words([("x", "a"), ("y", "b"), ("x", "c")], [("x", "d")], [], fields="k string, c string")
    joined = (
        topology.newStream("s", rows).groupBy("k").persistentAggregate(make_state(), "c", Joined(), "acc", name="acc")
    )
    seen: list[tuple[str, str]] = []
    joined.newValuesStream().peek(lambda t: seen.append(tuple(t)))
    assert contents(topology, tmp_path, "acc") == [{"x": "<acd", "y": "<b"}]
    assert seen == [("x", "<ac"), ("y", "<b"), ("x", "<acd")]


def test_new_values_into_a_second_state_through_a_reducer_and_an_updater(make_state: MakeState, tmp_path: Path) -> None:
    topology = TridentTopology()
    source = topology.newStream("s", words([("a", 2), ("b", 2), ("c", 5)], [("a", 3)]))
    first = source.groupBy("k").persistentAggregate(make_state(), Added(), "sum", name="first")

    def count(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        state.multiUpdate([t.sum for t in tuples], [CombinerValueUpdater(Sum(), 1)] * len(tuples))
        collector.emit([len(tuples)])

    second = first.newValuesStream().partitionPersist(
        make_state(), count, "many long", keyFields="sum", valueType="long", name="second"
    )
    second.newValuesStream().persistentAggregate(make_state(), "many", Max(), "most", name="most")
    assert contents(topology, tmp_path, "first", "second", "most") == [
        {"a": 5, "b": 2, "c": 5},
        {2: 2, 5: 2},
        {(): 3},
    ]


def test_a_removed_key_is_gone_for_reads_lists_and_later_updates(make_state: MakeState, tmp_path: Path) -> None:
    def update(state: RemovableMapState, tuples: Sequence[Any], collector: Any) -> None:
        for t in tuples:
            if t.n < 0:
                state.multiRemove([t.k])
            else:
                state.multiUpdate([t.k], [CombinerValueUpdater(Sum(), t.n)])
        collector.emit([sorted(key for key, _ in state.getTuples())])

    topology = TridentTopology()
    rows = words([("a", 1), ("b", 2)], [("a", -1)], [("a", -1), ("c", 9)], [("a", 4)], [("b", -1), ("b", 7)])
    state = topology.newStream("s", rows).partitionPersist(
        make_state(), update, "there array<string>", keyFields="k", valueType="long", name="held"
    )
    seen: list[list[str]] = []
    state.newValuesStream().peek(lambda t: seen.append(t.there))
    topology.newDRPCStream("ask", "k string").stateQuery(state, "k", MapGet(), "n")
    topology.newDRPCStream("all", "nothing string").stateQuery(state, TupleCollectionGet(), "k, n").project("k, n")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        held = running.state("held")
        assert dict(held.items()) == {"a": 4, "b": 7, "c": 9}
        assert sorted(map(tuple, running.drpc.execute("all", "x"))) == [("a", 4), ("b", 7), ("c", 9)]
    assert seen == [["a", "b"], ["b"], ["b", "c"], ["a", "b", "c"], ["a", "b", "c"]]


def _rowed(key: Any) -> Any:
    return tuple(map(_rowed, key)) if isinstance(key, list | tuple) else "nan" if key != key else key


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("double", [math.nan, -0.0, 1.5, None]),
        ("array<double>", [[math.nan, 0.0], [], None]),
        ("struct<tags:array<string>,at:double>", [(["a"], math.nan), (["a"], 0.0)]),
    ],
)
def test_a_list_of_keys_has_each_key_once_whatever_its_type(
    make_state: MakeState, tmp_path: Path, kind: str, keys: list[Any]
) -> None:
    """Some come from the state and some from the updates of this very call."""
    listed: list[list[Any]] = []

    def update(state: RemovableMapState, tuples: Sequence[Any], collector: Any) -> None:
        state.multiPut([t.k for t in tuples], [t.n for t in tuples])
        listed.append([_rowed(key) for (key,) in state.getKeys()])
        if any(t.n == 2 for t in tuples):
            state.multiRemove([tuples[0].k])
            listed.append([_rowed(key) for (key,) in state.getKeys()])

    batches = [[(key, 1) for key in keys[:-1]], [(key, 2) for key in keys]]
    topology = TridentTopology()
    rows = topology.newStream("s", words(*batches, fields=f"k {kind}, n long"))
    rows.partitionPersist(make_state(), "k, n", update, keyFields="k", valueType="long", name="held")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    each = [_rowed(key) for key in keys]
    by_text = [sorted(found, key=repr) for found in listed]
    assert by_text == [sorted(some, key=repr) for some in (each[:-1], each, each[1:])]


def test_a_put_overwrites_and_a_stored_null_is_like_nothing_for_the_next_update(
    make_state: MakeState, tmp_path: Path
) -> None:
    def put(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        for t in tuples:
            if t.how == "put":
                state.multiPut(["e"], [t.n])
            else:
                state.multiUpdate(["e"], [CombinerValueUpdater(Sum(), t.n)])

    topology = TridentTopology()
    rows = words([("put", 60), ("put", 61)], [("put", None)], [("add", 4)], fields="how string, n long")
    topology.newStream("s", rows).partitionPersist(make_state(), put, keyFields="e string", valueType="long", name="e")
    assert contents(topology, tmp_path, "e") == [{"e": 4}]


def test_one_global_value_and_what_asks_it(make_state: MakeState, tmp_path: Path) -> None:
    def update(state: Any, tuples: Sequence[Any], collector: Any) -> None:
        state.set([*(state.get() or []), len(tuples)])

    topology = TridentTopology()
    source = topology.newStream("s", words([("x", 1), ("y", 1)], [], [("x", 4)]))
    sizes = source.partitionPersist(make_state(), update, valueType="array<int>", name="sizes")
    total = source.persistentAggregate(make_state(), Added(), "total", name="total")
    asked = topology.newDRPCStream("ask").stateQuery(sizes, SnapshotGet(), "sizes")
    asked.stateQuery(total, SnapshotGet(), "total").project("sizes", "total")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert [tuple(row) for row in running.drpc.execute("ask", "")] == [([2, 1], 6)], "nothing of an empty batch"
        assert running.state("sizes").value == [2, 1]


def test_a_query_after_an_updater_sees_this_batch_and_one_beside_it_the_batch_before(
    make_state: MakeState, tmp_path: Path
) -> None:
    topology = TridentTopology()
    source = topology.newStream("s", words([("a", 1), ("b", 2)], [("a", 10)]))
    sums = source.partitionPersist(
        make_state(), add, "k string, total long", keyFields="k", valueType="long", name="sums"
    )
    seen: list[Any] = []
    before: list[Any] = []
    sums.newValuesStream().stateQuery(sums, "k", MapGet(), "now").peek(lambda t: seen.append(tuple(t)))
    source.stateQuery(sums, "k", MapGet(), "old").peek(lambda t: before.append(tuple(t)))
    assert contents(topology, tmp_path, "sums") == [{"a": 11, "b": 2}]
    assert seen == [("a", 1, 1), ("b", 2, 2), ("a", 11, 11)]
    assert before == [("a", 1, None), ("b", 2, None), ("a", 10, 1)]


# --- replays --------------------------------------------------------------------------------------------------------

TRANSACTIONAL = ([("ink", 5), ("pen", 1), ("ink", 20), ("cap", 3), ("ink", 2)], {(2, 0): 2, (2, 1): 2})
OPAQUE = ([("ink", 5), ("pen", 1), ("ink", 20), ("cap", 3), ("ink", 2), ("pen", 4), ("pen", 6)], {(2, 0): 2, (2, 1): 4})
SHRINKING = ([("ink", 5), ("pen", 1), ("ink", 20), ("cap", 3), ("pen", 8)], {(2, 0): 3, (2, 1): 1})
TOTALS = [
    (TRANSACTIONAL, SpoutKind.TRANSACTIONAL, {"ink": 27, "cap": 3, "pen": 1}),
    (OPAQUE, SpoutKind.OPAQUE, {"ink": 27, "cap": 3, "pen": 11}),
    (SHRINKING, SpoutKind.OPAQUE, {"ink": 25, "cap": 3, "pen": 9}),
]


@pytest.mark.parametrize("verb", ["reducer", "updater"])
@pytest.mark.parametrize("state_kind", ["transactional", "opaque"])
@pytest.mark.parametrize(("rows", "kind", "totals"), TOTALS)
def test_a_failed_attempt_and_a_commit_without_a_reply_count_nothing_twice(
    rows: Any,
    kind: SpoutKind,
    totals: dict[str, int],
    state_kind: str,
    verb: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Trident's nine cells with a replay of txid 2, in those where txids are kept. Attempt 2:0 fails at its last tuple;
    then the store writes batch 2 and the answer is lost."""
    given, script = rows
    failed: list[TransactionAttempt] = []

    def twice(row: int) -> int:
        if row == 3 and not failed:
            failed.append(TransactionAttempt(2, 0))
            raise RuntimeError("the first attempt at batch 2 fails")
        return row

    apply = MemoryStore.apply
    lost: list[int] = []

    def without_reply(self: MemoryStore, lease: Any, update: Any, values: bool = False) -> Any:
        applied = apply(self, lease, update, values)
        if update.txid == 2 and not lost:
            lost.append(2)
            raise StateUnavailableError("no reply")
        return applied

    monkeypatch.setattr(MemoryStore, "apply", without_reply)
    numbered = [(k, n, at) for at, (k, n) in enumerate(given)]
    spout = ReplayingSpout("k string, n long, at int", {"p": numbered}, script, 2, kind)
    topology = TridentTopology()
    source = topology.newStream("s", spout).each("at", twice, "seen int")
    state = getattr(MemoryMapState, state_kind)()
    if verb == "reducer":
        source.groupBy("k").persistentAggregate(state, "n", Added(), "sum", name="sums")
    else:
        source.partitionPersist(state, add, "k string, total long", keyFields="k", valueType="long", name="sums")
    assert contents(topology, tmp_path, "sums") == [totals]
    assert failed and lost == [2]


# --- frozen before it is written ------------------------------------------------------------------------------------


def no_answers(monkeypatch: pytest.MonkeyPatch, store: type, txid: int) -> None:
    """From batch `txid` on the store takes nothing more."""
    apply = store.apply  # type: ignore[attr-defined]

    def away(self: Any, lease: Any, update: Any, values: bool = False) -> Any:
        if update.txid >= txid:
            raise StateUnavailableError("away")
        return apply(self, lease, update, values)

    monkeypatch.setattr(store, "apply", away)


def wrong(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
    raise AssertionError("what is frozen is never computed again")


def test_what_an_updater_made_is_frozen_before_it_is_written_and_never_made_again(
    make_state: MakeState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends when batch 2 is frozen, puts and emissions too; the next one has another updater."""

    def topology(updater: Any) -> TridentTopology:
        made = TridentTopology()
        sums = made.newStream("s", words([("a", 1), ("b", 2)], [("a", 10), ("a", 100)])).partitionPersist(
            make_state(), updater, "k string, total long", keyFields="k", valueType="long", name="sums"
        )
        sums.newValuesStream().groupBy("k").persistentAggregate(make_state(), "total", Max(), "most", name="most")
        return made

    with monkeypatch.context() as patch:
        for store in (MemoryStore, RedisStore):
            no_answers(patch, store, 2)
        with pytest.raises(StateUnavailableError):
            contents(topology(add), tmp_path, commitRetrySecs=0)
    assert contents(topology(wrong), tmp_path, "sums", "most") == [{"a": 111, "b": 2}, {"a": 111, "b": 2}]


def test_a_state_is_healed_from_the_log_without_the_code_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process dies whose memory state took no snapshot."""
    rows = [[("a", 1)], [("a", 2), ("b", 5)], [("b", 7)]]
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "close", lambda self: None)
        assert contents(adding(MemoryMapState.opaque(), words(*rows)), tmp_path, "sums") == [{"a": 3, "b": 12}]
    healed = contents(adding(MemoryMapState.opaque(), words(*rows), wrong), tmp_path, "sums")
    assert healed == [{"a": 3, "b": 12}]


def test_an_updater_reads_a_healed_state_where_the_server_lost_it(shared_redis: RedisServer, tmp_path: Path) -> None:
    """Between two batches the server comes back with nothing; what the next batch adds to must be what was there."""
    spout = FeederBatchSpout("k string, n long")
    topology = adding(RedisMapState.opaque(shared_redis.url, buckets=16), spout)
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        for n in range(1, 6):
            spout.feed([("a", n)], wait=True, timeout=20)
            shared_redis.client.flushall()
        spout.feed([("a", 100)], wait=True, timeout=20)
        assert running.state("sums")["a"] == 115


def test_a_store_that_is_away_while_an_updater_reads_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The updater swallows the error, and must not be believed."""
    read, refused = MemoryStore.read, list[int]()

    def away(self: MemoryStore, keys: Any, asOf: Any) -> Any:
        if asOf == 1 and len(refused) < 3:
            refused.append(asOf)
            raise StateUnavailableError("away")
        return read(self, keys, asOf)

    def careless(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        try:
            old = state.multiGet(["a"])[0] or 0
        except Exception:
            old = 0
        state.multiPut(["a"], [old + sum(t.n for t in tuples)])

    monkeypatch.setattr(MemoryStore, "read", away)
    topology = adding(MemoryMapState.opaque(), words([("a", 1)], [("a", 10)]), careless)
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        monkeypatch.setattr(MemoryStore, "read", read)
        assert running.state("sums")["a"] == 11
    assert refused == [1, 1, 1]


def test_an_updater_that_raises_stops_its_group_and_the_batch_waits_for_better_code(
    make_state: MakeState, tmp_path: Path
) -> None:
    def broken(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        add(state, tuples, collector)
        if any(t.n == 10 for t in tuples):
            raise KeyError("ten")

    rows = words([("a", 1)], [("a", 10), ("b", 1)], [("b", 5)])
    with pytest.raises(
        UserFunctionError, match=r"s/1:partitionPersist.*broken \(test_state_updates.py:\d+\) raised KeyE"
    ):
        contents(adding(make_state(), rows, broken), tmp_path)
    assert contents(adding(make_state(), rows), tmp_path, "sums") == [{"a": 11, "b": 6}]


def test_a_wrong_key_stops_the_group_and_writes_nothing_of_the_batch(tmp_path: Path) -> None:
    def update(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
        state.multiPut(["a"], [sum(t.n for t in tuples)])
        if len(tuples) > 1:
            state.multiPut([7], [1])

    rows = words([("a", 1)], [("a", 10), ("b", 1)])
    with pytest.raises(StateKeyError, match=r"state 'sums': multiPut: invalid key 7 \(int\): expected k string"):
        contents(adding(MemoryMapState.opaque(), rows, update), tmp_path)
    with start_local(adding(MemoryMapState.opaque(), rows), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("sums").items()) == {"a": 11, "b": 1}


# --- changes of the code --------------------------------------------------------------------------------------------


def test_a_frozen_batch_does_not_fit_an_updater_of_other_tuples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("trident.commits.updates.Updates.results", _away)
        with pytest.raises(StateUnavailableError):
            contents(adding(MemoryMapState.opaque(), words([("a", 1)])), tmp_path, commitRetrySecs=0)
    changed = TridentTopology()
    changed.newStream("s", words([("a", 1)])).partitionPersist(
        MemoryMapState.opaque(), "k", add, "k string, total long", keyFields="k", valueType="long", name="sums"
    )
    with pytest.raises(
        CodeChangedError,
        match=r"batch 1 .*it froze what enters sums .*its fields are now k string.*Start the previous program once",
    ):
        contents(changed, tmp_path)
    assert contents(adding(MemoryMapState.opaque(), words([("a", 1)])), tmp_path, "sums") == [{"a": 1}]


def _away(*_: object) -> None:
    raise StateUnavailableError("away")


def test_a_state_does_not_pass_from_a_reducer_to_an_updater(make_state: MakeState, tmp_path: Path) -> None:
    topology = TridentTopology()
    source = topology.newStream("s", words([("a", 1)]))
    source.groupBy("k").persistentAggregate(make_state(), Added(), "sum", name="sums")
    contents(topology, tmp_path)
    with pytest.raises(StateShapeError, match=r"'sums' has .* by Added, but the topology declares .* by put"):
        contents(adding(make_state(), words([("a", 1)])), tmp_path)


# --- cost -----------------------------------------------------------------------------------------------------------


def test_an_update_costs_one_read_a_batch_and_no_run_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, ran = MemoryStore.read, ArrowSlot.run
    reads: list[int] = []
    stages: list[int] = []

    def counted(self: MemoryStore, keys: Any, asOf: Any) -> Any:
        reads.append(keys.num_rows)
        return read(self, keys, asOf)

    def noted(self: ArrowSlot, stage: Any, *more: Any) -> Any:
        stages.append(stage.number)
        return ran(self, stage, *more)

    monkeypatch.setattr(MemoryStore, "read", counted)
    monkeypatch.setattr(ArrowSlot, "run", noted)
    rows = [[(f"k{n % 50}", n) for n in range(200)]] * 4
    topology = TridentTopology()
    source = topology.newStream("s", words(*rows))
    source.groupBy("k").persistentAggregate(MemoryMapState.opaque(), Added(), "sum", name="reduced")
    source.partitionPersist(
        MemoryMapState.opaque(), add, "k string, t long", keyFields="k", valueType="long", name="sums"
    )
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        assert reads == [50] * 8, "one for each state and batch"
        assert stages == [1] * 4


def test_what_is_frozen_of_an_update_stands_in_the_log_before_its_state_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = MemoryStore.apply
    frozen_then: list[list[str]] = []

    def looked(self: MemoryStore, lease: Any, update: Any, values: bool = False) -> Any:
        with sqlite3.connect(tmp_path / "t" / "log.sqlite") as db:
            query = "SELECT output FROM frozen WHERE txid = ? AND stage = 2 ORDER BY output"
            frozen_then.append([name for (name,) in db.execute(query, (update.txid,))])
        db.close()
        return apply(self, lease, update, values)

    monkeypatch.setattr(MemoryStore, "apply", looked)
    contents(adding(MemoryMapState.opaque(), words([("a", 1)], [])), tmp_path)
    assert frozen_then == [["sums"], ["sums"]]
