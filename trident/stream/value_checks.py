"""The step that checks the values of tuples for an output or a table before their batch is frozen."""

from collections.abc import Sequence

from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.column_functions import ColumnFunction
from trident.operations.functions import Call, Operation
from trident.plan import nodes
from trident.stream.base import StreamBase, StreamT


def add_check(
    stream: StreamBase[StreamT], names: Sequence[str], function: ColumnFunction, step: Step, part: str = ".storable"
) -> nodes.Node:
    """Add the step of a function that checks the values of fields and raises ValueError. Return the step.

    The attempt then fails, instead of the commit of a batch that is already frozen. Without names there is nothing to
    check. `part` is appended to the name of the verb's step.
    """
    if not names:
        return stream._node
    operation = Operation(function, step.called, Call.VALUES)
    gives = step.gives(stream.schema, part)
    node = nodes.Each(stream._node, tuple(names), operation, select(stream.schema, tuple(names)), **gives)
    stream._register.add(stream._label, node, part=True)
    return node
