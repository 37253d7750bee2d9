"""Changed code over an old state: refused with what has changed and what one can do, and each of these works."""

import functools
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.state.backing.maps import SqliteMap
from tests.support.server import RedisServer
from trident import Count, Max, Sum, TridentTopology, dropState, openState
from trident.access.export import export_state
from trident.errors import StateShapeError
from trident.spouts import FileSpout, FixedBatchSpout
from trident.state import BackingMapState, MemoryMapState, RedisMapState
from trident.testing.local import start_local

FIELDS = "word string, other string, day date, n long, small int"


pytestmark = pytest.mark.usefixtures("nothing_left_running")


class Longest:
    """A combiner of our own."""

    outputType = "long"

    def init(self, tuple: Any) -> int:
        return int(tuple[0])

    def combine(self, a: int, b: int) -> int:
        return max(a, b)

    def zero(self) -> int:
        return 0


def kept_by(keys: str, how: Any, state: Any, inputs: str | None = "n", name: str = "counts") -> TridentTopology:
    topology = TridentTopology()
    stream = topology.newStream("rows", FixedBatchSpout(FIELDS, []))
    grouped: Any = stream.groupBy(keys) if keys else stream
    given = (inputs, how, "out") if inputs else (how, "out")
    grouped.persistentAggregate(state, *given, name=name)
    return topology


WAS = "(word string) -> bigint by Sum"

CHANGES = {
    "aggregator": (
        lambda state: kept_by("word", Max(), state),
        "(word string) -> bigint by Max (another aggregator)",
    ),
    "an own aggregator": (
        lambda state: kept_by("word", Longest(), state),
        "(word string) -> bigint by Longest (another aggregator)",
    ),
    "count": (
        lambda state: kept_by("word", Count(), state, None),
        "(word string) -> bigint by Count (another aggregator)",
    ),
    "key types": (
        lambda state: kept_by("day", Sum(), state),
        "(day date) -> bigint by Sum (other key types)",
    ),
    "one more key": (
        lambda state: kept_by("word, other", Sum(), state),
        "(word string, other string) -> bigint by Sum (other key types)",
    ),
    "no key": (lambda state: kept_by("", Sum(), state), "() -> bigint by Sum (other key types)"),
    "key names": (
        lambda state: kept_by("other", Sum(), state),
        "(other string) -> bigint by Sum (other names of the key fields)",
    ),
    "all": (
        lambda state: kept_by("day", Max(), state, "small"),
        "(day date) -> int by Max (other key types, another value type, another aggregator)",
    ),
}


class Home:
    """Where a state is kept: its kinds by name."""

    def __init__(self, home: str, folder: Path, server: RedisServer) -> None:
        self._made: tuple[Any, tuple[Any, ...], dict[str, Any]] = {
            "memory": (MemoryMapState, (), {}),
            "redis": (RedisMapState, (server.url,), {"buckets": 8}),
            "own": (BackingMapState, (functools.partial(SqliteMap, str(folder / "own.db")),), {}),
        }[home]

    def kind(self, name: str) -> Any:
        factory, words, options = self._made
        return getattr(factory, name)(*words, **options)


def refusal(topology: TridentTopology, checkpoint: Path) -> str:
    with pytest.raises(StateShapeError) as caught:
        start_local(topology, name="t", checkpointLocation=checkpoint)
    return str(caught.value)


def ways(checkpoint: Path, home: str, former: str | None = None) -> str:
    """The advice; `former` is the argument `evolve` that declares the stored shape, if a start can evolve it."""
    place = "" if home == "memory" else ", url= or factory= (its location)"
    declare = f"declare their former shape and how they become new ones, {former}; or " if former else ""
    return (
        f"Give the new state another name= (the stored state stays, and openState can read it); or drop it with "
        f"dropState('t', 'counts', checkpointLocation='{checkpoint}'{place}), so that it starts empty with the next "
        f"batch; or topology.reset('t', checkpointLocation='{checkpoint}') or the command trident reset deletes the "
        f"log and all states. To keep its values, {declare}export them first (trident state export)"
    )


