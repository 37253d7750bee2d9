"""The fields that nodes read, for column pruning. Each function returns the fields that a node reads from each source.

`after` are the fields of the node's output that later steps read.
"""

from trident.base.stream_fields import STREAM_NUMBER
from trident.plan import nodes
from trident.plan.joins import origins_of
from trident.plan.split_schema import own_fields
from trident.plan.states import state_traits


def everything(node: nodes.Node, after: set[str]) -> list[set[str]]:
    return [set(source.schema.names) for source in nodes.sources_of(node)]


def passed_on(node: nodes.Node, after: set[str]) -> list[set[str]]:
    return [after]


def inputs_and_passed_on(node: nodes.Filter | nodes.Peek | nodes.Debug | nodes.Pick, after: set[str]) -> list[set[str]]:
    return [after | set(node.inputs)]


def inputs_and_others(node: nodes.Each | nodes.StateReader, after: set[str]) -> list[set[str]]:
    return [(after - set(node.outputs.names)) | set(node.inputs)]


def of_split(node: nodes.Split, after: set[str]) -> list[set[str]]:
    return [{*node.inputs, *node.carried}]


def of_table_changes(node: nodes.TableChanges, after: set[str]) -> list[set[str]]:
    return [set(state_traits(table).keys(table).names) for table in node.tables][: len(node.sources)]


def inputs(node: nodes.Map | nodes.PartitionPersist, after: set[str]) -> list[set[str]]:
    return [set(node.inputs)]


def group_and_inputs(node: nodes.PersistentAggregate | nodes.PersistentReduce, after: set[str]) -> list[set[str]]:
    return [{*node.group, *node.inputs}]


def of_members(node: nodes.Aggregate, after: set[str]) -> list[set[str]]:
    return [{*node.group, *(name for member in node.members for name in member.inputs)}]


def of_project(node: nodes.Project, after: set[str]) -> list[set[str]]:
    return [{own for name, own in zip(node.schema.names, node.names, strict=True) if name in after}]


def of_part(node: nodes.Part, after: set[str]) -> list[set[str]]:
    wanted = _some(node, after)
    return [{STREAM_NUMBER} | {inner for inner, name in own_fields(node).items() if name in wanted}]


def of_merge(node: nodes.Merge, after: set[str]) -> list[set[str]]:
    positions = [at for at, name in enumerate(node.schema.names) if name in after]
    schemas = [source.schema for source in node.sources]
    # If the user asked for a field with the source's name, it is the last one, and no source has a field there.
    return [{schema.names[at] for at in positions if at < len(schema.names)} for schema in schemas]


def of_join(node: nodes.Join, after: set[str]) -> list[set[str]]:
    wanted, needed = [set(key) for key in node.keys], _some(node, after)
    for name, origins in zip(node.schema.names, origins_of(node), strict=True):
        for source, field in origins if name in needed else ():
            wanted[source].add(field)
    return wanted


def of_multi_reduce(node: nodes.MultiReduce, after: set[str]) -> list[set[str]]:
    return [{*own, *(node.groups[at] if node.groups else ())} for at, own in enumerate(node.inputs)]


def _some(node: nodes.Node, after: set[str]) -> set[str]:
    """Return the fields that later nodes read (`after`), or the first field if they read none: Spark needs a column."""
    return after.intersection(node.schema.names) or set(node.schema.names[:1])
