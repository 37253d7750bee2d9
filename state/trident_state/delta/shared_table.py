"""A state's table for processes other than its driver, which write rows of a batch or read as of a txid.

Such a process writes files that no version names yet. The driver's commit names only the files of puts whose replies
it received. So a repeated, duplicate or late put, or one for a previous driver, changes nothing; its file is deleted
later.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.cached_property import cached_property
from trident.base.errors import SnapshotMovedError, SourceUnreadableError, StateError, StateUnavailableError
from trident.files.delta_folder import TableFolder
from trident_state.binary_arrays import in_halves
from trident_state.delta.batch_rows import BatchRows
from trident_state.delta.data_files import DataFile, file_of
from trident_state.delta.past_files import MissingFileError
from trident_state.delta.record import TableVersion
from trident_state.delta.table import StateTable
from trident_state.expiry import Expiry
from trident_state.keys import decode_keys, encode_checked_keys
from trident_state.state_shape import StateShape
from trident_state.store_messages import Put, Update
from trident_state.write_checks import check_newest, check_update_types

_CACHE = 64 * 2**20


@dataclass(frozen=True)
class SharedTable:
    """The data that a process needs to reach a state's table as of a version that the driver has seen."""

    where: str
    folder: TableFolder
    shape: StateShape
    version: TableVersion

    @cached_property
    def _rows(self) -> BatchRows:
        return BatchRows(self.folder, self.shape, _CACHE, self.where)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_rows"}

    def check_reached(self) -> None:
        """Raise StateError or StateUnavailableError if this process cannot reach the table that the driver uses."""
        found = StateTable(self.folder, self.where).look()
        if found is not None and (found.identity, found.birth) == (self.version.identity, self.version.birth):
            check_newest(self.where, found.lease, self.version.lease)
            return
        raise StateError(
            f"{self.where}: a Spark worker does not find the driver's table at {self.folder.uri}. Give a url that "
            f"leads to the same place from every machine: a shared disk or an object store"
        )


@dataclass(frozen=True)
class OpenBatch(SharedTable):
    """A batch for which any process can write rows; see `trident_state.store.SharedBatch`."""

    lease: Lease
    txid: int
    expiry: Expiry

    def put(self, parts: Iterable[tuple[pa.Table, pa.Array | pa.ChunkedArray]]) -> Put:
        """Write the keys and deltas of some parts into files, which the commit then names."""
        count, files = 0, list[str]()
        for keys, deltas in parts:
            update = Update(self.txid, keys, deltas)
            check_update_types(self.where, self.shape, update)
            count += len(deltas)
            if self.version.marker < self.txid:
                rows = partial(self._rows.part, self.version, update, self.expiry, False)
                written = (part for part in in_halves(rows, 0, len(deltas)) if len(part.table))
                files += [_text_of(self._rows.write(part, self.txid, self.expiry)) for part in written]
        return Put([count], count if self.version.marker < self.txid else 0, pa.array([], pa.binary()), tuple(files))


@dataclass(frozen=True)
class OpenSnapshot(SharedTable):
    """A state as of a txid, readable by any process; see `trident_state.store.SharedSnapshot`."""

    asOf: int
    cutoff: int

    def read(self, keys: pa.Table) -> pa.Array:
        """Return the values of keys as of the snapshot's txid."""
        encoded = encode_checked_keys(self.where, self.shape.keys, keys)
        try:
            return self._rows.reads.values(self.version, encoded, self.asOf, self.cutoff)
        except MissingFileError as error:
            raise self._moved(error) from error

    def scan(self) -> Iterator[pa.Table]:
        """Yield all entries as of the snapshot's txid."""
        try:
            for keys, values in self._rows.reads.pages(self.version, self.asOf, self.cutoff):
                yield decode_keys(keys, self.shape.keys).append_column("value", values)
        except MissingFileError as error:
            raise self._moved(error) from error

    @property
    def groups(self) -> int:
        """The number of the state's groups: one."""
        return 1

    def due_in(self, group: int, until: int) -> Iterator[pa.Table]:
        """Raise SnapshotMovedError: the table has no index of due times."""
        raise SnapshotMovedError(f"{self.where} has no index of due times")

    def count_due(self, until: int) -> int | None:
        """Return None: the table has no index of due times."""
        return None

    def _moved(self, error: MissingFileError) -> SnapshotMovedError:
        return SnapshotMovedError(f"{self.where}: files were replaced during the read ({error})")


def files_of(puts: Iterable[Put], folder: TableFolder, where: str) -> list[DataFile]:
    """Return the files that puts wrote.

    Raises StateUnavailableError if the driver cannot find one, or the storage does not answer.
    """
    texts = [text.rpartition(" ") for put in puts for text in put.files]
    try:
        gone = next((path for path, _, _ in texts if folder.stamp(path) is None), None)
    except SourceUnreadableError as error:
        raise StateUnavailableError(f"{where}: {error}") from error
    if gone is not None:
        raise StateUnavailableError(
            f"{where}: the driver cannot find the file {gone} of a put in {folder.shown}: either it was deleted, or a "
            "new executor's machine has a different folder at this path; the batch is put again. Mount the same "
            "folder on all machines, or use an object store"
        )
    return [file_of(path, int(size), where) for path, _, size in texts]


def _text_of(file: DataFile) -> str:
    return f"{file.path} {file.size}"
