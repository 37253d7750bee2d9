"""A state as a file: Parquet, CSV or JSON lines, whole or not there."""

import base64
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyspark.sql import Row

from trident.base.errors import StateError
from trident.base.values import to_python
from trident.reads.state_view import StateView

FORMATS = ("parquet", "csv", "jsonl")


def export_state(view: StateView, path: str | Path, format: str | None = None, replace: bool = False) -> pa.Table:
    """Write all of a state to a file; `format` (one of `FORMATS`) where the file's name does not tell it.

    Returns what was written. Parquet keeps as of which txid it is in the schema's metadata. Raises StateError where the
    file is there already (unless `replace`), or the format is not known or cannot hold the state's types.
    """
    target = Path(path)
    form = format or target.suffix.removeprefix(".").lower()
    form = {"json": "jsonl", "ndjson": "jsonl"}.get(form, form)
    if form not in FORMATS:
        raise StateError(f"{target.name}: {form or 'no suffix'} is no format; accepted are {', '.join(FORMATS)}")
    if target.exists() and not replace:
        raise StateError(f"the file {target} is there already, and was left as it is; --overwrite takes its place")
    if not target.parent.is_dir():
        raise StateError(f"there is no folder {target.parent} to write {target.name} to")
    table = view.toArrow()
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        _WRITERS[form](table, aside)
        os.replace(aside, target)
    except (pa.ArrowException, OSError) as error:
        raise StateError(f"state {view.name!r} cannot be written to {target}: {error}") from error
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()
    return table


def json_lines(table: pa.Table) -> list[str]:
    """A line of JSON a row, with the columns' names; what JSON does not know (dates,
    decimals, binary in base64) is text.

    >>> json_lines(pa.table({"word": ["dog"], "value": [2]}))
    ['{"word": "dog", "value": 2}']
    """
    columns = [to_python(column) for column in table.columns]
    return [to_json(dict(zip(table.column_names, row, strict=True))) for row in zip(*columns, strict=True)]


def to_json(value: Any) -> str:
    """Any value of a state as one line of JSON."""
    return json.dumps(_opened(value), default=_plain, ensure_ascii=False)


def _opened(value: Any) -> Any:
    """Structs as objects: a Row is a tuple to JSON. Keys of maps are text there."""
    if isinstance(value, Row):
        value = value.asDict()
    if isinstance(value, dict):
        return {key if isinstance(key, str) else to_json(key): _opened(item) for key, item in value.items()}
    return [_opened(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _write_lines(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for page in table.to_batches(max_chunksize=10_000):
            file.writelines(line + "\n" for line in json_lines(pa.Table.from_batches([page])))


def _with_text(table: pa.Table) -> pa.Table:
    """CSV is text: binary in base64, as in JSON."""
    for at, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            column = [None if value is None else _plain(value) for value in table.column(at).to_pylist()]
            table = table.set_column(at, field.name, pa.array(column, pa.string()))
    return table


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": lambda table, path: pyarrow.parquet.write_table(table, path),
    "csv": lambda table, path: pyarrow.csv.write_csv(_with_text(table), path),
    "jsonl": _write_lines,
}
