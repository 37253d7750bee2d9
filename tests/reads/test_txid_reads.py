"""``view.asOf(txid)``: a state as of any batch that its store keeps, and an error that names the kept ones."""

from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import Fed, counted, counting, fixed
from tests.reads.reading_kit import States, state_node
from tests.support.server import RedisServer
from trident import Count, Evolution, Sum, TridentTopology, dropState, openState, openTopology
from trident.errors import StateError, TxidNotKeptError
from trident.reads.state_description import StateDescription
from trident.reads.state_view import StateView
from trident.spouts import FixedBatchSpout
from trident.state import BackingMapState, DeltaMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local
from trident_state.delta.vacuum import Retention

ORACLE: list[dict[str, int]] = [{}, {"dog": 1, "cat": 1}, {"dog": 2, "cat": 1}, {"dog": 2, "cat": 1, "emu": 2}]
BATCHES = (["dog", "cat"], ["dog"], ["emu", "emu"])


@pytest.fixture(params=["memory", "redis", "sqlite"])
def state(request: pytest.FixtureRequest, tmp_path: Path, shared_redis: RedisServer) -> Any:
    if request.param == "redis":
        return RedisMapState.opaque(shared_redis.url, buckets=64, groups=4)
    return SqliteMapState.opaque(tmp_path / "states.db") if request.param == "sqlite" else MemoryMapState.opaque()


def opened(state: Any, folder: Path) -> dict[str, Any]:
    if isinstance(state, RedisMapState):
        return {"url": state.url}
    return {"checkpointLocation": folder} if isinstance(state, MemoryMapState) else {"factory": state}


def test_a_running_state_answers_for_its_last_two_batches(state: Any, tmp_path: Path) -> None:
    fed = Fed(state, checkpointLocation=tmp_path)
    with fed.running:
        counts = fed.running.state("counts")
        for txid, batch in enumerate(BATCHES, 1):
            fed.feed(*batch)
            assert counts.keptTxids == range(txid - 1, txid + 1)
            for kept in counts.keptTxids:
                past = counts.asOf(kept)
                assert (dict(past), past.asOfTxid, len(past)) == (ORACLE[kept], kept, len(ORACLE[kept]))
                assert past.multiGet(["dog", "emu"]) == [ORACLE[kept].get(word) for word in ("dog", "emu")]
                assert past.toPandas().attrs == {"asOfTxid": kept} and past.get("cat") == ORACLE[kept].get("cat")
        assert dict(fed.running.state("counts", asOf=2)) == ORACLE[2]
        early = counts.asOf(1)
        with pytest.raises(TxidNotKeptError, match="txid 1 is not kept any more; .* as of the txids 2 to 3") as error:
            early["dog"]
        assert error.value.kept == range(2, 4)
        with pytest.raises(TxidNotKeptError, match="txid 4 has not been committed yet; .* as of the txids 2 to 3"):
            dict(counts.asOf(4))


def test_an_opened_state_answers_for_the_batches_that_are_kept(state: Any, tmp_path: Path) -> None:
    """A state in memory is kept since its last snapshot, which the start wrote; the others have two batches."""
    fed = Fed(state, checkpointLocation=tmp_path)
    with fed.running:
        for batch in BATCHES:
            fed.feed(*batch)
        with openState("wc", "counts", **opened(state, tmp_path)) as counts:
            first = 0 if isinstance(state, MemoryMapState) else 2
            assert counts.keptTxids == range(first, 4)
            for kept in (*counts.keptTxids, *reversed(counts.keptTxids)):
                assert (dict(counts.asOf(kept)), counts.asOf(kept).asOfTxid) == (ORACLE[kept], kept)
                assert counts.asOf(kept).get("dog", 0) == ORACLE[kept].get("dog", 0)
            assert dict(counts) == ORACLE[3]
        if isinstance(state, MemoryMapState):
            with openTopology(counting(fixed()), name="wc", checkpointLocation=tmp_path) as topology:
                assert dict(topology.state("counts", asOf=1)) == ORACLE[1]
    with openState("wc", "counts", **opened(state, tmp_path), asOf=2) as counts:  # the end of the run wrote a snapshot
        assert (dict(counts), counts.asOfTxid, counts.keptTxids) == (ORACLE[2], 2, range(2, 4))
        with pytest.raises(TxidNotKeptError, match="txid 1 is not kept any more; .* as of the txids 2 to 3"):
            dict(counts.asOf(1))


