"""Queries of a state by an indexed field, built from two lookups: first in the index, then in the state."""

from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from trident.base.callsite import CallSite
from trident.base.names import free_name
from trident.base.spark_types import select
from trident.base.verb_call import within
from trident.operations.output_fields import read_outputs
from trident.operations.query_functions import EntryGet, MapGet
from trident.operations.table_indexes import each_key, each_part, every_directory
from trident.plan import step_checks
from trident.plan.state_schema import keys_of
from trident.stream.arguments import Arguments
from trident.stream.state import StateBase


def add_index_query(stream: Any, state: StateBase[Any], call: Arguments, fields: tuple[str, ...], replace: bool) -> Any:
    """Return the stream with the entries of `state` whose indexed fields have the given values.

    Raises TopologyError if the state has no such index, or if the input or output fields do not fit it.
    """
    step, keys = call.step, keys_of(state._node)
    index = state._register.indexes.get((state._node, fields))
    if index is None:
        known = [", ".join(names) for node, names in state._register.indexes if node is state._node]
        raise step.wrong(
            f"state {state.name!r} has no index by ({', '.join(fields)}); "
            f"{'its indexes are by (' + '), ('.join(known) + ')' if known else 'it has none'}: pass index= to the "
            "verb that creates the state, such as toTable(keyFields, index='city')"
        )
    if call.outputs is None:
        raise step.wrong("name the output fields: the key fields, then the value")
    inputs, outputs = stream._inputs(call.inputs, step), read_outputs(call.outputs, step).schema
    step_checks.check_query_keys(
        select(stream.schema, inputs), StructType(keys_of(index).fields[:-1]), index.state.name, step
    )
    if len(outputs.names) <= len(keys.names):
        raise step.wrong(
            f"an entry of state {state.name!r} has {len(keys.names)} key fields and a value: name an output field for "
            "each key field, and at least one for the value"
        )
    found = StructType([StructField(name, key.dataType) for name, key in zip(outputs.names, keys.fields, strict=False)])
    values = StructType(outputs.fields[len(keys.names) :])
    step_checks.appended(stream.schema, outputs, step, replace=replace)
    taken = [*stream.schema.names, *outputs.names]
    part, listed = free_name("part", taken), free_name("listed", taken)
    held = type(state)(state._register, index, state._label)
    kept = [name for name in stream.schema.names if name not in outputs.names]
    with within(CallSite("stateQuery", step.called.file, step.called.line)):
        parts = StructType([StructField(part, LongType())])
        asked = stream.each(list(inputs), every_directory, parts)
        asked = asked.stateQuery(held, [*inputs, part], MapGet(), listed)
        asked = asked.each(listed, each_part, parts, replace=True)
        asked = asked.stateQuery(held, [*inputs, part], MapGet(), listed, replace=True)
        asked = asked.each(listed, each_key, found, replace=replace)
        return asked.stateQuery(state, list(found.names), EntryGet(), values.names, replace=replace).project(
            [*kept, *outputs.names]
        )
