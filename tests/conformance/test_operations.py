"""What one tuple becomes: each, filter, map, flatMap, project, peek."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.stage_runner import Slots
from tests.conformance.kit import Case, check, conforms, emitted, raises, sink
from trident import Equals, Filter, FilterNull, Function, Negate, TridentTopology, expr
from trident.base.errors import FieldNotFoundError, UserFunctionError
from trident.spouts import FixedBatchSpout


def one_each(qty: int) -> Iterator[int]:
    yield from range(qty)


class Units(Function):
    """The same, as Trident's people write it."""

    outputType = "long"

    def execute(self, tuple: Any, collector: Any) -> None:
        for unit in range(tuple[0]):
            collector.emit([unit])


@conforms("op-each-fanout")
@pytest.mark.parametrize("function", [one_each, Units()], ids=["generator", "Function"])
def test_what_a_function_gives_is_appended_none_drops_the_tuple(case: Case, engine: Slots, function: Any) -> None:
    topology = TridentTopology()
    orders = case.stream(topology, "order string, qty long")
    check(case, engine, topology, out=orders.each("qty", function, "unit long"))


def test_a_null_and_a_none_that_is_yielded_are_values(engine: Slots) -> None:
    """Nothing emitted drops the tuple; a null that is emitted does not."""

    def odd(n: int | None) -> Iterator[int | None]:
        if n != 1:
            yield n

    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("n long", [[1, None, 2]]))
    sink(numbers.each("n", odd, "m long"))
    assert emitted(engine, topology) == {"out@1:0": [(None, None), (2, 2)]}


def test_functions_of_several_fields_multiply(engine: Slots) -> None:
    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("a long, b long", [[(2, 1), (1, 0), (1, 2)]]))
    sink(
        numbers.each("a", one_each, "x long").each("x, b", lambda x, b: [10 * x + y for y in range(b)], "l array<long>")
    )
    assert emitted(engine, topology) == {"out@1:0": [(2, 1, 0, [0]), (2, 1, 1, [10]), (1, 0, 0, []), (1, 2, 0, [0, 1])]}


class OneEvenValue(Filter):
    """Keeps what has exactly one value, an even one."""

    def isKeep(self, tuple: Any) -> bool:
        return len(tuple) == 1 and tuple[0] % 2 == 0


@conforms("op-filter-projection")
def test_a_predicate_sees_its_fields_and_the_tuple_keeps_all(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    stream = case.stream(topology, "id string, n long")
    check(case, engine, topology, out=stream.filter("n", OneEvenValue()))


@pytest.mark.parametrize("verb", ["filter", "each"])
@pytest.mark.parametrize(
    "arguments",
    [("n", lambda n: n % 2 == 0), (lambda t: (len(t), t.n % 2) == (2, 0),), ("n", Negate(lambda n: n % 2 == 1))],
    ids=["field", "tuple", "negated"],
)
def test_predicates_of_every_form_keep_the_same(engine: Slots, verb: str, arguments: Any) -> None:
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout("id string, n long", [[("p", 4), ("q", 5), ("r", 6)]]))
    sink(getattr(stream, verb)(*arguments))
    assert emitted(engine, topology) == {"out@1:0": [("p", 4), ("r", 6)]}