def view(states: States, **more: Any) -> StateView:
    return StateView(states, StateDescription.of(states.nodes["counts"], states.shapes["counts"]), **more)


def test_the_next_batch_takes_the_earlier_one_away_and_is_held_back_meanwhile() -> None:
    states = States({"g": [state_node("counts")]})
    for _ in range(2):
        states.commit("g", {"counts": {"dog": 1}})
    past, seen = view(states).asOf(2), list[bool]()
    store = states.stores["counts"]

    class Watched:
        def scan(self, asOf: int, pageRows: int = 10_000) -> Any:
            seen.append(states.gates["g"].wait(4, timeout=0))
            return store.scan(asOf, pageRows)

    states.stores["counts"] = Watched()  # type: ignore[assignment]
    assert dict(past) == {"dog": 2} and seen == [False], "the second batch after the txid is not held back"
    states.stores["counts"] = store
    assert states.gates["g"].wait(4, timeout=0), "the read still holds commits back"
    before = view(states).asOf(1)
    assert before["dog"] == 1
    states.apply("counts", 3, {"dog": 1})  # batch 3 is half written
    with pytest.raises(TxidNotKeptError, match="txid 1 is not kept any more; .* as of the txids 2 to 2"):
        before["dog"]
    assert past["dog"] == 2 and states.gates["g"].wait(4, timeout=0)


def test_a_store_may_keep_more() -> None:
    states = States({"g": [state_node("counts")]})
    states.commit("g", {"counts": {"dog": 1}})
    early = states.stores["counts"]
    states.stores["counts"] = states.made("counts")
    states.txids["g"] = 0
    for _ in range(4):
        states.commit("g", {"counts": {"dog": 1}})

    class Historic:
        def kept_since(self) -> int:
            return 1

        def at(self, txid: int) -> Any:
            return early if txid == 1 else states_store

    states_store = states.stores["counts"]
    states.stores["counts"] = Historic()  # type: ignore[assignment]
    assert view(states).keptTxids == range(1, 5)
    assert [view(states).asOf(txid)["dog"] for txid in (1, 3, 4)] == [1, 3, 4]


def test_what_cannot_be_read_so_says_so(tmp_path: Path) -> None:
    states = States({"g": [state_node("counts")]})
    for wrong in (-1, True, "2", 1.0):
        with pytest.raises(ValueError, match="expected 'previous', the batch before the last committed one; or a txid"):
            view(states, asOf=wrong)
    with pytest.raises(ValueError, match="contradict each other"):
        view(states, asOf=1, isolation="latest")
    counted(counting(fixed(["dog"]), MemoryMapState.nonTransactional()), checkpointLocation=tmp_path)
    with openState("wc", "counts", tmp_path) as counts:
        with pytest.raises(
            StateError, match="is nonTransactional and keeps no previous values: asOf=1 needs an opaque"
        ):
            counts.asOf(1)
        with pytest.raises(StateError, match="nonTransactional"):
            _ = counts.keptTxids


def test_a_map_of_two_methods_answers_too(tmp_path: Path) -> None:
    held: dict[bytes, bytes] = {}

    class Map:
        def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
            return [held.get(key) for key in keys]

        def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
            held.update(zip(keys, values, strict=True))

    fed = Fed(BackingMapState.opaque(lambda identity: Map()), checkpointLocation=tmp_path)
    with fed.running:
        for batch in BATCHES:
            fed.feed(*batch)
        counts = fed.running.state("counts")
        assert [counts.asOf(txid).multiGet(["dog", "emu"]) for txid in (2, 3)] == [[2, None], [2, 2]]


