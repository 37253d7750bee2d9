"""The texts by which `explain` and pictures describe a node, in addition to its name."""

from collections.abc import Mapping, Sequence

from trident.base.spark_types import ddl
from trident.operations.interval_joins import span
from trident.plan import nodes


def nothing(node: nodes.Node) -> str:
    return ""


def of_spout(node: nodes.SpoutSource) -> str:
    return f"{node.spout.kind.value}, first to its end" if node.bootstrap else node.spout.kind.value


def of_inputs(node: nodes.Each | nodes.Filter | nodes.Split | nodes.PartitionPersist) -> str:
    return f"of {', '.join(node.inputs)}" if node.inputs != tuple(node.source.schema.names) else ""


def by(names: Sequence[str]) -> str:
    return f"by {', '.join(names)}" if names else ""


def joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def about_pick(node: nodes.Pick) -> str:
    fields = by(node.inputs) if node.inputs != tuple(node.schema.names) else ""
    return joined(fields, "in each partition" if node.scope == "partition" else "of the batch")


def about_aggregate(node: nodes.Aggregate) -> str:
    scope = "in each partition" if node.scope == "partition" else "" if node.group else "over the batch"
    return joined(by(node.group), scope)


def about_persistent(node: nodes.PersistentAggregate | nodes.PersistentReduce) -> str:
    return joined(by(node.group), f"into state {node.state.name}")


def by_group(node: nodes.PersistentAggregate | nodes.PersistentReduce) -> str:
    return by(node.group)


def about_interval_join(node: nodes.IntervalJoin) -> str:
    joining = node.joining
    interval = f"from {span(joining.lower)} to {span(joining.upper)}"
    return joined(by(joining.sides[0].keys), interval, _kind(joining.kind))


def about_window_join(node: nodes.WindowJoin) -> str:
    joining = node.joining
    return joined(by(joining.sides[0].keys), repr(joining.window), _kind(joining.kind))


def _kind(join: str) -> str:
    return "" if join == "inner" else f"{join} join"


def about_query(node: nodes.StateReader) -> str:
    return " ".join(filter(None, [f"asks state {node.updated.state.name}", by(node.inputs)]))


def about_table_changes(node: nodes.TableChanges) -> str:
    if node.other is None:
        return f"of state {node.table.state.name}{', with its null values' if node.entries else ''}"
    kind, on = "left join of" if node.left else "join of", f", {by(node.refers)}" if node.refers else ""
    return f"{kind} states {node.table.state.name} and {node.other.state.name}{on}"


def about_committed_query(node: nodes.CommittedQuery) -> str:
    return f"{about_query(node)} as committed"


_OF_TWO: Mapping[tuple[bool, ...], str] = {(False, True): "left ", (True, False): "right ", (True, True): "full "}


def about_join(node: nodes.Join) -> str:
    """Return the kind of a join, the keys by which its streams are joined, and whether it keeps all fields."""
    kind = ""
    if any(node.outer):
        kind = _OF_TWO.get(node.outer, f"{', '.join('outer' if missing else 'inner' for missing in node.outer)} ")
    kept = ", all fields kept" if node.preserve else ""
    return f"{kind}on {_paired(node.keys)}{kept}, within ONE batch"


def about_multi_reduce(node: nodes.MultiReduce) -> str:
    return f"by {_paired(node.groups) if node.groups else 'partition'}, within ONE batch"


def _paired(keys: Sequence[tuple[str, ...]]) -> str:
    """Return the keys of several streams, paired by position, as text such as "(user) = (who)"."""
    return " = ".join(f"({', '.join(names)})" for names in keys)


def plus_outputs(node: nodes.Each | nodes.StateReader) -> str:
    return f"+ {ddl(node.outputs)}"
