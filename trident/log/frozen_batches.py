"""A group's frozen batches, read from the log and from the files of large results."""

import math
from dataclasses import dataclass

import pyarrow as pa

from trident.base.discard_advice import RESET
from trident.base.errors import CodeChangedError, LogCorruptError
from trident.files.store import FileStore
from trident.frozen.files import read_whole
from trident.frozen.results import Result
from trident.log.frozen_results import thaw, time_of, ttl_of
from trident.log.protocol import LogReading
from trident_state.binary_arrays import TooLong, one_chunk
from trident_state.store_messages import Update


@dataclass(frozen=True, slots=True)
class FrozenBatches:
    """The frozen batches of one group. `files` is the store that contains the folders of large results.

    Raises LogCorruptError if content is damaged or missing.
    """

    log: LogReading
    group: str
    files: FileStore

    def stage(self, txid: int, number: int) -> dict[str, Result] | None:
        """Return a stage's frozen results by output; None if the stage is not frozen yet."""
        frozen = self.log.frozen(self.group, txid, number)
        if frozen is None:
            return None
        where = f"group {self.group!r}, batch {txid}"
        return {name: thaw(output, f"{where}, {name!r}") for name, output in frozen.items()}

    def of_state(self, txid: int, state: str) -> Result | None:
        """Return a batch's result for a state; None if the program that froze the batch did not have this state.

        The result may be in any stage, because that program decided in which stage the state is written. The initial
        content of a state takes the place of the batch of its birth. Raises LookupError if the log does not hold the
        batch.
        """
        if (content := self.log.content(state, txid)) is not None:
            return thaw(content, f"group {self.group!r}, the content of state {state!r} as of batch {txid}")
        number = 1
        while (frozen := self.log.frozen(self.group, txid, number)) is not None:
            if state in frozen:
                return thaw(frozen[state], f"group {self.group!r}, batch {txid}, {state!r}")
            number += 1
        if number == 1:
            raise LookupError(f"the log has no batch {txid} of group {self.group!r}")
        return None

    def update(self, txid: int, result: Result) -> Update:
        """Return a result as the update of a store, with the time of the batch if values of the state expire."""
        return self._update(txid, result, self.whole(result))

    def without_keys(self, txid: int, result: Result) -> Update:
        """Return the same update as `update`, but without keys."""
        return self._update(txid, result, result.schema.empty_table())

    def _update(self, txid: int, result: Result, table: pa.Table) -> Update:
        ttl, (keys, values), time = ttl_of(result), keys_and_values(table), time_of(result)
        if time is None and not math.isinf(ttl):
            time = self.time(txid)
        return Update(txid, keys, values, time, ttl)

    def time(self, txid: int) -> float:
        """Return when a batch was planned.

        The log stores this time with the plan, so every replay has the same time.
        """
        batch = self.log.batch(self.group, txid)
        if batch is None:
            raise LogCorruptError(f"group {self.group!r} lacks the plan of batch {txid}; restore the log from a copy")
        return batch.time

    def whole(self, result: Result) -> pa.Table:
        """Return all rows of a result, read from its files if it has some."""
        return read_whole(self.files, result)


def lacking(txid: int, group: str) -> LogCorruptError:
    """Return the error for a batch whose frozen content is missing in the log."""
    return LogCorruptError(f"group {group!r} lacks the frozen results of batch {txid}; restore the log from a copy")


def missed(state: str, txid: int, group: str) -> CodeChangedError:
    """Return the error for a state that lacks a batch because a program without the state froze it."""
    return CodeChangedError(
        f"state {state!r} is at a txid before batch {txid} of group {group!r}, and a program without this state "
        f"committed that batch: the log does not have the batch's input for the state. Give the state another name=, "
        f"drop it with dropState(name, {state!r}, ...) so that it starts empty with the next batch, or discard log and "
        f"states with {RESET}"
    )


def keys_and_values(table: pa.Table) -> tuple[pa.Table, pa.Array | pa.ChunkedArray]:
    """Return the key fields and the values of a state's result (in chunks if they are too long for one array)."""
    last = table.num_columns - 1
    keys, values = table.select(list(range(last))), table.column(last)
    try:
        return keys, one_chunk(values)
    except TooLong:
        return keys, values