@pytest.mark.parametrize("home", ["memory", "redis", "own"])
def test_every_change_is_told_and_refused_before_anything_is_touched(
    tmp_path: Path, shared_redis: RedisServer, home: str
) -> None:
    kept, checkpoint = Home(home, tmp_path, shared_redis), tmp_path / "c"
    with start_local(kept_by("word", Sum(), kept.kind("opaque")), name="t", checkpointLocation=checkpoint):
        pass
    epoch = trident.listStates(checkpoint)[0].epoch
    for what, (changed, declares) in CHANGES.items():
        told = refusal(changed(kept.kind("opaque")), checkpoint)
        former = "evolve=Evolution(was='bigint', by='Sum', ...)" if declares.endswith("(another aggregator)") else None
        golden = f"state 'counts' has {WAS}, but the topology declares {declares}. {ways(checkpoint, home, former)}"
        assert told == golden, what
    for kind in ("transactional", "nonTransactional"):
        told = refusal(kept_by("word", Sum(), kept.kind(kind)), checkpoint)
        assert told == f"state 'counts' is opaque, but the topology declares it {kind}. {ways(checkpoint, home)}"
    assert trident.listStates(checkpoint)[0].epoch == epoch, "a refused start took the log"
    start_local(kept_by("word", Sum(), kept.kind("opaque")), name="t", checkpointLocation=checkpoint).stop()


# --- the ways on ----------------------------------------------------------------------------------------------------

WORDS = [["dog", "cat", "dog"], ["dog"]]


def counting(*batches: list[str], aggregator: Any = None, name: str = "counts") -> TridentTopology:
    """Counts words; or, with Sum, adds ones up: the same numbers by another aggregator."""
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", list(batches)))
    if aggregator is None:
        words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=name)
    else:
        ones = words.each("word", lambda word: 1, "n long").groupBy("word")
        ones.persistentAggregate(MemoryMapState.opaque(), "n", aggregator, "count", name=name)
    return topology


def counted(topology: TridentTopology, checkpoint: Path, name: str = "counts") -> dict[str, int]:
    with start_local(topology, name="t", checkpointLocation=checkpoint) as running:
        running.processAllAvailable(timeout=20)
        return dict(running.state(name).items())


def test_another_name_begins_beside_the_old_one_which_stays_readable(tmp_path: Path) -> None:
    counted(counting(*WORDS), tmp_path)
    with pytest.warns(RuntimeWarning, match="state 'sums' is new"):
        assert counted(counting(*WORDS, ["cat"], aggregator=Sum(), name="sums"), tmp_path, "sums") == {"cat": 1}
    with openState("t", "counts", tmp_path) as old:
        assert dict(old.items()) == {"dog": 3, "cat": 1} and old.asOfTxid == 2


def test_a_dropped_state_begins_anew_in_its_new_shape(tmp_path: Path) -> None:
    counted(counting(*WORDS), tmp_path)
    refusal(counting(*WORDS, ["cat"], aggregator=Sum()), tmp_path)
    dropState("t", "counts", tmp_path)
    with pytest.warns(RuntimeWarning, match="state 'counts' is new"):
        assert counted(counting(*WORDS, ["cat"], aggregator=Sum()), tmp_path) == {"cat": 1}


def test_a_reset_reads_everything_again(tmp_path: Path) -> None:
    counted(counting(*WORDS), tmp_path)
    changed = counting(*WORDS, ["cat"], aggregator=Sum())
    changed.reset("t", tmp_path)
    assert counted(changed, tmp_path) == {"dog": 3, "cat": 2}


def test_exported_values_go_on_in_another_shape(tmp_path: Path) -> None:
    """Counts become sums under keys in capitals: the export is one more stream into the new state."""
    counted(counting(*WORDS), tmp_path / "c")
    with openState("t", "counts", tmp_path / "c") as old:
        export_state(old, tmp_path / "counts.parquet")
    topology = TridentTopology()
    before = topology.newStream("before", FileSpout(str(tmp_path / "counts.parquet"), format="parquet"))
    words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "emu"]]))
    both = topology.merge(
        before.each("word, value", lambda word, n: (word.upper(), n), "key string, n long").project("key, n"),
        words.each("word", lambda word: (word.upper(), 1), "key string, n long").project("key, n"),
    )
    both.groupBy("key").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "count", name="counts")
    with start_local(topology, name="t2", checkpointLocation=tmp_path / "c") as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {"DOG": 4, "CAT": 1, "EMU": 1}
