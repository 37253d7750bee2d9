"""Export of a state to a file of Parquet, CSV or JSON lines, which appears complete or not at all."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from trident.base.errors import StateError
from trident.base.json_values import jsonable, to_json
from trident.base.value_conversion import to_python
from trident.reads.state_view import StateView

FORMATS = ("parquet", "csv", "jsonl")


def export_state(view: StateView, path: str | Path, format: str | None = None, replace: bool = False) -> pa.Table:
    """Write all entries of a state to a file in `format`, one of `FORMATS`; by default the file's suffix decides.

    Return the written table. A Parquet file has the txid that was read in the schema's metadata. Raises StateError if
    the file exists (unless `replace`), if its folder does not exist, or if the format is unknown or cannot hold the
    state's types.
    """
    target = Path(path)
    chosen = format or target.suffix.removeprefix(".").lower()
    chosen = {"json": "jsonl", "ndjson": "jsonl"}.get(chosen, chosen)
    if chosen not in FORMATS:
        raise StateError(f"{target.name}: unknown format {chosen or '(no suffix)'}; expected {', '.join(FORMATS)}")
    if target.exists() and not replace:
        raise StateError(f"the file {target} exists; use --overwrite to replace it")
    if not target.parent.is_dir():
        raise StateError(f"there is no folder {target.parent} to write {target.name} to")
    table = view.toArrow()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        _WRITERS[chosen](table, temporary)
        os.replace(temporary, target)
    except (pa.ArrowException, OSError) as error:
        raise StateError(f"state {view.name!r} cannot be written to {target}: {error}") from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    return table


def json_lines(table: pa.Table) -> list[str]:
    """Return one line of JSON for each row, an object with the columns' names.

    Values without a JSON type become text: dates, decimals, and binary values in base64.

    >>> json_lines(pa.table({"word": ["dog"], "value": [2]}))
    ['{"word": "dog", "value": 2}']
    """
    return list(map(to_json, rows_of(table)))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts, with values as functions of a topology see them."""
    columns = [to_python(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _write_lines(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for page in table.to_batches(max_chunksize=10_000):
            file.writelines(line + "\n" for line in json_lines(pa.Table.from_batches([page])))


def _with_text(table: pa.Table) -> pa.Table:
    """Return the table with binary columns as base64 text, as in JSON, because CSV can only hold text."""
    for index, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            column = [jsonable(value) for value in table.column(index).to_pylist()]
            table = table.set_column(index, field.name, pa.array(column, pa.string()))
    return table


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": lambda table, path: pyarrow.parquet.write_table(table, path),
    "csv": lambda table, path: pyarrow.csv.write_csv(_with_text(table), path),
    "jsonl": _write_lines,
}
