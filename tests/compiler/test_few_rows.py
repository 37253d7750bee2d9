"""A query of a few tuples stays a list of Python values; its answers and errors are those of the arrays.

Random functions are asked twice: as they are, and with `FEW` at -1, which makes an array of each column and reads the
states by tables.
"""

import decimal
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.reads.reading_kit import States
from tests.support.soak import Soak
from tests.support.topologies import node
from trident import Count, FilterNull, FirstN, MapGet, Max, Min, Sum, TridentTopology
from trident.base.errors import TridentError
from trident.compiler.columns import columns as forms
from trident.compiler.stages import cut
from trident.drpc.local import LocalDRPC
from trident.drpc.request_queue import Audience
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident_state.state_shape import StateKind

D = decimal.Decimal
ARGUMENTS = "s string, n long, x double, d decimal(12,2), b boolean, r binary, i int"
TYPES = {"s": "string", "n": "long", "x": "double", "d": "decimal(12,2)", "b": "boolean", "r": "binary", "i": "int"}
WORDS = ["", "a", "dog", "naïve", "\U0001f415", "word with blanks", "nul\0inside", "x" * 80]
EDGES: dict[str, list[Any]] = {
    "s": WORDS,
    "n": [0, 1, -1, 7, 2**63 - 1, -(2**63), 10**15],
    "x": [0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, -1e308, 1e308],
    "d": [D("0.00"), D("-1.25"), D("9999999999.99"), D(3)],
    "b": [True, False],
    "r": [b"", b"\0\xff", b"dog"],
    "i": [0, 1, 2**31 - 1, -(2**31)],
}
ROWS = [tuple(EDGES[name][row % len(EDGES[name])] for name in TYPES) for row in range(8)]
ROWS += [tuple(None for _ in TYPES), ("a a dog", None, -0.0, D(0), None, b"dog", 1)]
VALUES: dict[str, st.SearchStrategy[Any]] = {name: st.sampled_from(values) for name, values in EDGES.items()}
VALUES["s"] |= st.lists(st.sampled_from(["a", "dog", "naïve", "zz"]), max_size=9).map(" ".join)


def words(text: Any) -> Iterator[Any]:
    yield from text.split()


def twice(value: Any) -> list[Any]:
    return [value, value]


def picky(value: Any) -> Any:
    if value in (1, "a", True):
        raise ValueError(f"{value!r} is not for me")
    return value


FUNCTIONS: list[tuple[Callable[..., Any], str, str]] = [
    (words, "s", "string"),
    (lambda s: s.upper(), "s", "string"),
    (len, "s", "int"),
    (lambda s: s + "\ud800" if s == "dog" else s, "s", "string"),
    (lambda s: s and s.encode(), "s", "binary"),
    (lambda s: None if s == "a" else s, "s", "string"),
    (lambda n: n * 3, "n", "long"),
    (lambda n: n, "n", "int"),
    (lambda n: n, "n", "tinyint"),
    (lambda n: numpy.int64(n), "n", "long"),
    (lambda n: n / 2, "n", "double"),
    (lambda n: n, "n", "double"),
    (lambda n: str(n), "n", "long"),
    (lambda n: (n,), "n", "long"),
    (lambda n: n == 7, "n", "boolean"),
    (lambda x: x * 10, "x", "double"),
    (lambda x: x, "x", "float"),
    (lambda x: math.nan if x == 0 else x, "x", "double"),
    (lambda d: d and d / 3, "d", "decimal(12,2)"),
    (lambda d: d and d * 2, "d", "decimal(12,2)"),
    (lambda b: not b, "b", "boolean"),
    (lambda r: r and bytearray(r), "r", "binary"),
    (picky, "n", "long"),
    (picky, "s", "string"),
    (lambda i: i, "i", "long"),
    (lambda i: i and i + 1, "i", "int"),
]
"""A function, the argument whose type it takes, and the type of its result, which not every result has."""

FILTERS: list[tuple[Any, str]] = [
    *((FilterNull(), name) for name in TYPES),
    (lambda n: n is None or n > 0, "n"),
    (lambda n: n, "n"),
    (lambda s: numpy.bool_(s != "a"), "s"),
    (picky, "b"),
]

