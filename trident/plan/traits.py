"""The traits of each class of nodes, in one table. Passes over a plan use them to decide how to treat a node.

A pass (column pruning, partitions, pictures, explain) walks the plan and asks for the traits of each node, so it names
no class of nodes. A new node needs one row here; `tests/plan/test_traits.py` fails without it. The work of a
node is not a trait: `trident.compiler.columns.kernels`, `trident.compiler.arrow` and `trident.compiler.spark` do it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from trident.base.spark_types import ddl
from trident.operations.aggregators import Aggregation
from trident.operations.functions import Operation
from trident.plan import field_reads as reads
from trident.plan import nodes
from trident.plan import summaries as words
from trident.plan.guarantee import promise_text
from trident.plan.sinks import sink_traits
from trident.plan.window_inputs import entering_panes, entering_watermark, entering_window
from trident_spouts.executor import SparkOnlySpout

N = TypeVar("N", bound=nodes.Node)

Role = Literal["source", "step", "effect", "aggregate", "state", "query", "meeting"]
"""The role of a node in a topology. A picture has a shape for each role."""

SPARK, PYTHON, DRIVER, NO_RUNNER = "Spark", "Python", "driver", ""
"""The runner of a node: Spark itself (Catalyst), Python in Spark's workers, the driver, or none (for a source)."""


@dataclass(frozen=True, slots=True)
class Traits(Generic[N]):
    """The traits of one class of nodes."""

    role: Role

    keeps_partitions: Callable[[N], bool]
    """True if the node's output stays in the partitions of the node's input."""

    reads: Callable[[N, set[str]], list[set[str]]]
    """The fields that the node reads from each source, given the fields of its output that later steps read."""

    runner: Callable[[N], str]
    """The runner of the node in a batch: one of the four above."""

    summary: Callable[[N], str]
    """The work of the node, in addition to its name: its key fields, its state, a word for work by partition."""

    caption: Callable[[N], str] | None = None
    """The summary without the parts that a picture shows by arrows; None: the whole summary."""

    fields: Callable[[N], str] = lambda node: ddl(node.schema)
    """The node's output fields, as a picture shows them if they differ from its input fields."""

    operation: Callable[[N], Operation] | None = None
    """The user's function that the node calls with one tuple (a transform: with a batch)."""

    needs_spark: Callable[[N], bool] | None = None
    """True if only Spark can run the node. None: the call of its operation decides."""


def traits_of(node: N) -> Traits[N]:
    """Return the traits of a node's class."""
    if type(node) not in TRAITS:
        raise TypeError(f"{type(node).__name__} has no entry in trident.plan.traits.TRAITS: add one")
    return TRAITS[type(node)]


def summary_of(node: nodes.Node) -> str:
    """Return the text of `explain` about a node in addition to its name, such as its key fields and its state."""
    return traits_of(node).summary(node)


def operation_of(node: nodes.Node) -> Operation | None:
    """Return the user's function that a node calls for each tuple or batch; None if there is none."""
    operation = traits_of(node).operation
    return None if operation is None else operation(node)


def has_python_form(node: nodes.Node) -> bool:
    """Return whether a node can run without Spark."""
    needs_spark = traits_of(node).needs_spark
    if needs_spark is not None:
        return not needs_spark(node)
    operation = operation_of(node)
    return operation is None or not operation.call.native


def may_lose_batches(node: nodes.Node) -> bool:
    """Return whether a node is allowed in a best-effort branch, which may lose batches.

    States, and steps that read the tuples of a state, are not allowed: they must be exact.
    """
    if isinstance(node, nodes.Sink):
        return sink_traits(node).in_branch
    return not isinstance(node, nodes.HeldState | nodes.StateReader | nodes.Derived)


# --- whether tuples stay in their partitions ------------------------------------------------------------------------


def _always(node: nodes.Node) -> bool:
    return True


def _never(node: nodes.Node) -> bool:
    return False


def _by_partition(node: nodes.Aggregate | nodes.Pick) -> bool:
    return node.scope == "partition"


# --- runners of nodes ------------------------------------------------------------------------------------------------


def _no_runner(node: nodes.Node) -> str:
    return NO_RUNNER


def _spark(node: nodes.Node) -> str:
    return SPARK


def _python(node: nodes.Node) -> str:
    return PYTHON


