"""The content of an InitialState: read once, when its state begins, and checked before anything is written."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet
from pyarrow import types as kinds

from trident.base.callsite import site_of
from trident.base.errors import StateShapeError, StateValueError, UserFunctionError
from trident.base.short_texts import raised, short_repr
from trident.base.value_conversion import type_name
from trident.operations.aggregates.base import is_ordered
from trident.operations.aggregates.ordered import as_earlier
from trident.operations.bundles import bundle_of
from trident.operations.initial_state import InitialState, is_path, is_table
from trident.plan.nodes import StateWriter
from trident.plan.state_schema import parts_of, present_of, shown_type, value_of
from trident.plan.states import state_traits
from trident.plan.value_functions import computed
from trident.plan.wider_types import is_wider
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys
from trident_state.state_shape import StateShape


def content_of(node: StateWriter, shape: StateShape) -> pa.Table:
    """Return the initial content of a state: its key fields, then its stored values, each key once.

    Raises StateShapeError if the source has other columns or types, StateValueError for a key that comes twice, and
    UserFunctionError if a function of the program raised.
    """
    initial, where = node.state.initial, f"{node.step} ({node.site.location}): initialState"
    assert initial is not None
    table = _table_of(initial, where)
    names = shape.keys.names
    if missing := [name for name in names if name not in table.column_names]:
        raise _other_columns(where, table, f"lacks the key field {missing[0]!r}", node, shape)
    keys = pa.table([_widened(table, field, where) for field in shape.keys], schema=shape.keys) if names else None
    others = [name for name in table.column_names if name not in names]
    values = _values(node, initial, table.select(others), shape, where)
    content = pa.table({"value": values}) if keys is None else keys.append_column("value", values)
    content = content.filter(values.is_valid()) if values.null_count else content
    _check_distinct(content, shape, where)
    return as_earlier_tuples(node, content)


def as_earlier_tuples(node: StateWriter, content: pa.Table) -> pa.Table:
    """Return initial content as if earlier tuples had produced it, for order-dependent aggregators.

    The accumulators contain txids of the topology or the run that computed them, which have no meaning for the batches
    of this state.
    """
    if not content.num_rows:
        return content  # its values may have no type
    aggregation, values = state_traits(node).presents(node), one_chunk(content.column("value"))
    bundle = bundle_of(aggregation)
    if bundle is None:
        made = _as_earlier(aggregation, values)
    else:
        parts = zip(bundle.members, values.flatten(), strict=True)
        fields = [_as_earlier(member.aggregation, part) for member, part in parts]
        made = pa.StructArray.from_arrays(fields, fields=list(values.type), mask=values.is_null())
    return content.set_column(content.schema.get_field_index("value"), content.schema.field("value"), made)


def _as_earlier(aggregation: object, values: pa.Array) -> pa.Array:
    aggregator = getattr(aggregation, "aggregator", None)
    return as_earlier(values) if is_ordered(aggregator) else values


def _table_of(initial: InitialState, where: str) -> pa.Table:
    source = initial.source
    try:
        if callable(source) and not is_table(source):
            source = source()
        if is_path(source):
            return pa.parquet.read_table(source)
        table = source.toArrow() if hasattr(source, "toArrow") else source
        return table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    except Exception as error:
        what = f"{site_of(initial.source)} " if callable(initial.source) else f"{short_repr(initial.source)} "
        raise UserFunctionError(f"{where}: {what}cannot be read: it {raised(error)}. Nothing was written") from error


def _widened(table: pa.Table, field: pa.Field, where: str) -> pa.Array:
    column = one_chunk(table.column(field.name))
    if not _fits(field.type, column.type):
        raise StateShapeError(
            f"{where} has the column {field.name!r} of type {type_name(column.type)}, and the state needs "
            f"{type_name(field.type)}. Nothing was written"
        )
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:  # a time finer than a microsecond
        raise StateValueError(f"{where}: column {field.name!r}: {error}. Nothing was written") from error


def _fits(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether a column is stored exactly; Arrow's types of text count as one type, and so do those of times."""
    text = kinds.is_large_string(narrow) or kinds.is_string(narrow)
    times = kinds.is_timestamp(wide) and kinds.is_timestamp(narrow) and (wide.tz is None) == (narrow.tz is None)
    return is_wider(wide, narrow) or (kinds.is_string(wide) and text) or times