Step = tuple[str, Any, int]
STEPS = st.one_of(
    st.tuples(st.just("each"), st.sampled_from(FUNCTIONS), st.integers(0, 9)),
    st.tuples(st.just("each"), st.sampled_from(FUNCTIONS), st.integers(0, 9)),
    st.tuples(st.just("filter"), st.sampled_from(FILTERS), st.integers(0, 9)),
    st.tuples(st.just("query"), st.sampled_from(["counts", "prices", "sums"]), st.integers(0, 9)),
    st.tuples(st.just("project"), st.none(), st.integers(1, 127)),
    st.tuples(st.just("aggregate"), st.sampled_from([Count(), Sum(), Max(), Min()]), st.integers(0, 99)),
    st.tuples(st.just("pick"), st.sampled_from(["minBy", "maxBy", "first", "last"]), st.integers(0, 9)),
    st.tuples(st.just("flatMap"), st.none(), st.integers(0, 9)),
)
REQUESTS = st.lists(st.tuples(*[st.none() | VALUES[name] for name in TYPES]), min_size=1, max_size=4)


def stateful() -> tuple[TridentTopology, dict[str, Any]]:
    topology, state = TridentTopology(), MemoryMapState.opaque()
    sold = topology.newStream("sold", FixedBatchSpout("s string, n long, x double, d decimal(12,2)", []))
    counts = sold.groupBy("s").persistentAggregate(state, Count(), "count", name="counts")
    prices = sold.groupBy("n, s").persistentAggregate(state, "x", Sum(), "price", name="prices")
    sums = sold.groupBy("x").persistentAggregate(state, "d", Sum(), "sum", name="sums")
    return topology, {"counts": counts, "prices": prices, "sums": sums}


@pytest.fixture(scope="module")
def states() -> States:
    _, held = stateful()
    states = States({"g": [node(state) for state in held.values()]})
    states.commit("g", {"counts": {word: len(word) for word in WORDS}, "prices": {(1, "a"): 0.5, (None, None): -0.0}})
    sums = {math.nan: D("1.25"), 0.0: D(2)}
    states.commit("g", {"counts": {"dog": 2**40, None: 3}, "prices": {(7, "dog"): 1e308}, "sums": sums})
    states.apply("counts", 3, {"a": 100})  # a batch under way: read as of 2
    return states


class Drawn:
    """A DRPC stream that grows by the steps that fit its fields."""

    def __init__(self, topology: TridentTopology, held: dict[str, Any]) -> None:
        self.stream: Any = topology.newDRPCStream("ask", ARGUMENTS)
        self.held = held
        self.types = dict(TYPES)
        self.fields = 0

    def grow(self, step: Step) -> None:
        verb, what, number = step
        getattr(self, verb)(what, number)

    def one_of(self, kind: str, number: int) -> str | None:
        names = [name for name, own in self.types.items() if own == kind]
        return names[number % len(names)] if names else None

    def new(self, kind: str) -> str:
        self.fields += 1
        name = f"f{self.fields}"
        self.types[name] = kind
        return name

    def each(self, what: tuple[Callable[..., Any], str, str], number: int) -> None:
        function, takes, kind = what
        if (field := self.one_of(TYPES[takes], number)) is not None:
            self.stream = self.stream.each(field, function, f"{self.new(kind)} {kind}")

    def filter(self, what: tuple[Any, str], number: int) -> None:
        if (field := self.one_of(TYPES[what[1]], number)) is not None:
            self.stream = self.stream.filter(field, what[0])

    def query(self, state: str, number: int) -> None:
        takes = {"counts": ["string"], "prices": ["long", "string"], "sums": ["double"]}[state]
        gives = {"counts": "long", "prices": "double", "sums": "decimal(22,2)"}[state]
        keys = [self.one_of(kind, number) for kind in takes]
        if None not in keys:
            self.stream = self.stream.stateQuery(self.held[state], ", ".join(map(str, keys)), MapGet(), self.new(gives))

    def project(self, _: None, number: int) -> None:
        names = list(self.types)
        kept = [name for at, name in enumerate(names) if number >> (at % 7) & 1] or names[:1]
        self.stream, self.types = self.stream.project(*kept), {name: self.types[name] for name in kept}

    def aggregate(self, aggregator: Any, number: int) -> None:
        numeric = {"long", "int", "double", "decimal(12,2)"}
        names = [name for name, kind in self.types.items() if kind in numeric]
        every = list(self.types)
        group = [every[(number + at) % len(every)] for at in range(min(number % 3, len(every)))]
        if not names:
            return
        field = names[number % len(names)]
        source = self.stream.groupBy(*group) if group else self.stream
        kind = self.types[field]
        gives = "long" if isinstance(aggregator, Count) else kind
        if isinstance(aggregator, Sum):
            gives = {"int": "long", "decimal(12,2)": "decimal(22,2)"}.get(kind, kind)
        self.types = {name: self.types[name] for name in group}
        self.stream = source.aggregate(field, aggregator, self.new(gives))

    def pick(self, how: str, number: int) -> None:
        name = list(self.types)[number % len(self.types)]
        if how in ("minBy", "maxBy"):
            self.stream = getattr(self.stream, how)(name)
        else:
            self.stream = self.stream.applyAssembly(FirstN(2, name, reverse=how == "last"))

    def flatMap(self, _: None, number: int) -> None:
        name = list(self.types)[number % len(self.types)]
        kind = self.types[name]
        self.types = {}
        self.stream = self.stream.flatMap(name, twice, f"{self.new(kind)} {kind}")


