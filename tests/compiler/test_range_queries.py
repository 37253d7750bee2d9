"""RangeGet and ranges in query functions: of requests and batches, over several key fields, over any store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trident import Count, RangeGet, Sum, TridentTopology
from trident.base.errors import TopologyError, TridentError, TypeDeclarationError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, SqliteMapState
from trident.testing.local import start_local

ROWS = [("Rome", 1, 5), ("Rome", 2, 6), ("Rome", 4, 7), ("Oslo", 2, 1), (None, 3, 9), ("Rome", None, 2)]


def sales(state: Any) -> tuple[TridentTopology, Any]:
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("city string, day int, sold long", [ROWS]))
    kept = rows.groupBy("city", "day").persistentAggregate(state, "sold", Sum(), "sum", name="sales")
    return topology, kept


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("Rome", 1, 4), [(1, 5), (2, 6)]),
        (("Rome", None, 2), [(None, 2), (1, 5)]),
        (("Rome", 2, None), [(2, 6), (4, 7)]),
        (("Rome", None, None), [(None, 2), (1, 5), (2, 6), (4, 7)]),
        ((None, None, None), [(3, 9)]),
        (("Bonn", None, None), []),
    ],
)
def test_a_range_of_the_next_field_of_equal_ones(store: str, arguments: Any, found: Any, tmp_path: Path) -> None:
    state = MemoryMapState.opaque() if store == "memory" else SqliteMapState.opaque(tmp_path / "states.db")
    topology, kept = sales(state)
    asked = topology.newDRPCStream("sold", "city string, low int, high int")
    asked.stateQuery(kept, "city, low, high", RangeGet(), "c, d, sum").project("d, sum")
    with start_local(topology, name="ranges", checkpointLocation=tmp_path) as running:
        running.processAllAvailable()
        answer = running.drpc.execute("sold", *arguments)
        assert [tuple(row) for row in answer] == found
        assert answer.asOfTxid == 1


@pytest.mark.parametrize(
    ("inclusive", "days"), [("left", [1, 2]), ("right", [2, 4]), ("both", [1, 2, 4]), ("neither", [2])]
)
def test_either_end_may_belong_to_a_range(inclusive: Any, days: list[int]) -> None:
    topology, kept = sales(MemoryMapState.opaque())
    asked = topology.newDRPCStream("sold", "city string, low int, high int")
    asked.stateQuery(kept, "city, low, high", RangeGet(inclusive), "c, d, sum").project("d")
    whole = topology.newDRPCStream("whole", "city string, low int, high int")
    whole.stateQuery(kept, "city, low, high", RangeGet(inclusive, limit=2), "c, d, sum").project("d")
    with start_local(topology, name="ranges") as running:
        running.processAllAvailable()
        assert [row.d for row in running.drpc.execute("sold", "Rome", 1, 4)] == days
        assert [row.d for row in running.drpc.execute("whole", "Rome", None, None)] == [None, 1]


def test_many_requests_are_one_read() -> None:
    topology, kept = sales(MemoryMapState.opaque())
    asked = topology.newDRPCStream("cities", "low string, high string").each(
        ["low"], lambda low: [low, "Rome"], "start array<string>"
    )
    asked.flatMap(lambda t: [(start, "Z") for start in t.start], "first string, last string").stateQuery(
        kept, "first, last", RangeGet(limit=1), "c, d, sum"
    ).project("first, c, sum")
    with start_local(topology, name="ranges") as running:
        running.processAllAvailable()
        rows = [tuple(row) for row in running.drpc.execute("cities", "A", "Z")]
        assert rows == [("A", "Oslo", 1), ("Rome", "Rome", 2)]


def test_a_batch_sees_the_state_as_it_was_before() -> None:
    topology = TridentTopology()
    batches = [[("cow",), ("cat",)], [("cat",), ("dog",)], [("ant",)]]
    words = topology.newStream("words", FixedBatchSpout("word string", batches))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    seen: list[Any] = []
    words.each(["word"], lambda word: ("c", "d"), "low string, high string").stateQuery(
        counts, "low, high", RangeGet(), "found, n"
    ).peek(lambda t: seen.append((t.word, t.found, t.n)))
    with start_local(topology, name="ranges") as running:
        running.processAllAvailable()
    cow = [(word, "cow", 1) for word in ("cat", "dog", "ant")]
    assert sorted(seen) == sorted([*cow, ("cat", "cat", 1), ("dog", "cat", 1), ("ant", "cat", 2)])


class Nearest:
    """The first key at or after each one."""

    outputType = "string"

    def __init__(self, ranges: Callable[[Any], Any]) -> None:
        self.ranges = ranges

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return state.multiRange([self.ranges(each) for each in args], limit=1)

    def execute(self, tuple: Any, result: Any, collector: Any) -> None:
        collector.emit([result[0][0] if result else None])


def test_a_query_function_reads_ranges() -> None:
    topology, kept = sales(MemoryMapState.opaque())
    asked = topology.newDRPCStream("next", "city string")
    asked.stateQuery(kept, "city", Nearest(lambda each: ((each.city,), None, "neither")), "next")
    with start_local(topology, name="ranges") as running:
        running.processAllAvailable()
        assert [row.next for row in running.drpc.execute("next", "Oslo")] == ["Rome"]
        assert [row.next for row in running.drpc.execute("next", "Rome")] == [None]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("a",), "invalid range ('a',): expected (low, high) or (low, high, inclusive)"),
        (("a", "b"), "invalid end of a range 'a': expected None or a tuple of 1 to 2 values"),
        (((1,), None), "invalid key 1 (int): expected city string"),
        (((), None), "invalid end of a range (): expected None or a tuple of 1 to 2 values"),
        ((None, None, "all"), "inclusive='all': expected left, right, both, neither"),
    ],
)
def test_ranges_that_are_none_are_refused(given: Any, message: str) -> None:
    topology, kept = sales(MemoryMapState.opaque())
    topology.newDRPCStream("next", "city string").stateQuery(kept, "city", Nearest(lambda each: given), "next")
    with start_local(topology, name="ranges") as running:
        running.processAllAvailable()
        with pytest.raises(TridentError) as caught:
            running.drpc.execute("next", "Oslo")
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ("low", TopologyError, "RangeGet takes values of its first key fields, then the low and the high end"),
        ("city, low, high, more", TopologyError, "its key is (city string, day int)"),
        ("low, high", TypeDeclarationError, "must have the types of (city string, city string)"),
        ("city, low, more", TypeDeclarationError, "must have the types of (city string, day int, day int)"),
    ],
)
def test_input_fields_that_are_no_range(fields: str, error: type[Exception], message: str) -> None:
    topology, kept = sales(MemoryMapState.opaque())
    asked = topology.newDRPCStream("sold", "city string, low int, high int, more long")
    with pytest.raises(error) as caught:
        asked.stateQuery(kept, fields, RangeGet(), "c, d, sum")
    assert message in str(caught.value)


def test_keys_without_an_order_have_no_ranges() -> None:
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("tags array<string>", [[(["a"],)]]))
    kept = rows.groupBy("tags").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="tags")
    asked = topology.newDRPCStream("between", "low array<string>, high array<string>")
    with pytest.raises(TypeDeclarationError, match="have no order .*TupleCollectionGet"):
        asked.stateQuery(kept, "low, high", RangeGet(), "t, n")


def test_options_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"RangeGet\(inclusive='all'\): expected 'left', 'right', 'both', 'neither'"):
        RangeGet("all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="RangeGet: limit=0: expected a whole number of at least 1"):
        RangeGet(limit=0)
