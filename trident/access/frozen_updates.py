"""What a batch did to one state, read from the log alone."""

from pathlib import Path

import pyarrow as pa

from trident.compiler.engine import FrozenFiles
from trident.compiler.freeze import read_frozen
from trident.runtime.frozen import life_of, thaw
from trident.runtime.log import LogReading
from trident_state.store import Update


def frozen_update(log: LogReading, folder: Path, group: str, state: str, txid: int) -> Update | None:
    """The update, whichever stage it was written in; None where the topology that made the batch had no such state.

    `folder`: what the files of large results are relative to. Raises LogCorruptError where the content is damaged or
    gone, LookupError where the log does not hold the batch.
    """
    stage = 1
    while (frozen := log.frozen(group, txid, stage)) is not None:
        if state in frozen:
            found = thaw(frozen[state], f"group {group!r}, batch {txid}, {state!r}")
            tables = list(read_frozen(folder, found)) if isinstance(found, FrozenFiles) else [found]
            return _update(log, group, txid, pa.concat_tables([found.schema.empty_table(), *tables]), life_of(found))
        stage += 1
    if stage == 1:
        raise LookupError(f"batch {txid} of group {group!r}")
    return None


def _update(log: LogReading, group: str, txid: int, table: pa.Table, life: float) -> Update:
    last = table.num_columns - 1
    planned = log.plan(group, txid)
    values = table.column(last).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    return Update(txid, table.select(list(range(last))).combine_chunks(), values, planned[1] if planned else None, life)
