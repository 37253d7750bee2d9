"""The check of strings that name folders of a Parquet output, before their batch is frozen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from trident.base.folder_names import ESCAPED_SIGNS, LONGEST_NAME, escaped
from trident.operations.column_functions import RAISED, ColumnFunction


@dataclass(frozen=True)
class FolderNames(ColumnFunction):
    """A function that returns fields unchanged. Raises ValueError for a string that is too long for a folder name."""

    fields: tuple[str, ...]

    def __call__(self, *values: Any) -> Any:
        for name, value in zip(self.fields, values, strict=True):
            if value is not None and len(escaped(value).encode()) > _room(name):
                raise ValueError(
                    f"field {name!r} has a text of {len(value)} characters, which is too long for a folder name "
                    "(partitionBy): partition by another field, or filter such tuples out before it"
                )
        return values if len(values) > 1 else values[0]

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        pairs = zip(self.fields, inputs, strict=True)
        return None if any(_too_long(name, texts) for name, texts in pairs) else list(inputs)

    def sql(self, inputs: Sequence[str], kinds: Sequence[DataType]) -> list[str]:
        return [
            f"CASE WHEN octet_length({text}) + 2 * length(regexp_replace({text}, r'{_OTHERS}', '')) > {_room(name)} "
            f"THEN {RAISED} ELSE {text} END"
            for name, text in zip(self.fields, inputs, strict=True)
        ]


_OTHERS = f"[^{ESCAPED_SIGNS[1:]}"


def _room(name: str) -> int:
    """Return the most bytes that a field's value may take in its folder's name."""
    return LONGEST_NAME - len(escaped(name).encode()) - len("=")


def _too_long(name: str, texts: pa.Array) -> bool:
    lengths, room = pc.binary_length(texts), _room(name)
    if 3 * (pc.max(lengths).as_py() or 0) <= room:  # an escaped character takes three bytes
        return False
    signs = pc.count_substring_regex(texts, ESCAPED_SIGNS)
    return (pc.max(pc.add(lengths, pc.multiply(signs, 2))).as_py() or 0) > room