def function_of(steps: Sequence[Step], states: States) -> LocalDRPC:
    topology, held = stateful()
    drawn = Drawn(topology, held)
    for step in steps:
        drawn.grow(step)
    (plan,) = cut(topology).requests
    return LocalDRPC([plan], states)


def outcomes(drpc: LocalDRPC, requests: Sequence[Sequence[Any]]) -> list[Any]:
    """Return what each request gets: alone and together with the others, as rows with types and as a table."""
    function = drpc.function("ask")
    told = []
    for asked in [[request] for request in requests] + [list(requests)]:
        bound = [function.bind(request, {}) for request in asked]
        for outcome in function.answer(bound, Audience(len(bound))):
            told.append(_shown(outcome))
    return told


def _shown(outcome: Any) -> Any:
    if isinstance(outcome, TridentError):
        return type(outcome), str(outcome), outcome.step, type(outcome.__cause__)
    assert not isinstance(outcome, Exception), outcome
    table = outcome.toArrow()
    table.validate(full=True)
    return repr(list(outcome)), [type(value) for row in outcome for value in row], table.schema, repr(table.to_pydict())


def check(steps: Sequence[Step], requests: Sequence[Sequence[Any]], states: States) -> None:
    few = outcomes(function_of(steps, states), requests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "FEW", -1)
        arrays = outcomes(function_of(steps, states), requests)
    assert few == arrays


EVERY: list[Step] = [
    *(("each", function, 0) for function in FUNCTIONS),
    *(("filter", filtering, 0) for filtering in FILTERS),
    *(("query", state, 0) for state in ("counts", "prices", "sums")),
    *(("aggregate", aggregator, number) for aggregator in (Count(), Sum(), Max(), Min()) for number in range(0, 21, 2)),
    *(("pick", how, number) for how in ("minBy", "maxBy", "first", "last") for number in range(7)),
    *(("flatMap", None, number) for number in range(7)),
]


@pytest.mark.parametrize("verb", ["each", "filter", "query", "aggregate", "pick", "flatMap"])
def test_each_step_answers_edges_as_arrays_do(states: States, verb: str) -> None:
    for step in EVERY:
        if step[0] == verb:
            check([step], ROWS, states)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=2, max_size=6), REQUESTS)
def test_a_few_rows_are_answered_as_arrays_are(states: States, steps: list[Step], requests: list[Any]) -> None:
    check(steps, requests, states)


@pytest.mark.soak
def test_a_few_rows_are_answered_as_arrays_are_for_long(states: States, soak: Soak) -> None:
    for draw in soak.draws(30):

        @seed(draw.getrandbits(32))
        @settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(STEPS, max_size=9), REQUESTS)
        def checked(steps: list[Step], requests: list[Any]) -> None:
            check(steps, requests, states)

        checked()


def test_a_few_keys_make_no_array(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query of the first example of the guide makes no array, from its argument to its rows."""
    topology, held = stateful()
    asked = topology.newDRPCStream("ask").each("args", words, "word string").groupBy("word")
    asked.stateQuery(held["counts"], "word", MapGet(), "n").each("n", FilterNull()).aggregate("n", Sum(), "sum")
    (plan,) = cut(topology).requests
    drpc = LocalDRPC([plan], states)
    drpc.execute("ask", "a dog unicorn")  # the function is compiled at its first request

    def array(self: Any) -> Any:
        raise AssertionError("an array was made")

    monkeypatch.setattr(forms.Column, "array", array)
    (row,) = drpc.execute("ask", "a dog naïve unicorn")
    assert row.sum == 1 + 3 + 2**40 + 5


def test_a_state_without_a_form_for_few_keys_is_read_by_a_table() -> None:
    states = States({"g": [node(state) for state in stateful()[1].values()]})
    assert states.kind("counts") is StateKind.OPAQUE
    states.commit("g", {"counts": {"dog": 2}})

    class ByTable:
        def __init__(self, store: Any) -> None:
            self.read = store.read

    states.stores["counts"] = ByTable(states.stores["counts"])  # type: ignore[assignment]
    topology, held = stateful()
    topology.newDRPCStream("ask").stateQuery(held["counts"], "args", MapGet(), "n")
    assert [row.n for row in LocalDRPC([cut(topology).requests[0]], states).execute("ask", "dog")] == [2]
