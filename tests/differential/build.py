"""A plan as a real topology. Every stream that nobody reads ends in a state, so that its tuples can be seen."""

from collections.abc import Sequence
from typing import Any

from tests.differential import functions as use
from tests.differential.plan import LAST, Plan, Step, ddl, names
from trident import (
    Average,
    CollectList,
    CollectSet,
    Count,
    FilterNull,
    First,
    FirstN,
    Last,
    Latest,
    Max,
    MaxBy,
    Median,
    Min,
    MinBy,
    SlidingCountWindow,
    SlidingEventTimeWindow,
    StdDev,
    Stream,
    Sum,
    TopK,
    TridentTopology,
    VarPop,
)
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.stream.joins import joined
from trident.stream.multireduce import multi_reduced
from trident.stream.split import SplitStreams

AGGREGATORS: dict[str, Any] = {
    "Count": Count,
    "Sum": Sum,
    "Min": Min,
    "Max": Max,
    "Longest": use.Longest,
    "Adding": use.Adding,
    "Seen": use.Seen,
    "First": First,
    "Last": Last,
    "CollectList": CollectList,
    "CollectSet": CollectSet,
    "Latest": Latest,
    "MaxBy": MaxBy,
    "MinBy": MinBy,
    "StdDev": StdDev,
    "VarPop": VarPop,
    "Median": Median,
    "Average": Average,
    "TopK": lambda: TopK(2),
    "TotalOfSeries": lambda: use.total_of_series,
    "SpreadOfSeries": lambda: use.spread_of_series,
}


def made(kind: str, inputs: Sequence[str]) -> Any:
    return Latest(inputs[1]) if kind == "Latest" else AGGREGATORS[kind]()


def nothing(*_: Any) -> None:
    """What peeks do, and the updaters of the states at the ends."""


def built(plan: Plan, native: bool) -> TridentTopology:
    """The topology; `native`: where Spark has the function too, Spark's."""
    topology = TridentTopology()
    streams: list[Stream] = []
    splits: dict[int, SplitStreams] = {}
    for at, step in enumerate(plan.steps):
        if step.verb == "spout":
            batches = [list(batch) for batch in plan.batches[at]]
            streams.append(topology.newStream(f"s{at}", FixedBatchSpout(ddl(step.fields), batches)))
        elif step.verb == "part":
            known = splits.get(step.args["split"])
            if known is None:
                declared = {name: ddl(fields) for name, fields in use.STREAMS.items()}
                known = streams[step.sources[0]].split("word, n", use.sort_out, streams=declared)
                splits[step.args["split"]] = known
            streams.append(known[step.args["stream"]])
        else:
            streams.append(VERBS[step.verb](step, [streams[source] for source in step.sources], native))
        if step.verb in LAST:
            continue
        assert streams[-1].fields == names(step.fields), (at, step, streams[-1].fields)
    for at in plan.sinks:
        if plan.steps[at].verb in LAST and plan.steps[at].verb != "bundle":
            continue
        streams[at].partitionPersist(MemoryMapState.opaque(), nothing, valueType="long", name=f"sink{at}")
    return topology


def _read(step: Step, native: bool) -> list[Any]:
    """The function, behind the fields that it sees; an expression names them itself."""
    name = step.args["function"]
    if step.args.get("pandas"):
        return [list(step.args["inputs"]), use.PANDAS[name]]
    return [use.NATIVE[name]] if native and name in use.NATIVE else [list(step.args["inputs"]), getattr(use, name)]


def _aggregate(step: Step, of: list[Stream], native: bool) -> Stream:
    grouped: Any = of[0].groupBy(*step.args["group"]) if step.args["group"] else of[0]
    inputs = [] if step.args["kind"] == "Count" else [step.args["inputs"][0]]
    aggregator, output = AGGREGATORS[step.args["kind"]](), step.fields[-1][0]
    if native:
        found: Stream = grouped.aggregate(*inputs, aggregator, output)
        return found
    found = grouped.aggregate({output: (inputs, aggregator) if inputs else aggregator})
    return found  # noqa: RET504  # an Any becomes a Stream


def _chain(step: Step, of: list[Stream], native: bool) -> Stream:
    grouped: Any = of[0].groupBy(*step.args["group"]) if step.args["group"] else of[0]
    names_of = [name for name, _ in step.fields[len(step.args["group"]) :]]
    chain = grouped.chainedAgg()
    for (kind, inputs), name in zip(step.args["members"], names_of, strict=True):
        verb = chain.partitionAggregate if step.args["scope"] == "partition" else chain.aggregate
        chain = verb(*inputs, AGGREGATORS[kind](), name)
    found: Stream = chain.chainEnd()
    return found


def _multi_reduce(step: Step, of: list[Stream], native: bool) -> Stream:
    grouped = [stream.groupBy(name) for stream, name in zip(of, step.args["groups"], strict=True)]
    return multi_reduced(of[0]._register, grouped, list(step.args["inputs"]), use.Balance(), ddl(step.fields))


def _join(step: Step, of: list[Stream], native: bool) -> Stream:
    kinds, mode, fields = list(step.args["types"]), step.args["mode"], list(names(step.fields))
    return joined(of[0]._register, of, list(step.args["keys"]), fields, kinds, mode)


