"""The steps that keep dead letters in a state."""

from trident.base.spark_types import select
from trident.operations.dead_letters import LETTER, KeepLetters
from trident.plan.nodes import Node, PartitionPersist


def updater_of(node: Node) -> object:
    """Return the object with the method that updates the state of a step; None if there is none."""
    return getattr(getattr(getattr(node, "updating", None), "call", None), "__self__", None)


def keeper_of(node: Node) -> KeepLetters | None:
    """Return the updater of a step if it is KeepLetters over the fields of dead letters; otherwise None."""
    if not isinstance(node, PartitionPersist):
        return None
    keeper = updater_of(node)
    inputs = select(node.source.schema, node.inputs)
    of_letters = [field.dataType for field in inputs] == [field.dataType for field in LETTER]
    return keeper if type(keeper) is KeepLetters and of_letters else None