def _driver(node: nodes.Node) -> str:
    return DRIVER


def _by_operation(node: nodes.Node) -> str:
    return PYTHON if has_python_form(node) else SPARK


def _by_aggregators(node: nodes.Aggregate | nodes.PersistentAggregate) -> str:
    return SPARK if all_native(node) else PYTHON


def _by_windowing(node: nodes.WindowPanes) -> str:
    aggregation = node.windowing.aggregation
    return SPARK if aggregation is None or aggregation.native is not None else PYTHON


def all_native(node: nodes.Aggregate | nodes.PersistentAggregate) -> bool:
    """Return whether Spark itself can compute all aggregates of the node. Spark cannot aggregate by partition."""
    if isinstance(node, nodes.Aggregate) and node.scope == "partition":
        return False
    return all(isinstance(member.how, Aggregation) and member.how.native is not None for member in node.members)


# --- the table --------------------------------------------------------------------------------------------------------

TRAITS: Mapping[type[nodes.Node], Traits[Any]] = {
    # Each row by position: role, keeps_partitions, reads, runner, summary.
    #
    # sources
    nodes.SpoutSource: Traits(
        "source",
        _never,
        reads.everything,
        _no_runner,
        words.of_spout,
        needs_spark=lambda node: isinstance(node.spout, SparkOnlySpout) and node.spout.needs_spark,
    ),
    nodes.RequestSource: Traits("source", _never, reads.everything, _no_runner, words.nothing),
    # one tuple at a time
    nodes.Each: Traits(
        "step",
        _always,
        reads.inputs_and_others,
        _by_operation,
        words.of_inputs,
        fields=words.plus_outputs,
        operation=lambda node: node.function,
    ),
    nodes.Filter: Traits(
        "step",
        _always,
        reads.inputs_and_passed_on,
        _by_operation,
        words.of_inputs,
        operation=lambda node: node.predicate,
    ),
    nodes.Map: Traits(
        "step", _always, reads.inputs, _by_operation, words.nothing, operation=lambda node: node.function
    ),
    nodes.Project: Traits(
        "step", _always, reads.of_project, _spark, words.nothing, fields=lambda node: ", ".join(node.schema.names)
    ),
    nodes.Peek: Traits(
        "effect", _always, reads.inputs_and_passed_on, _by_operation, words.nothing, operation=lambda node: node.action
    ),
    nodes.Debug: Traits("effect", _always, reads.inputs_and_passed_on, _spark, words.nothing),
    nodes.Split: Traits(
        "step",
        _always,
        reads.of_split,
        _by_operation,
        words.of_inputs,
        fields=words.nothing,
        operation=lambda node: node.function,
    ),
    nodes.Part: Traits("step", _always, reads.of_part, _spark, words.nothing),
    nodes.LettersOf: Traits("step", _never, reads.everything, _spark, words.nothing, fields=words.nothing),
    # a batch or a partition at once
    nodes.Transform: Traits(
        "step", _never, reads.everything, _spark, words.nothing, operation=lambda node: node.function
    ),
    nodes.Repartition: Traits(
        "step",
        lambda node: node.how is nodes.Placing.IDENTITY,
        lambda node, after: [after | set(node.names)],
        lambda node: SPARK if node.function is None else PYTHON,
        lambda node: words.by(node.names),
    ),
    nodes.ParallelismHint: Traits("step", _always, reads.passed_on, _spark, words.nothing),
    nodes.PartitionOf: Traits(
        "step", _always, lambda node, after: [after & set(node.source.schema.names)], _spark, words.nothing
    ),
    nodes.Aggregate: Traits("aggregate", _by_partition, reads.of_members, _by_aggregators, words.about_aggregate),
    nodes.Pick: Traits("aggregate", _by_partition, reads.inputs_and_passed_on, _python, words.about_pick),
    # states
    nodes.PersistentAggregate: Traits(
        "aggregate",
        _never,
        reads.group_and_inputs,
        _by_aggregators,
        words.about_persistent,
        words.by_group,
    ),
    nodes.PersistentReduce: Traits(
        "aggregate", _never, reads.group_and_inputs, _driver, words.about_persistent, words.by_group
    ),
    nodes.PartitionPersist: Traits(
        "aggregate",
        _never,
        reads.inputs,
        _driver,
        summary=lambda node: words.joined(words.of_inputs(node), f"updates state {node.state.name}"),
        caption=words.nothing,
    ),
    nodes.StaticState: Traits("state", _never, reads.everything, _no_runner, words.nothing),
    nodes.StateQuery: Traits(
        "query",
        _never,
        reads.inputs_and_others,
        _driver,
        words.about_query,
        lambda node: words.by(node.inputs),
        fields=words.plus_outputs,
    ),
    nodes.CommittedQuery: Traits(
        "query",
        _never,
        reads.inputs_and_others,
        _driver,
        words.about_committed_query,
        lambda node: words.by(node.inputs),
        fields=words.plus_outputs,
    ),
    nodes.Emitted: Traits("step", _never, reads.everything, _driver, words.nothing),
    nodes.TableChanges: Traits("query", _never, reads.of_table_changes, _driver, words.about_table_changes),
    # windows
    nodes.WindowPanes: Traits(
        "aggregate",
        _never,
        lambda node, after: [set(entering_panes(node))],
        _by_windowing,
        summary=lambda node: f"by {', '.join([*node.group, 'time'])}: {node.windowing.config!r}",
    ),
    nodes.Watermark: Traits(
        "aggregate",
        _never,
        lambda node, after: [set(entering_watermark(node))],
        _driver,
        summary=lambda node: f"into state {node.state.name}",
        caption=words.nothing,
    ),
    nodes.Window: Traits(
        "aggregate",
        _never,
        lambda node, after: [set(entering_window(node))],
        _driver,
        summary=lambda node: words.joined(
            words.by(node.group),
            f"{node.windowing.config!r}, into state {node.state.name}",
            "emits changes" if node.windowing.early else "",
        ),
        caption=lambda node: ", ".join([*node.group, repr(node.windowing.config)]),
    ),
    nodes.IntervalJoin: Traits(
        "aggregate",
        _never,
        reads.everything,
        _driver,
        summary=lambda node: words.joined(words.about_interval_join(node), f"into state {node.state.name}"),
        caption=words.about_interval_join,
    ),
    nodes.WindowJoin: Traits(
        "aggregate",
        _never,
        reads.everything,
        _driver,
        summary=lambda node: words.joined(words.about_window_join(node), f"into state {node.state.name}"),
        caption=words.about_window_join,
    ),
    nodes.LateTuples: Traits(
        "step", _never, reads.everything, _driver, lambda node: f"too late for {node.window.state.name}"
    ),
    # sinks
    nodes.ForeachBatch: Traits(
        "effect",
        _never,
        reads.everything,
        _driver,
        summary=lambda node: f"output {node.name}, each batch at least once, always the same",
        needs_spark=lambda node: node.frame,
    ),
    nodes.WriteParquet: Traits(
        "effect",
        _never,
        reads.everything,
        _driver,
        summary=lambda node: f"output {node.name}, into {node.path}: {promise_text(node)}",
    ),
    nodes.WriteKafka: Traits(
        "effect",
        _never,
        reads.everything,
        _driver,
        summary=lambda node: f"output {node.name}, into the topic {node.kafka.topic}: {promise_text(node)}",
    ),
    nodes.WriteJdbc: Traits(
        "effect",
        _never,
        reads.everything,
        _driver,
        summary=lambda node: f"output {node.name}, into {node.jdbc.shown}: {promise_text(node)}",
    ),
    nodes.WriteDelta: Traits(
        "effect",
        _never,
        reads.everything,
        _driver,
        summary=lambda node: f"output {node.name}, into {node.delta.shown}: {promise_text(node)}",
    ),
    nodes.CountMetric: Traits(
        "effect", _never, reads.everything, _driver, lambda node: f"into the metric {node.metric}"
    ),
    nodes.BestEffort: Traits(
        "effect",
        _never,
        reads.everything,
        _spark,
        summary=lambda node: f"branch {node.name}, never delays a batch",
    ),
    # several sources, within one batch
    nodes.Merge: Traits("meeting", _always, reads.of_merge, _spark, lambda node: "within ONE batch"),
    nodes.Join: Traits("meeting", _never, reads.of_join, _spark, words.about_join),
    nodes.MultiReduce: Traits(
        "meeting", lambda node: not node.groups, reads.of_multi_reduce, _python, words.about_multi_reduce
    ),
}