@conforms("op-filternull-negate")
def test_filter_null_drops_where_any_of_its_values_is_null(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    stream = case.stream(topology, "a long, b long")
    check(
        case,
        engine,
        topology,
        kept=stream.filter(FilterNull()),
        negated=stream.filter(Negate(FilterNull())),
        onlyA=stream.filter("a", FilterNull()),
    )


@conforms("op-flatmap-map")
def test_map_and_flat_map_replace_the_tuple(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    stream = case.stream(topology, "raw string, meta long")
    tokens = stream.flatMap(lambda t: [piece for piece in t[0].split("-") if piece], "tok string")
    check(case, engine, topology, out=tokens.map(lambda t: t[0].upper()))


@conforms("op-map-replaces-fields")
def test_map_sees_all_fields_and_none_of_them_is_left(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    loud = case.stream(topology, "w string, x long").map(lambda t: (t.w + "!", len(t)), "loud string, arity int")
    check(case, engine, topology, out=loud)
    assert "build_error_when_selecting_w" in case.expected
    for verb in (loud.project, loud.groupBy, loud.partitionBy):
        with pytest.raises(FieldNotFoundError, match=r"'w'.*loud.*arity"):
            verb("w")


@conforms("op-project-reorder")
def test_project_keeps_fields_in_its_own_order(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    check(case, engine, topology, out=case.stream(topology, "a long, b long, c long").project("c", "a"))


class Noting:
    """Writes down what it sees, also in a worker."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __call__(self, t: Any) -> None:
        with open(self.file, "a") as notes:
            notes.write(f"{tuple(t)!r}\n")


@conforms("op-peek")
def test_peek_looks_and_leaves_the_tuple_alone(case: Case, engine: Slots, tmp_path: Path) -> None:
    topology = TridentTopology()
    check(case, engine, topology, out=case.stream(topology, "a long").peek(Noting(tmp_path / "seen")))
    seen = [eval(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert seen == [tuple(row) for row in case.expected["peeked@1:0"]]


def test_peek_looks_again_at_every_attempt(engine: Slots, tmp_path: Path) -> None:
    from tests.conformance.kit import sinks

    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("a long", [[1]]))
    sink(numbers.peek(Noting(tmp_path / "seen")))
    for attempt in range(2):
        assert sinks(topology, engine, 0, attempt) == {"out": [(1,)]}
    assert (tmp_path / "seen").read_text() == "(1,)\n(1,)\n"


class Emits(Function):
    """Emits as many values as it is told, whatever is declared."""

    outputType = "long, string"

    def __init__(self, *values: Any) -> None:
        self.values = values

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit([tuple[0], *self.values])


@conforms("op-each-extra-values", differs=True)
def test_other_values_than_declared_are_an_error_that_names_the_operation(case: Case, engine: Slots) -> None:
    assert "arity mismatch" in case.ideal["error"]
    for given, function in (
        (3, Emits("x", "y")),
        (1, Emits()),
        (3, lambda a: (a, "x", "y")),
        (1, lambda a: (a,)),
    ):
        topology = TridentTopology()
        stream = case.stream(topology, "a long").each("a", function, "p long, q string")
        sink(stream.shuffle())
        with raises(case, UserFunctionError, rf"s/1:each\(.*test_operations\.py:\d+.* {given} value.*2"):
            emitted(engine, topology)


@pytest.mark.spark
def test_expressions_mean_the_same_as_python(on_spark: Slots) -> None:
    topology = TridentTopology()
    orders = topology.newStream("s", FixedBatchSpout("order string, qty long", [[("o1", 2), ("o2", 0), ("o3", None)]]))
    sink(orders.filter(expr("qty > 0")).each("qty", expr("explode(sequence(0, qty - 1))"), "unit long"))
    assert emitted(on_spark, topology) == {"out@1:0": [("o1", 2, 0), ("o1", 2, 1)]}


# --- what Trident does by accident -----------------------------------------------------------------------------------


def test_omitted_input_fields_are_all_fields(engine: Slots) -> None:
    """In Trident they are none."""
    topology = TridentTopology()
    pairs = topology.newStream("s", FixedBatchSpout("a long, b long", [[(1, 2)]]))
    sink(pairs.each(lambda t: len(t) * 10 + t.b, "seen long"))
    assert emitted(engine, topology) == {"out@1:0": [(1, 2, 22)]}


def test_map_that_keeps_the_names_keeps_their_number(engine: Slots) -> None:
    """In Trident values that have no name are there and cannot be asked for."""
    for given in ((1,), (1, 2, 3)):
        topology = TridentTopology()
        pairs = topology.newStream("s", FixedBatchSpout("a long, b long", [[(1, 2)]]))
        sink(pairs.map(lambda t, given=given: given))
        with pytest.raises(UserFunctionError, match=rf"returned {len(given)} values.*2 are declared.*a=1, b=2"):
            emitted(engine, topology)


def test_nulls_are_equal_to_equals(engine: Slots) -> None:
    """In Trident two of them end the worker."""
    topology = TridentTopology()
    rows = [(None, None), (1, 1), (1, 2), (None, 1), (1, None)]
    sink(topology.newStream("s", FixedBatchSpout("a long, b long", [rows])).filter("a, b", Equals()))
    assert emitted(engine, topology) == {"out@1:0": [(None, None), (1, 1)]}
