"""The record of an output in a Delta table: numbers in the table's log, which each version of the output sets anew.

Delta keeps one number for each application (the action ``txn``), and refuses a version whose application has set its
number since the version was begun. So the number of the output, its txid, is also its lock: of two drivers that write
at once, one gets an error. The other parts of the record are numbers of further applications, a text in pieces. They
stay in checkpoints, unlike the operations of versions, which are cleaned up with the log.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from trident.base.attempt import Lease
from trident.base.errors import OutputConflictError
from trident.files.delta_numbers import NUMBER_BYTES, PIECES, pieces_of, text_of
from trident.outputs.writer_record import WriterRecord

_FORMAT = 1
_PREFIX = "trident/"
"""The beginning of an output's application. The name of the output follows: "topology/output"."""


class DeltaRecord:
    """Reads and writes the record of one output."""

    def __init__(self, output: str, step: str, module: Any) -> None:
        self.application = f"{_PREFIX}{output}"
        self._step, self._module = step, module
        self._held: tuple[int, WriterRecord] | None = None
        """The record that was read last, with its mark."""

    @property
    def place(self) -> str:
        return f"the transaction {self.application!r}"

    def read(self, table: Any) -> WriterRecord | None:
        """Return the record as of the version of a table that is loaded; None if there is none."""
        mark = self._number(table, "mark")
        if mark is None:
            return None
        if self._held is None or self._held[0] != mark:
            form = self._number(table, "format")
            if form != _FORMAT:
                raise OutputConflictError(
                    f"{self._step}: the record of the output, {self.place}, has the format {form}, and this version of "
                    f"the library reads only the format {_FORMAT}: give the output another name="
                )
            txid, epoch, digest = (self._number(table, part) or 0 for part in ("", "epoch", "digest"))
            lease = Lease(epoch, self._text(table, "token"))
            self._held = mark, WriterRecord(txid, _digits(digest), self._text(table, "log"), lease)
        return self._held[1]

    def outputs(self, table: Any, applications: Iterable[str]) -> dict[str, int]:
        """Return the last batch of each output among these applications, of any topology, by "topology/output"."""
        names = {name for name in applications if name.startswith(_PREFIX) and ":" not in name}
        return {name.removeprefix(_PREFIX): int(table.transaction_version(name) or 0) for name in names}

    def properties(self, record: WriterRecord) -> Any:
        """Return the properties of the version that writes a record."""
        numbers = [self._module.Transaction(self._name(part), number) for part, number in _numbers(record)]
        return self._module.CommitProperties(app_transactions=numbers)

    def _name(self, part: str) -> str:
        return f"{self.application}:{part}" if part else self.application

    def _number(self, table: Any, part: str) -> int | None:
        number = table.transaction_version(self._name(part))
        return None if number is None else int(number)

    def _text(self, table: Any, part: str) -> str:
        return text_of([self._number(table, f"{part}{at}") or 0 for at in range(PIECES)])


def digest_of(parts: Iterator[bytes]) -> str:
    """Return the digest of a batch, short enough for one number."""
    summed = blake2b(digest_size=NUMBER_BYTES)
    for part in parts:
        summed.update(part)
    return summed.hexdigest()


def _numbers(record: WriterRecord) -> Iterator[tuple[str, int]]:
    """Yield the parts of a record with their numbers."""
    lease = record.lease
    yield "", record.txid
    yield "format", _FORMAT
    yield "epoch", lease.epoch
    yield "digest", int(record.digest or "0", 16)
    for part, text in (("log", record.log), ("token", lease.token)):
        for at, number in enumerate(pieces_of(part, text)):
            yield f"{part}{at}", number
    said = repr(tuple(record)).encode()
    yield "mark", int.from_bytes(blake2b(said, digest_size=NUMBER_BYTES).digest(), "big")


def _digits(digest: int) -> str:
    return f"{digest:0{2 * NUMBER_BYTES}x}" if digest else ""
