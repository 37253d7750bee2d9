"""Adding and dropping tags of a state, beside the batches and in any process; each change is a version of the table.

The version sets the number of the tags file, and so does each removal of old files. So a tag conflicts with a
concurrent removal of its files, and either the tag or the removal is refused.
"""

import threading
from collections.abc import Callable

import msgspec

from trident.base.crash_points import reach
from trident.base.errors import SnapshotMovedError, TagExistsError
from trident_state.delta.data_files import DataFile
from trident_state.delta.past_files import PastFiles
from trident_state.delta.record import TAGS, TableVersion
from trident_state.delta.table import MovedError, StateTable
from trident_state.delta.tags import TaggedFiles, write_tags
from trident_state.tags import StateTag

_TRIES = 20
"""The most attempts to change the tags, because others may change them or remove old files at the same time."""

Change = Callable[[TableVersion], tuple[TaggedFiles, ...] | None]
"""A function that returns the tags for the next version; None if the version has them already."""


class Tagger:
    """Changes the tags of one state. Any thread may call it.

    `table` is a separate handle; `present` returns a version that has the state, or raises an error.
    """

    def __init__(
        self, table: StateTable, past: PastFiles, present: Callable[[TableVersion | None], TableVersion], where: str
    ) -> None:
        self._table, self._past, self._present, self._where = table, past, present, where
        self._lock = threading.Lock()

    def tag(self, tag: StateTag) -> None:
        """Keep a txid under a name; see `trident_state.store.Tagging`."""

        def added(version: TableVersion) -> tuple[TaggedFiles, ...] | None:
            held = version.tags.named(tag.name)
            if held is None:
                files = tuple((file.path, file.size) for file in self._files_at(version, tag.txid))
                return (*version.tags.tags, TaggedFiles(**msgspec.structs.asdict(tag), files=files))
            if (held.txid, held.txids) != (tag.txid, tag.txids):
                raise TagExistsError(
                    f"{self._where}: the tag {tag.name!r} exists already, as of txid {held.txid}. A tag cannot be "
                    "moved: choose another name, or drop it first (dropTag)"
                )
            return None

        self._change(added)

    def untag(self, name: str) -> None:
        """Drop the tag of this name; see `trident_state.store.Tagging`."""

        def left(version: TableVersion) -> tuple[TaggedFiles, ...] | None:
            if version.tags.named(name) is None:
                return None
            return tuple(tag for tag in version.tags.tags if tag.name != name)

        self._change(left)

    def _files_at(self, version: TableVersion, txid: int) -> tuple[DataFile, ...]:
        known = version.tags.at(txid)
        if known is not None:
            return known.data_files(self._where)
        # An older table does not record its first kept txid, and its driver does not know tags.
        if version.kept is None or not version.kept <= txid <= version.marker:
            raise SnapshotMovedError(f"{self._where} cannot be tagged as of txid {txid}, which is no longer kept")
        return tuple(self._past.as_of(version.files, txid))

    def _change(self, change: Change) -> None:
        self._table.check_safe()
        with self._lock:
            for left in reversed(range(_TRIES)):
                version = self._present(self._table.look())
                tags = change(version)
                if tags is None:
                    return
                written = write_tags(self._table.folder, tags)
                reach("delta.tags.written")
                try:
                    self._table.commit(version, {TAGS: written.number}, {"tags": written})
                except MovedError:
                    if not left:
                        raise
                    continue
                reach("delta.tags.committed")
                return
