"""The engines that a start can name, and the refusal of steps that the embedded engine cannot run."""

from collections.abc import Iterable
from typing import get_args

from trident.base.errors import MissingSessionError, TopologyError
from trident.base.names import did_you_mean
from trident.base.verb_call import is_ours
from trident.compiler.carrier_choice import writers_of_step
from trident.operations.functions import Call
from trident.plan.nodes import BestEffort, ForeachBatch, HeldState, Node, SpoutSource, StateQuery, walk
from trident.plan.topology_protocol import EngineName
from trident.plan.traits import has_python_form, operation_of

_WAYS_OUT = {
    Call.EXPRESSION: "write the SQL expression as a Python function",
    Call.UDF: "give the function inside the udf",
    Call.FRAME: "write it with each, map, filter or an aggregator: there are no DataFrames",
}
_OTHERWISE = "write it as a function of values, without Columns"


def check_engine_name(engine: object) -> None:
    """Raise TopologyError if `engine` is not the name of an engine."""
    names = get_args(EngineName)
    if engine not in names:
        near = did_you_mean(engine, names) if isinstance(engine, str) else ""
        raise TopologyError(f"engine={engine!r}{near}: expected {', '.join(map(repr, names[:-1]))} or {names[-1]!r}")


def check_engine(engine: object, spark: object, nodes: Iterable[Node]) -> None:
    """Raise an error if the engine is unknown, or is the embedded one and a session or a step needs Spark."""
    check_engine_name(engine)
    if engine != "embedded":
        return
    if spark is not None:
        raise TopologyError(
            "start got a SparkSession and engine='embedded', which runs without Spark: omit one of them"
        )
    for node in nodes:
        held = node.updated if isinstance(node, StateQuery) else node
        if isinstance(held, HeldState) and writers_of_step(held) == "executors":
            raise TopologyError(
                f"engine='embedded' has no executors, but in {held.step} the state {held.state.name!r} "
                f"({held.state.factory!r}) has writers='executors': declare it with writers='auto', or start on Spark"
            )
    steps = [f"{_named(node)}: {_way_out(node)}" for node in only_on_spark(nodes)]
    if steps:
        raise MissingSessionError(
            f"engine='embedded' has no Spark, and only Spark can run {'; '.join(steps)}. "
            "With engine='spark' the topology runs unchanged"
        )


def only_on_spark(nodes: Iterable[Node]) -> list[Node]:
    """Return the steps that only Spark can run, also those of DRPC functions, outputs and best-effort branches."""
    return [node for node in _with_branches(nodes) if not has_python_form(node)]


def _with_branches(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes, and the nodes of the best-effort branches that begin at one of them."""
    nodes = list(nodes)
    branches = [node.branch.roots() for node in nodes if isinstance(node, BestEffort)]
    return [*nodes, *walk(*(root for roots in branches for root in roots))]


def _named(node: Node) -> str:
    """Return a step's label, its function with file and line, and the line of its call."""
    operation = operation_of(node)
    site = node.function_site if isinstance(node, ForeachBatch) else None if operation is None else operation.site
    function = f"{site}, " if site is not None and site.file and not is_ours(site.file) else ""
    return f"{node.step} [{function}called at {node.site.location}]"


def _way_out(node: Node) -> str:
    if isinstance(node, SpoutSource):
        return "its spout reads with Spark only; give SparkSpout readLocal=, a function that reads without Spark"
    operation = operation_of(node)
    if operation is None:
        return "get the batches as Arrow tables, with foreachArrow"
    return _WAYS_OUT.get(operation.call, _OTHERWISE)
