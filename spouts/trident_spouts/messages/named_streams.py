"""The named streams of a RichSpout: their tuples are emitted as one table that has each tuple's stream number."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.errors import SpoutContractError
from trident.base.names import did_you_mean
from trident.base.spark_types import arrow_schema
from trident.base.stream_fields import STREAM_NUMBER, inside, split_schema
from trident_spouts.rows import read_schema, table_of

Streams: TypeAlias = tuple[tuple[str, StructType], ...]
"""The name and the fields of each stream."""

DEFAULT = "default"
"""The stream of an emission that does not name a stream, as in Storm."""


def named_streams(fields: Mapping[str, Any]) -> Streams:
    """Return the streams that a spout declares.

    Raises TypeDeclarationError if the fields of a stream cannot be read.
    """
    return tuple((name, read_schema(declared)) for name, declared in fields.items())


def number_of(stream: str | None, names: Sequence[str], where: str) -> int:
    """Return the number of the stream that an emission names.

    Raises SpoutContractError, which begins with `where`, if the spout has no such stream.

    >>> number_of("errors", ["orders", "errors"], "s"), number_of(None, ["default"], "s")
    (1, 0)
    """
    name = DEFAULT if stream is None else stream
    if name in names:
        return names.index(name)
    listed = f"the streams are {', '.join(names)}"
    if stream is None:
        raise SpoutContractError(f"{where}: the stream is missing; write emit(..., stream={names[0]!r}); {listed}")
    near = did_you_mean(stream, names) if isinstance(stream, str) else ""
    raise SpoutContractError(f"{where}: there is no stream {stream!r}; {listed}{near}")


def streams_table(rows: Sequence[tuple[int, Any]], streams: Streams, where: str) -> pa.Table:
    """Return tuples, each preceded by its stream's number, as one table with the fields of all streams.

    Raises SpoutContractError if a tuple does not have the fields of its stream.
    """
    schema = arrow_schema(split_schema(streams))
    tables = []
    for number, (name, declared) in enumerate(streams):
        own = table_of([values for at, values in rows if at == number], declared, f"{where}, stream {name!r}")
        columns = {inside(number, field): own.column(field) for field in declared.names}
        columns[STREAM_NUMBER] = pa.chunked_array([pa.array([number] * len(own), pa.int8())])
        arrays = [columns.get(field.name, pa.nulls(len(own), field.type)) for field in schema]
        tables.append(pa.table(arrays, schema=schema))
    return pa.concat_tables(tables).combine_chunks()
