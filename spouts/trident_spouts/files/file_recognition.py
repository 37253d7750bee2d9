"""Recognition of files that were read, if they were renamed, moved, changed or forgotten."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from trident.base.errors import SpoutContractError
from trident_spouts.files.file_ranges import LONG, checksum, digest, identity, iso_time, tag_checksum, unreadable_error
from trident_spouts.files.forgotten_files import Look
from trident_spouts.files.read_files import REMEMBERED, Entry, ReadFiles
from trident_spouts.files.storage import FileStorage, ListedFile, OpenFile, StaleListingError

OnForgotten = Literal["fail", "skip"]

PROVED_AT_ONCE = 64 << 20
"""The size (bytes) up to which the whole read part of a growing file is compared whenever the file has grown.

A longer file is compared as a whole at the first check of a run, and again when it has grown by a quarter; its
beginning and end are compared at each check.
"""

_NEWLY_GONE = 16
"""The number of files that are compared with new, longer files once they are gone: those that changed last."""

_log = logging.getLogger("trident.spouts")


@dataclass(frozen=True, slots=True)
class Recognizer:
    """Recognizes the files of one source."""

    place: FileStorage
    grows: Callable[[str], bool]
    """A function that returns whether a file of a name may grow, by whole lines, after it was read."""
    by_name: bool = False
    on_forgotten: OnForgotten = "fail"
    _proved: dict[tuple[int, str], int] = field(default_factory=dict, compare=False)
    """The byte up to which the content of a growing file was compared in this run, by its inode and name."""
    _gone: set[str] = field(default_factory=set, compare=False)
    """The names of read files that earlier checks of this run did not find."""
    _digests: dict[tuple[str, int, int], int] = field(default_factory=dict, compare=False)
    """The digests computed in this check, by name, time of change and end."""

    def recognize(self, seen: ReadFiles, listing: list[ListedFile], whole: bool) -> ReadFiles:
        """Return the record of the files that were read, `seen`, with the names that these files have in the listing.

        A renamed file is recognized by its inode and its content, and a file that may have changed since it was read by
        all of its content. New files whose sort order says that they were read are recorded as `late`. `whole` says
        whether the listing has all files. Raises SpoutContractError if the name of a file that was read now belongs to
        another or rewritten file, or if a file may be a forgotten file.
        """
        self._digests.clear()
        seen = self._in_order(seen)
        root = self.place.address
        moved = seen.root not in (None, root)
        if moved and not listing:
            return seen
        if moved:
            seen = self._rebased(seen, root, listing)
        entries = self._renamed(seen.entries, listing)
        for file in listing:
            entry = entries.get(file.name)
            if entry is None:
                continue
            if moved or entry.check is None or not entry.fits(file):
                entries[file.name] = self._verified(file, entry)
            elif not entry.changed and not file.tag:
                entries[file.name] = replace(entry, changed=file.changed)
        return self._look(replace(seen, entries=entries, root=root), listing, whole)

    def _in_order(self, seen: ReadFiles) -> ReadFiles:
        """Return the record of the files that were read, sorted in the order in which files are read now.

        Raises SpoutContractError if files that were read are known only by their position in the other order.
        """
        if seen.by_name == self.by_name or seen.cutoff is None:
            return replace(seen, by_name=self.by_name)
        was, now = ("name", "time") if seen.by_name else ("time", "name")
        most = REMEMBERED if seen.remembered is None else seen.remembered
        raise SpoutContractError(
            f"FileSpout: this stream has read more than {most:,} files in the order of orderBy={was!r}. Of the "
            f"older files it remembers only the last one in that order, so with orderBy={now!r} it cannot know "
            f"which files are unread. Restore orderBy={was!r}, or give the stream another name, with "
            f"newStream(..., anew=True)"
        )

    # --- files that were forgotten --------------------------------------------------------------------------------

    def _look(self, seen: ReadFiles, listing: list[ListedFile], whole: bool) -> ReadFiles:
        """Return the record after a check of the files without an entry.

        Raises SpoutContractError if a file may be a forgotten file, unless such files count as read.
        """
        if seen.cutoff is None or not whole:
            return seen
        past, unread = list[ListedFile](), list[ListedFile]()
        for file in listing:
            if file.name not in seen.entries:
                (past if seen.sorts_past(file) else unread).append(file)
        evidence = seen.forgotten
        look = evidence.look(past, unread, self._birth)
        seen, late, doubtful = self._compared(seen, listing, look)
        if doubtful:
            seen = self._doubted(seen, doubtful)
        if look.guesses:
            _log.warning(
                "FileSpout: of the files at %s that were read long ago, %s. The stream does not remember so many "
                "files: raise Watch(rememberedFiles=...), or list the files in a Manifest",
                self.place,
                look.guesses,
            )
        past = [file for file in past if file.name not in seen.entries]
        return replace(seen, forgotten=evidence.looked(past, listing, late), late=late)

    def _compared(
        self, seen: ReadFiles, listing: list[ListedFile], look: Look
    ) -> tuple[ReadFiles, frozenset[str], list[ListedFile]]:
        """Compare the suspects of a check with the content that was read.

        Return the record, in which unchanged suspects have an entry again, and the late and the doubtful files. Raises
        SpoutContractError if a file that was read has changed.
        """
        entries, doubtful = dict(seen.entries), list(look.doubtful)
        for file in listing if look.suspects else ():
            if (known := look.suspects.get(file.name)) is None:
                continue
            check, all_ = (known.proof, None) if file.tag else (None, known.proof)
            entry = Entry(known.end, 0, False, file.inode, check, 0, all_)
            if seen.forgotten.knows(file.name) or self._birth(file) or self._same_content(file, entry):
                entries[file.name] = self._verified(file, entry)
            elif seen.sorts_past(file):
                doubtful.append(file)  # the inode may be that of a forgotten file, or may have been reused
        return replace(seen, entries=entries), look.late, doubtful

    def _doubted(self, seen: ReadFiles, doubtful: list[ListedFile]) -> ReadFiles:
        """Return the record in which doubtful files count as read.

        Raises SpoutContractError unless `onForgotten` is "skip".
        """
        shown = ", ".join(self.place.path(file.name) for file in doubtful[:3]) + (", ..." if len(doubtful) > 3 else "")
        most = REMEMBERED if seen.remembered is None else seen.remembered
        if self.on_forgotten == "fail":
            raise SpoutContractError(
                f"FileSpout: {len(doubtful)} file(s) may have been read, or may have changed since they were read: "
                f"{shown}. The stream remembers {most:,} files and files that still grow "
                f"(Watch(rememberedFiles=...)). Files read before these must not change: the stream cannot know "
                f"which part of them is unread. Restore them as they were, or move them away. A new file is read if "
                f"it is moved in while the topology runs. With Watch(onForgotten='skip') these files count as read: "
                f"new content in them is lost. To read everything again, give the stream another name, with "
                f"newStream(..., anew=True)"
            )
        _log.warning("FileSpout: Watch(onForgotten='skip'): %s count(s) as read; new content there is skipped", shown)
        unread = {file.name: self._as_read(file) for file in doubtful if not seen.sorts_past(file)}
        return replace(seen, entries={**seen.entries, **unread}, skipped=seen.skipped + len(doubtful))

    def _as_read(self, file: ListedFile) -> Entry:
        """Return the entry of a file that counts as read to its end."""
        with self._open(file) as opened:
            all_ = None if file.tag else digest(opened, 0, file.size)
            check, born = identity(opened, file.size), opened.birth()
        return Entry(file.size, file.mtime, False, file.inode, check, born, all_, file.changed)

    # --- another root ---------------------------------------------------------------------------------------------

    def _rebased(self, seen: ReadFiles, root: str, listing: list[ListedFile]) -> ReadFiles:
        """Return the record of the files that were read, with names relative to the present root.

        Either the spout's path covers more or fewer folders now, or the folder was moved. Raises SpoutContractError if
        neither is the case, because none of the files that were read is there.
        """
        rebased = seen.below(root)
        if self._any_present(rebased, listing):
            if seen.forgotten.more:
                self._check_old_files(seen, rebased, listing)
            past = [file for file in listing if rebased.sorts_past(file)]
            return replace(rebased, forgotten=seen.forgotten.rebased(past, lambda file: _old_name(file, root, seen)))
        if self._any_present(seen, listing):
            return seen
        raise SpoutContractError(
            f"FileSpout: this stream has read {seen.root}; {root} is another folder: it has none of the files that "
            f"were read last. If the folder was moved, restore one of these files. To read {root} from its "
            f"beginning too, "
            f"keep this stream as it was and add a second one. To read it instead, give the stream another name, with "
            f"newStream(..., anew=True)"
        )

    def _any_present(self, seen: ReadFiles, listing: list[ListedFile]) -> bool:
        """Return whether at least one file that was read is listed with the name and content that it had."""
        return any(file.name in seen.entries and self._same_content(file, seen.entries[file.name]) for file in listing)

    def _check_old_files(self, seen: ReadFiles, rebased: ReadFiles, listing: list[ListedFile]) -> None:
        """Raise SpoutContractError if an unread folder has a file that is so old that it would count as read."""
        for file in listing:
            if rebased.sorts_past(file) and _old_name(file, rebased.root or "", seen) is None:
                raise SpoutContractError(
                    f"FileSpout: this stream has read {seen.root}, of which only the files that were read last are "
                    f"remembered by name; {file.name} in {rebased.root} is older than these, and would count as "
                    f"read. Keep this stream as it was, and read the other folders with a second stream"
                )

    # --- files that are remembered --------------------------------------------------------------------------------

    def _renamed(self, entries: dict[str, Entry], listing: list[ListedFile]) -> dict[str, Entry]:
        """Return the entries, with the new names of renamed files."""
        names: dict[int, list[str]] = {}
        for name, entry in entries.items():
            names.setdefault(entry.inode, []).append(name)
        present = {file.name: file.inode for file in listing if file.name in entries}
        moves: dict[str, str] = {}
        for file in listing:
            former = names.get(file.inode, []) if file.inode else []
            for name in former if file.name not in former else ():
                if present.get(name) != file.inode and self._is_renamed(file, entries[name]):
                    moves[name] = file.name
        moves |= self._moved_without_inode(entries, listing)
        kept = {name: entry for name, entry in entries.items() if name not in moves}
        return {**kept, **{new: entries[name] for name, new in moves.items()}}

    def _is_renamed(self, file: ListedFile, entry: Entry) -> bool:
        """Return whether a file is the renamed file of an entry that has the same inode.

        An equal inode alone proves nothing: a new file may have got the inode of a deleted one. A file that was
        rewritten and then renamed is a new file; the error for a rewritten file says so.
        """
        born = self._birth(file)
        if born and entry.born:
            return born == entry.born and self._same_content(file, entry)
        rewritten = file.size == entry.end and file.mtime != entry.mtime
        return not rewritten and self._same_content(file, entry)

    def _moved_without_inode(self, entries: dict[str, Entry], listing: list[ListedFile]) -> dict[str, str]:
        """Return the new names of renamed files by their former names, in a place whose files have no inodes (HDFS).

        A renaming keeps the time of modification: a file without an entry that has size, time and content of a file
        that is gone is this file. Raises SpoutContractError if a file begins with all that was read from a file that
        has just gone, and is longer. It may be that file, which has grown, or another one.
        """
        strangers = [file for file in listing if not file.inode and not file.tag and file.name not in entries]
        present = {file.name for file in listing}
        gone = {name: entry for name, entry in entries.items() if name not in present and not entry.inode}
        newly = sorted(gone.keys() - self._gone, key=lambda name: entries[name].mtime)[-_NEWLY_GONE:]
        alike: dict[tuple[int, int], list[str]] = {}
        for name, entry in gone.items():
            alike.setdefault((entry.end, entry.mtime), []).append(name)
        moves: dict[str, str] = {}
        for file in strangers:
            same = [name for name in alike.get((file.size, file.mtime), []) if name not in moves]
            if (former := self._first_alike(file, same, entries)) is not None:
                moves[former] = file.name
            elif (former := self._beginning_of(file, newly, entries)) is not None:
                raise self._grown_or_other_error(file, former, entries[former])
        self._gone.clear()
        self._gone.update(gone)
        return moves

    def _first_alike(self, file: ListedFile, names: list[str], entries: dict[str, Entry]) -> str | None:
        return next((name for name in names if self._same_content(file, entries[name])), None)

    def _beginning_of(self, file: ListedFile, gone: list[str], entries: dict[str, Entry]) -> str | None:
        """Return the name of a file that is gone and with whose content a longer file begins; None if there is none."""
        likely = [name for name in gone if LONG <= entries[name].end < file.size]
        if not likely or not self.grows(file.name):
            return None
        with self._open(file) as opened:
            alike = [name for name in likely if checksum(opened, entries[name].end) == entries[name].check]
        return self._first_alike(file, alike, entries)

    def _grown_or_other_error(self, file: ListedFile, former: str, entry: Entry) -> SpoutContractError:
        return SpoutContractError(
            f"FileSpout: {self.place.path(file.name)} begins with all that was read from {former} (to byte "
            f"{entry.end:,}), and {former} is gone. If it was renamed after it had grown, its lines would count twice; "
            f"files here have no inode that would show it. Give it its former name back until it is read to its end, "
            f"and match only names that do not change later, such as '*.log' without '*.tmp'. If it is another file, "
            f"put {former} back"
        )

    def _birth(self, file: ListedFile) -> int:
        with self._open(file) as opened:
            return opened.birth()

    def _same_content(self, file: ListedFile, entry: Entry) -> bool:
        """Return whether a file begins with the content that was read, and is longer only if it may grow."""
        if file.size < entry.end or (file.size > entry.end and not (entry.more or self.grows(file.name))):
            return False
        if file.tag:
            return entry.check in (None, tag_checksum(file.tag))
        if entry.check is None and entry.digest is None:
            return file.size > entry.end or entry.fits(file)
        with self._open(file) as opened:
            if entry.check is not None and checksum(opened, entry.end) != entry.check:
                return False
            return entry.digest is None or self._proves_later(file, entry) or self._is_proved(file, opened, entry)

    def _proves_later(self, file: ListedFile, entry: Entry) -> bool:
        """Return whether a long growing file need not be compared as a whole at this check.

        That is so if the file is as long as its read part, and its time of change is too recent to be compared.
        """
        proved = self._proved.get((file.inode, file.name), 0)
        grows = entry.end < file.size or (entry.end == file.size and not file.changed)
        return PROVED_AT_ONCE < entry.end < proved + proved // 4 and grows

    def _is_proved(self, file: ListedFile, opened: OpenFile, entry: Entry) -> bool:
        """Return whether a file has all of the content that was read."""
        key = (file.name, file.changed, entry.end)
        found = self._digests.get(key) if file.changed else None
        if found is None:
            found = self._digests[key] = digest(opened, 0, entry.end)
        if found == entry.digest:
            self._proved[file.inode, file.name] = entry.end
        return found == entry.digest

    def _verified(self, file: ListedFile, entry: Entry) -> Entry:
        """Return the entry with the file's inode, creation time and evidence, and its mtime unless the file grew.

        Raises SpoutContractError if the file does not have the content that was read.
        """
        if not self._same_content(file, entry):
            raise self._changed_error(file, entry)
        mtime = file.mtime if file.size == entry.end else entry.mtime
        with self._open(file) as opened:
            now = opened.status()
            check = identity(opened, entry.end) if entry.check is None else entry.check
            all_ = digest(opened, 0, entry.end) if entry.digest is None and not file.tag else entry.digest
            still = file.changed == now.changed == opened.status().changed and not self._proves_later(file, entry)
            changed = file.changed if still and not file.tag else 0
            return Entry(entry.end, mtime, file.size > entry.end, file.inode, check, opened.birth(), all_, changed)

    def _changed_error(self, file: ListedFile, entry: Entry) -> SpoutContractError:
        when = f"modified {iso_time(entry.mtime)}" if entry.mtime else "long ago"
        return SpoutContractError(
            f"FileSpout: {file.name} was read to byte {entry.end} ({when}) and is now another file, or was "
            f"rewritten ({file.size} bytes, modified {iso_time(file.mtime)}); a file "
            f"must not change after it was read{', only grow by whole lines' if self.grows(file.name) else ''}. "
            f"To read the new content, give it another file name; to skip it, remove it. Logs that are "
            f"rotated by renaming are followed if the path matches the new names too, such as app.log*"
        )

    def _open(self, file: ListedFile) -> OpenFile:
        return open_file(self.place, file)


def open_file(place: FileStorage, file: ListedFile) -> OpenFile:
    """Open a listed file. Raises StaleListingError if it is gone, SourceUnreadableError if it cannot be read."""
    try:
        return place.open(file)
    except FileNotFoundError:
        raise StaleListingError(file.name) from None
    except OSError as error:
        raise unreadable_error(place.path(file.name), error) from error


def _old_name(file: ListedFile, root: str, seen: ReadFiles) -> str | None:
    """Return the name that a file below `root` has below the root that was read; None if it is elsewhere."""
    name = os.path.relpath(os.path.join(root, file.name), seen.root)
    return None if name.startswith(os.pardir + os.sep) else name