def test_a_state_in_a_delta_table_answers_for_all_batches_that_it_keeps(tmp_path: Path) -> None:
    state = DeltaMapState.opaque(tmp_path / "tables", keepTxids=10)
    fed = Fed(state, checkpointLocation=tmp_path)
    with fed.running:
        counts = fed.running.state("counts")
        for txid, batch in enumerate(BATCHES, 1):
            fed.feed(*batch)
            assert counts.keptTxids == range(0, txid + 1)
        early = counts.asOf(1)
        for _ in range(12):
            fed.feed("dog", "yak")
        with openState("wc", "counts", factory=DeltaMapState.opaque(tmp_path / "tables")) as outside:
            for view in (counts, outside):
                assert view.keptTxids == range(0, 16)
                for kept in view.keptTxids[:4]:
                    past = view.asOf(kept)
                    assert (dict(past), past.asOfTxid, len(past)) == (ORACLE[kept], kept, len(ORACLE[kept]))
                    assert past.range("d", "f").toArrow().num_rows == sum(word > "d" for word in ORACLE[kept])
                assert view.asOf(9).multiGet(["dog", "yak", "x"]) == [8, 6, None]
        assert early["dog"] == 1
        with pytest.raises(TxidNotKeptError, match="txid 16 has not been committed yet; .* as of the txids 0 to 15"):
            dict(counts.asOf(16))
        fed.running._read_source.store("counts").upkeep.cleaner.clean(Retention(0, 10))  # type: ignore[attr-defined]
        assert counts.keptTxids == range(6, 16)
        with pytest.raises(TxidNotKeptError, match="txid 1 is not kept any more; .* as of the txids 6 to 15") as error:
            early["dog"]
        assert error.value.kept == range(6, 16)
        assert counts.asOf(6)["yak"] == 3


def test_a_scan_from_outside_is_not_ended_by_later_batches(tmp_path: Path) -> None:
    state = DeltaMapState.opaque(tmp_path / "tables")
    fed = Fed(state, checkpointLocation=tmp_path)
    with fed.running, openState("wc", "counts", factory=state) as outside:
        fed.feed("dog", "cat")
        pages = outside.followed.scan(1, 1)
        rows = next(pages).to_pylist()
        for _ in range(4):
            fed.feed("dog")
        rows += [row for page in pages for row in page.to_pylist()]
        assert {row["word"]: row["value"] for row in rows} == ORACLE[1]


@pytest.mark.parametrize("store", ["memory", "delta"])
@pytest.mark.parametrize("how", ["another shape", "dropped"])
def test_no_txid_before_a_state_began_is_read_as_an_empty_one(store: str, how: str, tmp_path: Path) -> None:
    """At txid 3 the state had values, in another shape or another life."""
    state = MemoryMapState.opaque() if store == "memory" else DeltaMapState.opaque(tmp_path / "lake", keepTxids=100)

    def numbers(batches: int, several: dict[str, Any], evolve: Evolution | None = None) -> TridentTopology:
        topology = TridentTopology()
        rows = FixedBatchSpout("k string, n long", [[("a", n)] for n in range(1, batches + 1)])
        stream = topology.newStream("rows", rows).groupBy("k")
        stream.persistentAggregate(state, several, name="counts", evolve=evolve)
        return topology

    with start_local(numbers(4, {"n": Count()}), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    if how == "dropped":
        dropState("wc", "counts", tmp_path, **({} if store == "memory" else {"factory": state}))
    evolved = Evolution(was="n long") if how == "another shape" else None
    later = numbers(7, {"n": Count(), "total": Sum("n")}, evolved)
    with start_local(later, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        with openTopology(later, name="wc", checkpointLocation=tmp_path) as beside:
            counts = beside.state("counts")
            known = 4 if how == "another shape" else 0
            expected = {txid: (known + txid - 4, sum(range(5, txid + 1))) for txid in range(4, 8)}
            if how == "dropped":
                del expected[4]
            assert {txid: tuple(counts.asOf(txid)["a"]) for txid in counts.keptTxids} == expected
            with pytest.raises(TxidNotKeptError, match="txid 3 is not kept any more"):
                dict(counts.asOf(3))
