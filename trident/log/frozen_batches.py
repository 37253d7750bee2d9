"""A group's frozen batches, as the log and the files of large results hold them."""

import math
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from trident.base.errors import CodeChangedError, LogCorruptError
from trident.compiler.engine import Result
from trident.compiler.spark.frozen_files import read_whole
from trident.log.frozen_results import life_of, thaw
from trident.log.protocol import LogReading
from trident_state.binary import TooLong, one_chunk
from trident_state.messages import Update


@dataclass(frozen=True, slots=True)
class FrozenBatches:
    """Reads them. `folder`: what the files of large results are relative to. Raises LogCorruptError where content is
    damaged or gone."""

    log: LogReading
    group: str
    folder: Path

    def stage(self, txid: int, number: int) -> dict[str, Result] | None:
        """What a stage of a batch froze, by output; None where it did not yet."""
        frozen = self.log.frozen(self.group, txid, number)
        if frozen is None:
            return None
        where = f"group {self.group!r}, batch {txid}"
        return {name: thaw(output, f"{where}, {name!r}") for name, output in frozen.items()}

    def of_state(self, txid: int, state: str) -> Result | None:
        """What a batch did to a state, in whichever stage it was written then; None where the topology that made the
        batch had no such state. Raises LookupError where the log does not hold the batch."""
        number = 1
        while (frozen := self.log.frozen(self.group, txid, number)) is not None:
            if state in frozen:
                return thaw(frozen[state], f"group {self.group!r}, batch {txid}, {state!r}")
            number += 1
        if number == 1:
            raise LookupError(f"batch {txid} of group {self.group!r}")
        return None

    def update(self, txid: int, result: Result) -> Update:
        """What a store is given of it: with the batch's own time where its values pass away."""
        life, (keys, values) = life_of(result), keys_and_values(self.whole(result))
        return Update(txid, keys, values, None if math.isinf(life) else self.time(txid), life)

    def time(self, txid: int) -> float:
        """When a batch was planned: logged with its plan, hence the same at every replay."""
        batch = self.log.batch(self.group, txid)
        if batch is None:
            raise LogCorruptError(f"group {self.group!r} lacks the plan of batch {txid}")
        return batch.time

    def whole(self, result: Result) -> pa.Table:
        """All rows of a result, from its files where it has some."""
        return read_whole(self.folder, result)


def missed(state: str, txid: int, group: str) -> CodeChangedError:
    """Return the error of a state that stands before a batch which a program without it made."""
    return CodeChangedError(
        f"state {state!r} stands before batch {txid} of group {group!r}, which was made by a topology without it: what "
        f"it missed cannot be known. Give it another name=, let it begin anew from the next batch with "
        f"dropState(name, {state!r}, ...), or give up log and states with topology.reset(name, checkpointLocation)"
    )


def keys_and_values(table: pa.Table) -> tuple[pa.Table, pa.Array | pa.ChunkedArray]:
    """The key fields of a state's result, and its last field: in chunks where it is too long for one."""
    last = table.num_columns - 1
    keys, values = table.select(list(range(last))), table.column(last)
    try:
        return keys, one_chunk(values)
    except TooLong:
        return keys, values
