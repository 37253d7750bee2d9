"""Hypothesis draws plans: verbs that fit, one after the other, over tuples with nulls, NaN and duplicates, or none."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import strategies as st

from tests.differential.functions import PANDAS, STREAMS
from tests.differential.plan import Fields, Plan, Row, Step, names

WHOLE: Fields = (("word", "string"), ("n", "long"), ("x", "double"))
BATCHES = 2

_VALUES: dict[str, Any] = {
    "string": st.sampled_from([None, "", "a", "b", "ab", "ä"]),
    "long": st.sampled_from([None, 0, 1, 2, 3, -1]),
    "double": st.sampled_from([None, 0.0, -0.0, 1.5, -2.0, math.nan]),
}
_EACH: dict[str, tuple[tuple[str, ...], tuple[str, ...], bool]] = {
    "length": (("word",), ("long",), False),
    "twice": (("n",), ("long",), False),
    "letters": (("word",), ("string",), True),
    "both": (("word", "n"), ("string", "long"), False),
    "up_to": (("n",), ("long", "string"), True),
}
"""Functions: what they read, the types that they give, whether they give many."""

_FILTERS: dict[str, tuple[str, ...]] = {"even": ("n",), "some": ("word",)}
_SUMMABLE = {
    "Count": ("string", "long", "double"),
    "Sum": ("long",),
    "Min": ("string", "long"),
    "Max": ("string", "long"),
    "TotalOfSeries": ("long",),
    "SpreadOfSeries": ("long",),
}
_GIVES = {"Count": "long", "Sum": "long", "Longest": "string", "TotalOfSeries": "long", "SpreadOfSeries": "double"}


_MEMBERS: dict[str, tuple[str, ...]] = {
    "Count": (),
    "Sum": ("long",),
    "Min": ("long",),
    "Longest": ("string",),
    "Adding": ("long",),
    "Seen": ("string",),
}
_SEVERAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "Count": (),
    "Sum": (("long",),),
    "Min": (("string", "long"),),
    "Max": (("string", "long"),),
    "First": (("string", "long"),),
    "Last": (("string", "long"),),
    "CollectList": (("string", "long"),),
    "CollectSet": (("string", "long"),),
    "Latest": (("string", "long"), ("string", "long")),
    "MaxBy": (("string", "long"), ("string", "long")),
    "MinBy": (("string", "long"), ("string", "long")),
    "StdDev": (("long",),),
    "VarPop": (("long",),),
    "Median": (("long",),),
    "Average": (("long",),),
    "TopK": (("long",),),
}
"""Aggregators in a bundle, and the types of each of their inputs."""
_IN_ORDER = ("First", "Last", "CollectList", "Latest", "MaxBy", "MinBy")
_LOCAL = ("each", "map", "filter", "filterNull", "project", "drop", "rename", "peek", "part")


class Drawing:
    """One plan, step by step."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.steps: list[Step] = []
        self.batches: dict[int, tuple[tuple[Row, ...], ...]] = {}
        self.fresh = 0

    # --- choices ---------------------------------------------------------------------------------------------------

    def pick(self, what: Any) -> Any:
        return self.draw(st.sampled_from(list(what)))

    def stream(self, *needed: str) -> int | None:
        """Any stream that has these fields."""
        able = [at for at, step in enumerate(self.steps) if step.fields and set(needed) <= set(names(step.fields))]
        return self.pick(able) if able else None

    def name(self) -> str:
        self.fresh += 1
        return f"f{self.fresh}"

    def add(self, verb: str, sources: tuple[int, ...], fields: Fields, **args: Any) -> None:
        self.steps.append(Step(verb, sources, args, fields))

    def fields(self, at: int) -> Fields:
        return self.steps[at].fields

    def some(self, of: Fields) -> Fields:
        return tuple(self.draw(st.lists(st.sampled_from(of), min_size=1, max_size=3, unique=True)))

    # --- verbs -----------------------------------------------------------------------------------------------------

    def spout(self) -> None:
        row = st.tuples(*[_VALUES[kind] for _, kind in WHOLE])
        batch = st.lists(row, max_size=6).map(tuple)
        self.batches[len(self.steps)] = tuple(self.draw(batch) for _ in range(BATCHES))
        self.add("spout", (), WHOLE)

    def each(self, functions: Iterable[str] = tuple(_EACH), replace: bool = False, pandas: bool = False) -> None:
        function = self.pick(functions)
        inputs, kinds, many = _EACH[function]
        at = self.stream(*inputs)
        if at is not None:
            replace = replace or self.draw(st.booleans())
            outputs = self.replacing(at, kinds) if replace else tuple((self.name(), kind) for kind in kinds)
            pandas = pandas or (not many and self.pandas(function))  # each keeps fields: one row for each tuple
            self.add_each(at, function, inputs, many, outputs, replace, pandas)

    def each_that_replaces(self) -> None:
        self.each(replace=True)

    def each_of_pandas(self) -> None:
        self.each([name for name in PANDAS if name in _EACH and not _EACH[name][2]], pandas=True)

    def add_each(
        self,
        at: int,
        function: str,
        inputs: tuple[str, ...],
        many: bool,
        outputs: Fields,
        replace: bool,
        pandas: bool = False,
    ) -> None:
        fields = {**dict(self.fields(at)), **dict(outputs)}
        args = {"function": function, "inputs": inputs, "many": many, "outputs": outputs, "replace": replace}
        self.add("each", (at,), tuple(fields.items()), **args, pandas=pandas)

    def pandas(self, function: str) -> bool:
        """Whether the function's form over whole columns is used."""
        return function in PANDAS and bool(self.draw(st.booleans()))

    def replacing(self, at: int, kinds: tuple[str, ...]) -> Fields:
        """Name new fields or fields to replace. A usual name keeps its type: later steps rely on it."""
        outputs: list[tuple[str, str]] = []
        for kind in kinds:
            able = [name for name, own in self.fields(at) if own == kind or name not in dict(WHOLE)]
            able = [name for name in able if name not in dict(outputs)]
            outputs.append((self.pick([*able, self.name()]), kind))
        return tuple(outputs)

    def map(self) -> None:
        function = self.pick(_EACH)
        inputs, kinds, many = _EACH[function]
        at = self.stream(*inputs)
        if at is not None:
            how = {"function": function, "inputs": inputs, "many": many, "pandas": self.pandas(function)}
            self.add("map", (at,), self.called(kinds), **how)

    def called(self, kinds: tuple[str, ...]) -> Fields:
        """Names for new tuples: the usual ones where they are free, so that later steps find them."""
        usual = {"string": "word", "long": "n", "double": "x"}
        found: list[tuple[str, str]] = []
        for kind in kinds:
            free = kind in usual and usual[kind] not in names(tuple(found))
            found.append((usual[kind] if free else self.name(), kind))
        return tuple(found)

    def filter(self) -> None:
        function = self.pick(_FILTERS)
        at = self.stream(*_FILTERS[function])
        if at is not None:
            how = {"function": function, "inputs": _FILTERS[function], "pandas": self.pandas(function)}
            self.add("filter", (at,), self.fields(at), **how)

    def filterNull(self) -> None:
        at = self.stream()
        assert at is not None
        self.add("filterNull", (at,), self.fields(at), inputs=names(self.some(self.fields(at))))

    def project(self) -> None:
        at = self.stream()
        assert at is not None
        self.add("project", (at,), self.some(self.fields(at)))

    def drop(self) -> None:
        able = [at for at, step in enumerate(self.steps) if len(step.fields) > 1]
        if able:
            at = self.pick(able)
            dropped = self.pick(self.fields(at))
            self.add("drop", (at,), tuple(field for field in self.fields(at) if field != dropped), field=dropped[0])

    def rename(self) -> None:
        """Exchange the names of two fields of one type, or give a new one: later steps find the usual names."""
        at = self.stream()
        assert at is not None
        old, kind = self.pick(self.fields(at))
        other = self.pick([name for name, each in self.fields(at) if each == kind])
        renames = {old: other, other: old} if other != old else {old: self.name()}
        fields = tuple((renames.get(name, name), each) for name, each in self.fields(at))
        self.add("rename", (at,), fields, renames=renames)

    def split(self) -> None:
        at = self.stream("word", "n")
        if at is not None:
            for name in self.draw(st.sampled_from([("texts", "numbers"), ("texts",), ("numbers",)])):
                self.add("part", (at,), STREAMS[name], stream=name, split=self.fresh)
            self.fresh += 1

    def peek(self) -> None:
        at = self.stream()
        assert at is not None
        self.add("peek", (at,), self.fields(at))

    def place(self) -> None:
        verb = self.pick(["shuffle", "partitionBy", "batchGlobal", "broadcast", "global", "partition"])
        at = self.stream("n") if verb == "partition" else self.stream()
        if at is not None:
            by = names(self.some(self.fields(at))) if verb == "partitionBy" else ()
            self.add(verb, (at,), self.fields(at), count=self.draw(st.integers(1, 3)), names=by)

    def aggregate(self) -> None:
        at = self.stream()
        assert at is not None
        kind = self.pick([*_SUMMABLE, "Longest"])
        fit = [field for field in self.fields(at) if field[1] in _SUMMABLE.get(kind, ("string",))]
        if not fit:
            return
        of = self.pick(fit)
        group = self.draw(st.lists(st.sampled_from(self.fields(at)), max_size=2, unique=True))
        new = (self.name(), _GIVES.get(kind, of[1]))
        inputs = () if kind == "Count" else (of[0],)
        self.add("aggregate", (at,), (*group, new), kind=kind, group=names(tuple(group)), inputs=inputs)

    def chain(self) -> None:
        """Over batches and groups anywhere; over partitions where the oracle knows them."""
        scope = self.pick(["batch", "partition"])
        at = self.of_scope(scope)
        if at is None:
            return
        fit = [
            (kind, ((name,) if kinds else ()))
            for kind, kinds in _MEMBERS.items()
            for name, of in self.fields(at)
            if not kinds or of in kinds
        ]
        members = self.draw(st.lists(st.sampled_from(fit), min_size=1, max_size=3))
        group = tuple(self.draw(st.lists(st.sampled_from(self.fields(at)), max_size=1)))
        new = tuple((self.name(), "string" if kind in ("Seen", "Longest") else "long") for kind, _ in members)
        self.add("chain", (at,), group + new, scope=scope, group=names(group), members=tuple(members))

    def of_scope(self, scope: str) -> int | None:
        """Any stream; for partitions one of which it is known what is in which."""
        able = [at for at, step in enumerate(self.steps) if step.fields and (scope == "batch" or self.exact(at))]
        return self.pick(able) if able else None

    def extreme(self) -> None:
        """Which of equal ones leaves is left open, so only the field by which it is chosen goes on."""
        how = self.pick(["minBy", "maxBy", "min", "max", "first", "last"])
        scope = "batch" if how in ("first", "last") else self.pick(["batch", "partition"])
        at = self.of_scope(scope)
        if at is not None:
            field = self.pick(self.fields(at))
            fields = self.fields(at) if how in ("min", "max") else (field,)
            self.add("extreme", (at,), fields, how=how, scope=scope, by=field[0], count=self.draw(st.integers(1, 3)))

    def window(self) -> None:
        """By count in any order, so only a count, and by group, for without one each partition counts by itself; or by
        the time that a field tells."""
        kind = self.pick(["count", "time"])
        at = self.stream("n")
        if at is None or dict(self.fields(at))["n"] != "long":
            return
        able = [field for field in self.fields(at) if field[1] in ("string", "long")]
        group = names(tuple(self.draw(st.lists(st.sampled_from(able), min_size=int(kind == "count"), max_size=1))))
        length = self.draw(st.integers(1, 3))
        how = {"kind": kind, "length": length, "slide": self.draw(st.integers(1, length))}
        aggregator = "Count" if kind == "count" else self.pick(["Count", "Sum", "Min", "Adding"])
        time = self.name()
        if kind == "time":
            self.add_each(at, "moment", ("n",), False, ((time, "timestamp"),), False)
            at = len(self.steps) - 1
        lateness = self.draw(st.integers(0, 1))
        self.add("window", (at,), (), **how, aggregator=aggregator, group=group, time=time, lateness=lateness)

    # --- verbs over all batches, and several aggregates --------------------------------------------------------------

    def ordered(self, at: int) -> bool:
        """Whether the order of a stream's tuples is that in which its spout gave them."""
        step = self.steps[at]
        return step.verb == "spout" or (step.verb in _LOCAL and self.ordered(step.sources[0]))

    def bundle(self) -> None:
        self.several("bundle")

    def state(self) -> None:
        self.several("state", name=self.name())

    def several(self, verb: str, **how: str) -> None:
        """Several aggregators in one; those that go by the order of tuples where it is known."""
        at = self.stream()
        assert at is not None
        fit = [
            (kind, inputs)
            for kind, kinds in _SEVERAL.items()
            for inputs in self.inputs_of(at, kinds)
            if kind not in _IN_ORDER or self.ordered(at)
        ]
        members = tuple(self.draw(st.lists(st.sampled_from(fit), min_size=2, max_size=5)))
        able = [field for field in self.fields(at) if field[1] in ("string", "long")]
        group = names(tuple(self.draw(st.lists(st.sampled_from(able), max_size=1)))) if able else ()
        self.add(verb, (at,), (), group=group, members=members, names=tuple(self.name() for _ in members), **how)

    def inputs_of(self, at: int, kinds: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
        """All inputs of an aggregator whose fields have one of these types each."""
        able = [[name for name, kind in self.fields(at) if kind in each] for each in kinds]
        return [inputs for inputs in itertools.product(*able) if len({*inputs}) == len(inputs)]

    def timed(self, at: int) -> tuple[int, str]:
        """The stream with event times a hundred seconds apart, and their field."""
        time = self.name()
        self.add_each(at, "far", ("n",), False, ((time, "timestamp"),), False)
        return len(self.steps) - 1, time

    def whole(self, *needed: str, ordered: bool = False) -> int | None:
        """A stream with these fields, of the usual types."""
        able = [
            at
            for at, step in enumerate(self.steps)
            if set(needed) <= {name for name, kind in step.fields if dict(WHOLE).get(name) == kind}
            and (not ordered or self.ordered(at))
        ]
        return self.pick(able) if able else None

    def dedup(self) -> None:
        """By event time where the order is known: which tuple of a key comes first decides then."""
        timed = self.draw(st.booleans())
        at = self.whole("word", "n", ordered=timed)
        if at is None:
            return
        time = None
        if timed:
            at, time = self.timed(at)
        spans = {"within": 100 * self.draw(st.integers(1, 3)), "lateness": 100 * self.draw(st.integers(0, 2))}
        keys = self.pick([("word",), ("n",), ("word", "n")])
        self.add("dedup", (at,), (), keys=keys, time=time, name=self.name(), **spans)

    def table(self) -> None:
        at, asking = self.whole("word", "n", ordered=True), self.whole("word")
        if at is not None and asking is not None:
            how = self.pick(["inner", "left"])
            self.add("table", (at, asking), (), key="word", value="n", asking="word", type=how, name=self.name())

    def interval(self) -> None:
        left, right = self.whole("word", "n"), self.whole("word", "n")
        if left is None or right is None:
            return
        (left, one), (right, other) = self.timed(left), self.timed(right)
        lower = self.draw(st.integers(-3, 2))
        between = (100 * lower, 100 * self.draw(st.integers(lower, 3)))
        width = len(self.fields(left)) + len(self.fields(right)) - 1
        self.add(
            "interval",
            (left, right),
            (),
            keys=("word", "word"),
            times=(one, other),
            between=between,
            lateness=100 * self.draw(st.integers(0, 2)),
            type=self.pick(["inner", "left", "right", "full"]),
            outputs=tuple(self.name() for _ in range(width)),
            name=self.name(),
        )

    def exact(self, at: int) -> bool:
        """Whether it is known which partition a tuple is in."""
        step = self.steps[at]
        if step.verb in ("partition", "global", "broadcast"):
            return True
        return step.verb in _LOCAL and self.exact(step.sources[0])

    def multiReduce(self) -> None:
        kind = self.pick(["string", "long"])
        able = [at for at, step in enumerate(self.steps) if {kind, "long"} <= {each for _, each in step.fields}]
        if not able:
            return
        sources = tuple(self.draw(st.lists(st.sampled_from(able), min_size=2, max_size=3)))
        groups = tuple(self.pick([name for name, each in self.fields(at) if each == kind]) for at in sources)
        inputs = tuple(self.pick([name for name, each in self.fields(at) if each == "long"]) for at in sources)
        self.add("multiReduce", sources, self.called((kind, "long")), groups=groups, inputs=inputs)

    def merge(self) -> None:
        first = self.stream()
        assert first is not None
        kinds = [kind for _, kind in self.fields(first)]
        able = [at for at in range(len(self.steps)) if [kind for _, kind in self.fields(at)] == kinds]
        sources = (first, *self.draw(st.lists(st.sampled_from(able), min_size=1, max_size=2)))
        self.add("merge", self.moved(sources), self.fields(first))

    def moved(self, sources: tuple[int, ...]) -> tuple[int, ...]:
        """The streams, brought elsewhere before they meet: a hint on one would hold for all of a merge."""
        found = []
        for at in sources:
            self.add("shuffle", (at,), self.fields(at), count=2, names=())
            found.append(len(self.steps) - 1)
        return tuple(found)

    def join(self) -> None:
        kind = self.pick(["string", "long", "double"])
        able = [at for at, step in enumerate(self.steps) if kind in [each for _, each in step.fields]]
        if not able:
            return
        sources = tuple(self.draw(st.lists(st.sampled_from(able), min_size=2, max_size=3)))
        keys = [self.pick([name for name, each in self.fields(at) if each == kind]) for at in sources]
        types = [self.pick(["inner", "outer"]) for _ in sources]
        mode = self.pick(["compact", "preserve"])
        if mode == "preserve":
            kinds = [each for at in sources for _, each in self.fields(at)]
        else:
            rest = [e for at, key in zip(sources, keys, strict=True) for name, e in self.fields(at) if name != key]
            kinds = [kind, *rest]
        self.add("join", sources, self.called(tuple(kinds)), keys=tuple(keys), types=tuple(types), mode=mode)


Verb = Callable[[Drawing], None]

VERBS: tuple[Verb, ...] = (
    Drawing.spout,
    Drawing.each,
    Drawing.map,
    Drawing.filter,
    Drawing.filterNull,
    Drawing.project,
    Drawing.drop,
    Drawing.rename,
    Drawing.split,
    Drawing.peek,
    Drawing.place,
    Drawing.aggregate,
    Drawing.chain,
    Drawing.extreme,
    Drawing.window,
    Drawing.multiReduce,
    Drawing.merge,
    Drawing.join,
    Drawing.bundle,
    Drawing.state,
    Drawing.dedup,
    Drawing.table,
    Drawing.interval,
)


SELDOM: tuple[Verb, ...] = (
    Drawing.each_that_replaces,
    Drawing.each_of_pandas,
    Drawing.filter,
    Drawing.aggregate,
    Drawing.drop,
    Drawing.rename,
    Drawing.bundle,
    Drawing.state,
    Drawing.dedup,
    Drawing.table,
    Drawing.interval,
)
"""Verbs of which few topologies have one otherwise, because they need certain fields, or have choices of their own."""


@st.composite
def plans(draw: Any, most: int = 8, last: tuple[Verb, ...] = VERBS) -> Plan:
    """A plan of up to so many verbs after the first spout. The last one is one of `last`."""
    drawing = Drawing(draw)
    drawing.spout()
    for verb in draw(st.lists(st.sampled_from(VERBS), max_size=most - 1)):
        verb(drawing)
    draw(st.sampled_from(last))(drawing)
    return Plan(tuple(drawing.steps), drawing.batches)
