"""The rules of structs, arrays and maps."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.types import DataType

from trident.base.names import did_you_mean, quote
from trident.base.spark_types import ddl, type_ddl
from trident.expressions.condition_rules import compared_types, order_of
from trident.expressions.expression_types import BOOLEAN, INT, Mismatch, common, is_integral, known, same
from trident.expressions.rules import Datum, ExpressionError, Typed, as_is, quoted_text, rule


def _field_types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    (kind,), (name,) = kinds, params
    if isinstance(kind, spark.MapType) and isinstance(kind.keyType, spark.StringType):
        return Typed(kinds, kind.valueType, params)
    if not isinstance(kind, spark.StructType):
        raise Mismatch(f"expected a struct with a field {name!r}, not {type_ddl(kind)}")
    if name not in kind.names:
        raise Mismatch(f"no field {name!r} in the struct ({ddl(kind)}){did_you_mean(name, kind.names)}")
    return Typed(kinds, kind[name].dataType, params)


def _field(call: Typed) -> Callable[[Any], Any]:
    if isinstance(call.kinds[0], spark.MapType):
        return lambda entries: entries.get(call.params[0])
    at = call.kinds[0].names.index(call.params[0])  # type: ignore[attr-defined]
    return lambda row: row[at]


def _field_sql(call: Typed, text: str) -> str:
    (name,) = call.params
    return f"{text}[{quoted_text(name)}]" if isinstance(call.kinds[0], spark.MapType) else f"{text}.{quote(name)}"


def _field_columns(call: Typed, rows: Datum) -> Datum | None:
    if isinstance(call.kinds[0], spark.MapType):
        return None
    return pc.struct_field(rows, call.kinds[0].names.index(call.params[0]))  # type: ignore[attr-defined]


rule("getField", _field_types, _field, _field_sql, _field_columns)


def _element(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    kind, position = kinds
    if isinstance(kind, spark.MapType):
        return Typed((kind, _key(kind, position)), kind.valueType)
    if not isinstance(kind, spark.ArrayType):
        raise Mismatch(f"expected an array or map, not {type_ddl(kind)}")
    if not is_integral(position) or isinstance(position, spark.LongType):
        raise Mismatch(f"expected an int for the position, not {type_ddl(position)}")
    return Typed((kind, INT), kind.elementType)


def _key(kind: spark.MapType, asked: DataType) -> DataType:
    """Return the type that a looked-up key needs. Raises Mismatch."""
    if not isinstance(kind.keyType, _KEYS) or not same(common(kind.keyType, asked), kind.keyType):
        raise Mismatch(f"a {type_ddl(kind)} has no key of the type {type_ddl(asked)}; keys are texts, numbers or dates")
    return kind.keyType


_KEYS = (spark.StringType, spark.IntegralType, spark.DateType)


def _item(call: Typed) -> Callable[[Any, Any], Any]:
    return (lambda entries, key: entries.get(key)) if isinstance(call.kinds[0], spark.MapType) else _strictly


def _strictly(values: list[Any], at: int) -> Any:
    if not 0 <= at < len(values):
        raise ExpressionError(f"position {at} is outside of an array of {len(values)} elements; use functions.get")
    return values[at]


def _array_element(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    if isinstance(kinds[0], spark.MapType):
        raise Mismatch(f"expected an array, not {type_ddl(kinds[0])}; an entry is col('m').getItem(key)")
    return _element(kinds, params)


rule("getItem", _element, _item, "{}[{}]")
rule("get", _array_element, as_is(lambda values, at: values[at] if 0 <= at < len(values) else None), "get({}, {})")


def _array(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    if not isinstance(kinds[0], spark.ArrayType | spark.MapType):
        raise Mismatch(f"expected an array or map, not {type_ddl(kinds[0])}")
    return Typed(kinds, INT)


rule(
    "size",
    _array,
    as_is(len),
    "size({})",
    lambda call, a: pc.list_value_length(a) if isinstance(call.kinds[0], spark.ArrayType) else None,
)


def _holds(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    kind, sought = kinds
    if not isinstance(kind, spark.ArrayType):
        raise Mismatch(f"expected an array, not {type_ddl(kind)}")
    compared = compared_types((kind.elementType, sought), ()).kinds[0]
    if compared.simpleString() != kind.elementType.simpleString():
        raise Mismatch(f"an array of {type_ddl(kind.elementType)} cannot contain a {type_ddl(sought)}; cast the value")
    return Typed((kind, known(compared)), BOOLEAN)


def _contained(values: list[Any], sought: Any) -> Any:
    if any(each is not None and order_of(each) == order_of(sought) for each in values):
        return True
    return None if any(each is None for each in values) else False


rule("array_contains", _holds, as_is(_contained), "array_contains({}, {})")


def _made_types(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    fields = [spark.StructField(name, known(kind)) for name, kind in zip(params, kinds, strict=True)]
    return Typed(kinds, spark.StructType(fields), params)


def _made(call: Typed) -> Callable[..., Any]:
    row = spark.Row(*call.params)
    return lambda *values: row(*values)


def _made_sql(call: Typed, *texts: str) -> str:
    pairs = zip(call.params, texts, strict=True)
    return f"struct({', '.join(f'{text} AS {quote(name)}' for name, text in pairs)})"


def _made_columns(call: Typed, *columns: Datum) -> Datum | None:
    if not all(isinstance(column, pa.Array) for column in columns):
        return None
    return pa.StructArray.from_arrays(list(columns), fields=list(call.arrow))


rule("struct", _made_types, _made, _made_sql, _made_columns, nulls=True)
