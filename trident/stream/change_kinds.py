"""The steps that give each tuple its kind of change, read from a field or from an event in a field."""

from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from trident.base.callsite import site_of
from trident.base.change_kinds import CHANGE, KIND
from trident.base.names import free_name
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.column_functions import ColumnFunction
from trident.operations.debezium import Debezium
from trident.operations.functions import Call, Operation
from trident.plan import nodes, step_checks
from trident.plan.dead_letter_replays import with_replays
from trident.stream.each import EachVerbs


def add_kinds(stream: EachVerbs[Any], field: str, kind_of: ColumnFunction, step: Step, onError: object) -> nodes.Node:
    """Add the steps that replace `field` by the kind of change that it denotes, as the last field."""
    others = [name for name in stream.schema.names if name != field]
    step_checks.chosen(stream.schema, others, step)
    if CHANGE.lower() in map(str.lower, others):
        raise step.wrong(
            f"the stream already has a field {CHANGE!r}, the name reserved for the kind of change: rename it"
        )
    schema = StructType([*select(stream.schema, others).fields, *KIND.fields])
    made = free_name(CHANGE, stream.schema.names)  # the user's field may already have this name, with another type
    both = StructType([*stream.schema.fields, StructField(made, StringType())])
    operation = Operation(kind_of, step.called, Call.VALUES)
    policy, output = stream._policy(onError, operation, step), StructType([both.fields[-1]])
    kind: nodes.Node = nodes.Each(stream._node, (field,), operation, output, policy, **step.gives(both, ".kinds"))
    kind = with_replays(stream._register, stream._label, kind)
    stream._register.add(stream._label, kind, part=True)
    node = nodes.Project(kind, (*others, made), **step.gives(schema))
    stream._register.add(stream._label, node)
    return node


def add_events(
    stream: EachVerbs[Any], reader: Debezium, read: Callable[..., Any], step: Step, onError: object
) -> nodes.Node:
    """Add the step that replaces each tuple by the changes in its event. `read` decodes one event."""
    step = step.with_function(site_of(reader))
    names = step_checks.known_fields(stream.schema, list(reader.inputFields), step)
    operation = Operation(read, step.called, Call.VALUES, many=True)
    policy = stream._policy(onError, operation, step)
    node: nodes.Node = nodes.Map(stream._node, names, operation, policy, **step.gives(reader.outputFields))
    node = with_replays(stream._register, stream._label, node)
    stream._register.add(stream._label, node)
    return node