def _values(node: StateWriter, initial: InitialState, table: pa.Table, shape: StateShape, where: str) -> pa.Array:
    """Return the stored values. They are in one column, or a struct's fields are in one column each."""
    if not table.num_columns:
        raise _other_columns(where, table, "has no column with values", node, shape)
    if initial.value is not None:
        return computed(initial.value, _given(table), shape.value, where, "", "Nothing was written")
    name, whole = value_of(node).name, shape.value
    if _is_one_column(table, name, whole):
        if table.num_columns > 1:
            extra = next(other for other in table.column_names if other != name)
            raise _other_columns(where, table, f"also has the column {extra!r}", node, shape)
        _check_stored(node, table.column(0).type == whole, shape, where)
        return _widened(table, pa.field(table.column_names[0], whole), where)
    fields = [whole.field(at) for at in range(whole.num_fields)]
    alike = all(name in table.column_names for name in _field_names(whole)) and table.num_columns == whole.num_fields
    _check_stored(node, alike and all(table.column(f.name).type == f.type for f in fields), shape, where)
    if not alike:
        raise _other_columns(where, table, "must have one column for each field of the state's values", node, shape)
    return pa.StructArray.from_arrays([_widened(table, field, where) for field in fields], fields=fields)


def _is_one_column(table: pa.Table, name: str, whole: pa.DataType) -> bool:
    """Return whether the values come as one column, and not as a column for each field of a struct."""
    if not kinds.is_struct(whole) or name in table.column_names:
        return True
    only = table.field(0)
    return table.num_columns == 1 and kinds.is_struct(only.type) and only.name not in _field_names(whole)


def _field_names(struct: pa.DataType) -> list[str]:
    return [struct.field(at).name for at in range(struct.num_fields)]


def _check_stored(node: StateWriter, stored: bool, shape: StateShape, where: str) -> None:
    """Raise StateShapeError if the values may be those that queries see although an aggregator stores others.

    `stored`: whether the columns have the types of the stored values; presented values may have the same types.
    """
    parts = parts_of(node)
    shows = [part for part in (parts or {}).values() if part.present is not None]
    alike = any(part.presented == part.aggregation.type for part in shows) if parts else _shows_its_own_type(node)
    if present_of(node) is not None and (alike or not stored):
        raise StateShapeError(
            f"{where}: {shape.combine.name} stores values of type {type_name(shape.value)}, which differ from the "
            f"values that queries see. Give {'' if alike else 'columns of these types; or '}InitialState(source, "
            f"value=...), a function from a value of the source to the stored one. Nothing was written"
        )


def _shows_its_own_type(node: StateWriter) -> bool:
    return shown_type(node) == value_of(node).dataType


def _given(table: pa.Table) -> pa.Array:
    """Return the values that a user's function gets: those of the only column, or a struct of all columns."""
    return table.column(0) if table.num_columns == 1 else table.to_struct_array()


def _check_distinct(content: pa.Table, shape: StateShape, where: str) -> None:
    if not shape.keys.names:
        if content.num_rows > 1:
            raise StateValueError(
                f"{where} has {content.num_rows} rows, but the state is one value. Nothing was written"
            )
        return
    encoded = encode_keys(content.select(shape.keys.names))
    counts = encoded.value_counts()
    twice = [pair["values"] for pair in counts.filter(pa.compute.greater(counts.field("counts"), 1)).to_pylist()]
    if twice:
        row = encoded.index(twice[0]).as_py()
        key = {name: content.column(name)[row].as_py() for name in shape.keys.names}
        raise StateValueError(
            f"{where} has {len(twice)} key{'s' if len(twice) > 1 else ''} more than once, such as {short_repr(key)}: a "
            f"state has one value for each key. Nothing was written"
        )


def _other_columns(where: str, table: pa.Table, what: str, node: StateWriter, shape: StateShape) -> StateShapeError:
    name, kind = value_of(node).name, shape.value
    fields: Sequence[pa.Field] = [pa.field(name, kind)]
    if kinds.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
    expected = ", ".join(f"{field.name} {type_name(field.type)}" for field in (*shape.keys, *fields))
    return StateShapeError(f"{where} {what}; expected the columns {expected}. Nothing was written")
