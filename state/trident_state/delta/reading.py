"""Reads of a state as of a txid, from the files of one version of its table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import SourceUnreadableError, StateUnavailableError
from trident.base.short_texts import one_line
from trident_state.binary_arrays import in_halves
from trident_state.delta.columns import BUCKETS, Numbers, Rows, buckets_of
from trident_state.delta.data_files import DataFile, DataFiles
from trident_state.delta.folding import Folded, combine_of, fold, found_among, with_all_keys
from trident_state.delta.past_files import PastFiles, damaged, missing
from trident_state.delta.record import TableVersion
from trident_state.expiry import without_expired
from trident_state.keys import decode_keys
from trident_state.state_shape import Combine

_AT_ONCE = 500_000
"""The approximate most rows that a scan holds in memory at once."""


class TableReads:
    """Reads values of a state from versions of its table."""

    def __init__(self, files: DataFiles, keys: pa.Schema, kind: pa.DataType, where: str) -> None:
        self._files, self.keys, self._kind, self._where = files, keys, kind, where
        self.past = PastFiles(files, where)

    def values(self, version: TableVersion, encoded: pa.Array, asOf: int, cutoff: int) -> pa.Array:
        """Return the value of each encoded key as of `asOf`; null if its last change is at or before `cutoff`."""
        distinct = pc.unique(encoded)
        folded = self.folded(version, distinct, asOf)
        values = without_expired(folded.values, folded.txids, cutoff)
        return values if len(distinct) == len(encoded) else values.take(pc.index_in(encoded, value_set=distinct))

    def folded(self, version: TableVersion, distinct: pa.Array, asOf: int) -> Folded:
        """Return the values of some distinct keys, and the txid of each key's last change, as of `asOf`."""
        files = self.past.as_of(version.files, asOf)
        if not len(distinct):
            return Folded(pa.nulls(0, self._kind), np.zeros(0, np.int64))
        buckets = np.unique(buckets_of(distinct))
        parts = (part for file in _touched(files, buckets) for part in self._read(file, buckets))
        found = found_among(distinct, parts)
        return fold(found, len(distinct), self._kind, combine_of(version.rows), self._where)

    def pages(self, version: TableVersion, asOf: int, cutoff: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Yield the encoded keys and the values of all entries as of `asOf`, some buckets at a time."""
        combine = combine_of(version.rows)
        files = self.past.as_of(version.files, asOf)
        for keys, folded in self.spans(files, combine):
            values = without_expired(folded.values, folded.txids, cutoff)
            if values.null_count:
                present = values.is_valid()
                keys, values = keys.filter(present), values.filter(present)
            if len(keys):
                yield keys, values

    def tables(self, version: TableVersion, asOf: int, cutoff: int, pageRows: int) -> Iterator[pa.Table]:
        """Yield all entries as of `asOf` as `trident_state.store.Store.scan` does."""
        for keys, values in self.pages(version, asOf, cutoff):
            for at in range(0, len(keys), pageRows):
                named = decode_keys(keys.slice(at, pageRows), self.keys)
                yield named.append_column("value", values.slice(at, pageRows))

    def entries(self, files: Sequence[DataFile], buckets: range, combine: Combine | None) -> tuple[pa.Array, Folded]:
        """Return the encoded keys in some buckets, and their values from the rows of some files."""
        wanted = np.arange(buckets.start, buckets.stop, dtype=np.int64)
        touched = (part for file in _touched(files, wanted) for part in self._read(file, wanted))
        parts = [part for part in touched if len(part.txids)]
        if not parts:
            return pa.array([], pa.binary()), Folded(pa.nulls(0, self._kind), np.zeros(0, np.int64))
        keys, found = with_all_keys(parts)
        return keys, fold(found, len(keys), self._kind, combine, self._where)

    def spans(
        self, files: Sequence[DataFile], combine: Combine | None, at_once: int = _AT_ONCE
    ) -> Iterator[tuple[pa.Array, Folded]]:
        """Yield the encoded keys and the folded values of some files, bucket range by bucket range, in order."""
        for span in spans_of(sum(file.rows for file in files), at_once):
            yield from in_halves(
                lambda rows: self.entries(files, range(rows.start, rows.stop), combine), span.start, span.stop
            )

    def cutoff(self, version: TableVersion, asOf: int) -> int:
        """Return the txid up to which values have expired as of `asOf`."""
        if asOf >= version.marker - 1:
            return version.expiry.as_of(asOf, version.marker)
        return self.past.cutoff(self.past.as_of(version.files, asOf)) if version.expiry.cutoff else 0

    def keys_of(self, file: DataFile) -> pa.Array:
        """Return the encoded keys of all rows of a file."""
        with self._reading(file):
            return self._files.keys(file)

    def selected(self, file: DataFile, buckets: range, names: Sequence[str]) -> pa.Table:
        """Return some columns of the rows of a file with one of the buckets, unconverted."""
        with self._reading(file):
            return self._files.selected(file, buckets, names)

    def _read(self, file: DataFile, buckets: Numbers) -> list[Rows]:
        with self._reading(file):
            return self._files.read(file, buckets)

    @contextmanager
    def _reading(self, file: DataFile) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise missing(self._where, file) from error
        except (OSError, SourceUnreadableError) as error:
            raise StateUnavailableError(f"{self._where}: cannot read {file.path}: {one_line(error)}") from error
        except pa.ArrowInvalid as error:
            raise damaged(self._where, file, error) from error


def spans_of(rows: int, at_once: int = _AT_ONCE) -> Iterator[range]:
    """Yield ranges that together cover all buckets, each with about `at_once` of the rows.

    >>> list(spans_of(10)), len(list(spans_of(2_000_000)))
    ([range(0, 65536)], 4)
    """
    count = min(BUCKETS, max(1, -(-rows // at_once)))
    step = -(-BUCKETS // count)
    return (range(at, min(at + step, BUCKETS)) for at in range(0, BUCKETS, step))


def _touched(files: Sequence[DataFile], buckets: npt.NDArray[np.int64]) -> list[DataFile]:
    """Return the files that may have a row in one of these sorted buckets."""
    touched = []
    for file in files:
        at = int(np.searchsorted(buckets, file.first))
        if file.rows and at < len(buckets) and buckets[at] <= file.last:
            touched.append(file)
    return touched
