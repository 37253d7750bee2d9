"""Functions that inspect a user's state updater: its call, the emitted tuples, and the fields of its state."""

from typing import Any

from pyspark.sql import types as spark

from trident.base.callsite import site_of
from trident.base.errors import FieldNotFoundError, TopologyError, TypeDeclarationError
from trident.base.names import did_you_mean
from trident.base.short_texts import brief
from trident.base.spark_types import ddl, parse_type
from trident.base.verb_call import Step
from trident.operations.callables import bind, check_no_lifecycle, check_not_class, is_coroutine, operation_kind
from trident.operations.functions import Updating
from trident.operations.output_fields import OutputsLike, emitted, read_outputs

VALUE = "value"
"""The field name for a state's value, if no aggregator names the field."""

_ACCEPTED = "a StateUpdater: an object with updateState(state, tuples, collector), or a callable of these three"


def read_updater(target: Any, step: Step) -> Updating:
    """Read `target` as a state updater: a StateUpdater, or a callable of the state, the tuples and a collector."""
    check_not_class(target, step)
    kind = operation_kind(target)
    if kind not in ("", "updater") or not (kind or callable(target)):
        raise step.error(TopologyError, f"{brief(target)} is not a state updater; give {_ACCEPTED}")
    check_no_lifecycle(target, step)
    call = target.updateState if kind else target
    if is_coroutine(call):
        raise step.error(TopologyError, "it is an async function, which is never awaited here; use a plain function")
    bind(call, 3, "it is called with the state, a list of TridentTuples and a collector", step)
    return Updating(call, site_of(target))


def emitted_fields(target: Any, outputs: OutputsLike | None, step: Step) -> spark.StructType:
    """Return the fields of the tuples that `target` emits; no fields if `outputs` is None."""
    if outputs is None:
        return spark.StructType([])
    return emitted(target, outputs, step, "object")


def held_fields(
    target: Any,
    known: spark.StructType,
    keyFields: OutputsLike | None,
    valueType: str | spark.DataType | None,
    usage: str,
    step: Step,
) -> tuple[spark.StructType, spark.StructField]:
    """Return the key fields and the value field of a state without an aggregator.

    If `keyFields` or `valueType` is None, the attribute of `target` with the same name is used. A key field that is
    also in `known` needs no type. Errors quote `usage`.
    """
    keyFields = getattr(target, "keyFields", None) if keyFields is None else keyFields
    valueType = getattr(target, "valueType", None) if valueType is None else valueType
    keys = spark.StructType([]) if keyFields is None or not keyFields else _key_fields(keyFields, known, step)
    if valueType is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of the state's values is not declared: pass valueType='long'; write {usage}",
        )
    return keys, spark.StructField(VALUE, _value_type(valueType, step))


def _key_fields(keyFields: OutputsLike, known: spark.StructType, step: Step) -> spark.StructType:
    declared = read_outputs(keyFields, step)
    fields = []
    for field, typed in zip(declared.schema.fields, declared.typed, strict=True):
        if not typed and field.name not in known.names:
            near = did_you_mean(field.name, known.names)
            hint = f"; the fields are ({ddl(known)}){near}" if known.fields else ""
            raise step.error(
                FieldNotFoundError,
                f"key field {field.name!r} has no type: write one, such as '{field.name} string'{hint}",
            )
        fields.append(field if typed else known[field.name])
    return spark.StructType(fields)


def _value_type(valueType: object, step: Step) -> spark.DataType:
    if isinstance(valueType, spark.DataType):
        return valueType
    try:
        return parse_type(valueType)  # type: ignore[arg-type]
    except (TypeDeclarationError, TypeError, AttributeError) as error:
        raise step.error(
            TypeDeclarationError, f"valueType={valueType!r} is not a type: {error}; write 'long'"
        ) from None
