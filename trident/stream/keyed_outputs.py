"""Checks of outputs with a key: the key fields, and the order of changes."""

from pyspark.sql.types import StructType

from trident.base.change_kinds import CHANGE
from trident.base.names import FieldsLike
from trident.base.verb_call import Step
from trident.plan import step_checks
from trident.plan.change_order import consolidated
from trident.stream.base import StreamBase, StreamT
from trident.stream.ordered_changes import check_order


def row_key(stream: StreamBase[StreamT], key: FieldsLike | None, verb: str, step: Step) -> tuple[str, ...]:
    """Return the fields by which an output finds the row of a tuple; none if each tuple is a new row."""
    if key is None and stream._changes:
        raise step.wrong(
            "changes need key=, the fields that identify a row; to append each change as a tuple with a field "
            f"{CHANGE!r}, write toStream().{verb}(...)"
        )
    return () if key is None else tuple(key_fields(stream, key, step).names)


def key_fields(stream: StreamBase[StreamT], keyFields: FieldsLike, step: Step) -> StructType:
    """Return the key fields of an output. Refuse changes whose order within a batch may not be that of the source."""
    keys = step_checks.chosen(stream.schema, stream._inputs(keyFields, step), step)
    if stream._changes and CHANGE in keys.names:
        raise step.wrong(f"{CHANGE!r} holds the kind of each change and cannot be part of the key")
    step_checks.check_comparable(keys, step)
    if stream._changes and not consolidated(stream._node):
        check_order(stream._register, stream._node, keys.names, step)
    return keys