def _extreme(step: Step, of: list[Stream], native: bool) -> Stream:
    how, by, scope = step.args["how"], step.args["by"], step.args["scope"]
    if how in ("min", "max"):
        found: Stream = getattr(of[0], how)(use.compared, scope=scope)
        return found
    if how in ("first", "last"):
        return of[0].applyAssembly(FirstN(step.args["count"], by, reverse=how == "last")).project(by)
    found = getattr(of[0], how)(by, scope=scope)
    return found.project(by)


def _window(step: Step, of: list[Stream], native: bool) -> Stream:
    args = step.args
    config: Any = SlidingCountWindow(args["length"], args["slide"])
    if args["kind"] == "time":
        config = SlidingEventTimeWindow(args["length"], args["slide"], args["time"], lateness=args["lateness"])
    over: Any = of[0].groupBy(*args["group"]) if args["group"] else of[0]
    inputs = [] if args["aggregator"] == "Count" else ["n"]
    found: Stream = over.window(config, *inputs, AGGREGATORS[args["aggregator"]](), "result", name=args["time"])
    return found.peek(nothing)


def _members(step: Step) -> dict[str, Any]:
    return {
        name: (list(inputs), made(kind, inputs)) if inputs else AGGREGATORS[kind]()
        for name, (kind, inputs) in zip(step.args["names"], step.args["members"], strict=True)
    }


def _bundle(step: Step, of: list[Stream], native: bool) -> Stream:
    grouped: Any = of[0].groupBy(*step.args["group"]) if step.args["group"] else of[0]
    found: Stream = grouped.aggregate(_members(step))
    return found


def _state(step: Step, of: list[Stream], native: bool) -> Stream:
    grouped: Any = of[0].groupBy(*step.args["group"]) if step.args["group"] else of[0]
    state = grouped.persistentAggregate(MemoryMapState.opaque(), _members(step), name=step.args["name"])
    found: Stream = state.newValuesStream(everyChange=True)
    return found


def _dedup(step: Step, of: list[Stream], native: bool) -> Stream:
    args = step.args
    if args["time"] is None:
        return of[0].dropDuplicates(list(args["keys"]), name=args["name"]).peek(nothing)
    bounds = {"within": args["within"], "lateness": args["lateness"]}
    found = of[0].dropDuplicates(list(args["keys"]), timestampField=args["time"], name=args["name"], **bounds)
    return found.peek(nothing)


def _table(step: Step, of: list[Stream], native: bool) -> Stream:
    args = step.args
    table = of[0].toTable(args["key"], valueFields=[args["value"]], name=args["name"])
    return of[1].joinTable(table, args["asking"], args["type"], f"{args['name']}v").peek(nothing)


def _interval(step: Step, of: list[Stream], native: bool) -> Stream:
    args = step.args
    found = of[0].intervalJoin(
        of[1],
        args["keys"][0],
        args["between"],
        timestampField=args["times"][0],
        otherKeys=args["keys"][1],
        otherTimestampField=args["times"][1],
        lateness=args["lateness"],
        joinType=args["type"],
        outputFields=list(args["outputs"]),
        name=args["name"],
    )
    return found.peek(nothing)


VERBS: dict[str, Any] = {
    "bundle": _bundle,
    "state": _state,
    "dedup": _dedup,
    "table": _table,
    "interval": _interval,
    "each": lambda s, of, n: of[0].each(*_read(s, n), ddl(s.args["outputs"]), replace=s.args["replace"]),
    "map": lambda s, of, n: (of[0].flatMap if s.args["many"] else of[0].map)(*_read(s, n), ddl(s.fields)),
    "filter": lambda s, of, n: of[0].filter(*_read(s, n)),
    "filterNull": lambda s, of, n: of[0].filter(list(s.args["inputs"]), FilterNull()),
    "project": lambda s, of, n: of[0].project(*names(s.fields)),
    "rename": lambda s, of, n: of[0].rename(s.args["renames"]),
    "drop": lambda s, of, n: of[0].drop(s.args["field"]),
    "peek": lambda s, of, n: of[0].peek(nothing),
    "shuffle": lambda s, of, n: of[0].shuffle().parallelismHint(s.args["count"]),
    "partitionBy": lambda s, of, n: of[0].partitionBy(*s.args["names"]).parallelismHint(s.args["count"]),
    "batchGlobal": lambda s, of, n: of[0].batchGlobal().parallelismHint(s.args["count"]),
    "broadcast": lambda s, of, n: of[0].broadcast().parallelismHint(s.args["count"]),
    "global": lambda s, of, n: of[0].global_().parallelismHint(s.args["count"]),
    "partition": lambda s, of, n: of[0].partition("n", use.to_place).parallelismHint(s.args["count"]),
    "aggregate": _aggregate,
    "chain": _chain,
    "extreme": _extreme,
    "window": _window,
    "multiReduce": _multi_reduce,
    "merge": lambda s, of, n: of[0].merge(*of[1:], outputFields=list(names(s.fields))),
    "join": _join,
}
