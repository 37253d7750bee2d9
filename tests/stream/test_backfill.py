"""What backfill=True refuses when a verb is called, with the reason and the way out."""

from collections.abc import Callable
from typing import Any

import pytest

from trident import Count, MapGet, Sum, TridentTopology
from trident.errors import TopologyError
from trident.spouts import FeederBatchSpout, FixedBatchSpout, IterableSpout, KafkaSpout, PollingSpout
from trident.state import MemoryMapState

SPOUTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: FeederBatchSpout("word string"), "its positions do not identify the rows before them"),
    (lambda: IterableSpout("word string", []), "its positions do not identify the rows before them"),
    (lambda: PollingSpout("word string", {"p": lambda at, most: ([], at)}), "its positions do not identify the rows"),
    (lambda: FixedBatchSpout("word string", [["a"]], cycle=True), "with cycle=True its batches have no beginning"),
    (lambda: KafkaSpout("x:1", "t", startingOffsets="latest"), "startingOffsets='latest' does not name a beginning"),
]


def words(spout: Any = None) -> Any:
    return TridentTopology().newStream("n", spout or FixedBatchSpout("word string, n long", []))


@pytest.mark.parametrize(("spout", "why"), SPOUTS)
def test_a_source_that_cannot_be_read_again_is_refused(spout: Callable[[], Any], why: str) -> None:
    given = spout()
    counted = words(given)
    with pytest.raises(TopologyError, match=rf"cannot be read again from its beginning: {why}.*remove backfill=True"):
        counted.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="c", backfill=True)


def test_steps_that_have_another_meaning_for_old_tuples_are_refused() -> None:
    topology = TridentTopology()
    one, other = (topology.newStream(n, FixedBatchSpout("word string, n long", [])) for n in ("a", "b"))
    old = other.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="old")
    asked = one.stateQuery(old, "word", MapGet(), "count")
    now = one.stateQuery(old, "word", MapGet(), "count", asOf="committed")
    joined = topology.join([one, other], [["word"], ["word"]], "word, x, y")
    for stream, why in (
        (asked, "reads state 'old', whose earlier values no longer exist; that state needs backfill=True"),
        (now, "reads another state as of another moment"),
        (joined, "joins or merges tuples of one batch"),
        (old.newValuesStream(), "updates state 'old', whose earlier values no longer exist"),
        (one.dropDuplicates("word"), "needs backfill=True, too \\(persistentAggregate, .* and statefulEach take"),
    ):
        with pytest.raises(TopologyError, match=why):
            stream.toTable("word", MemoryMapState.opaque(), name="t", backfill=True)


def test_states_that_cannot_begin_so_are_refused() -> None:
    with pytest.raises(TopologyError, match=r"backfill= needs an opaque or transactional state"):
        words().persistentAggregate(MemoryMapState.nonTransactional(), Count(), "c", backfill=True)
    with pytest.raises(TopologyError, match=r"initialState= and backfill=True exclude each other"):
        words().persistentAggregate(
            MemoryMapState.opaque(), Count(), "c", backfill=True, initialState="/nowhere.parquet"
        )
    with pytest.raises(TopologyError, match=r"backfill=3: expected True or False"):
        words().persistentAggregate(MemoryMapState.opaque(), Count(), "c", backfill=3)
    with pytest.raises(TopologyError, match=r"timers would fire in other batches"):
        words().statefulEach(
            ["word"],
            lambda tuple, state: None,
            keyFields="word",
            valueType="long",
            onTimer=lambda timer, state: None,
            name="timed",
            backfill=True,
        )


def test_states_that_begin_together_may_be_built_on_each_other() -> None:
    table = words().toTable("word", MemoryMapState.opaque(), name="t", backfill=True)
    built = table.changes().persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="s", backfill=True)
    assert built.name == "s"
