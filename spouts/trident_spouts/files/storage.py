"""The protocol by which a FileSpout uses a disk, an object store or HDFS."""

import io
import os
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol


class StaleListingError(Exception):
    """A listed file is gone, or another file has its name now."""


TICK_NS = 100_000_000
"""The longest time (ns) for which a file system may give two changes of a file the same time. (Kernels stamp changes
with a clock that ticks every 1 to 10 ms.)"""


class ListedFile(NamedTuple):
    """A file with its status at the time of the listing.

    Files sort by modification time (ns), then name (relative to the root).

    `tag` is the entity tag (ETag) by which an object store identifies a content: other content has another tag. It is
    empty on a disk and in HDFS. Objects have no inode and no device.

    `changed` is the time of the last change (ctime, ns), which no program can set: a file with the same inode and the
    same time of change has the same content. It is 0 if it is not known, or if the change is so recent that a second
    change may get the same time.
    """

    mtime: int
    name: str
    size: int
    inode: int = 0
    device: int = 0
    tag: str = ""
    changed: int = 0

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> "ListedFile":
        """Return the listed file with the given name and status."""
        changed, mtime = _settled(status.st_ctime_ns), status.st_mtime_ns
        return cls(mtime, name, status.st_size, status.st_ino, status.st_dev, changed=changed)

    def age(self, time: float) -> float:
        """Return the seconds from the last change up to `time`. It is negative if that time is in the future.

        A program may give a file any time of modification. One in the future says nothing, so the time of the last
        change counts then, if it is known.
        """
        ahead = self.mtime / 1e9 > time
        return time - ((self.changed or self.mtime) if ahead else self.mtime) / 1e9

    def same_status(self, now: "ListedFile") -> bool:
        """Return whether `now` has the name, size, times and inode of this file, as far as they are known."""
        known = now if self.changed and now.changed else now._replace(changed=self.changed)
        return known == self


def _settled(changed: int) -> int:
    """Return a time of change (ns) that no later change can have; 0 if it is too recent for that."""
    tick = TICK_NS if changed % 1_000_000_000 else 2_000_000_000  # some file systems keep whole seconds
    return changed if time.time_ns() - changed > tick else 0


class OpenFile(io.BufferedReader):
    """An opened file, which is read by position."""

    @abstractmethod
    def status(self) -> ListedFile:
        """Return the file as it is now.

        A file with a tag is returned as it was listed, because every read either gets the content with that tag or
        fails.
        """

    def birth(self) -> int:
        """Return the time (ms since 1970) at which the file was created; 0 if the file system does not know it."""
        return 0


class FileStorage(Protocol):
    """A folder or prefix that holds files, and a pattern below it. It is picklable, because it is sent to workers.

    The names of files are relative to the folder. There is one implementation each for disks, object stores and HDFS;
    all other code treats them alike. An object store identifies the content of a file by its tag, so a read returns
    exactly the planned content. On disks and HDFS the content is identified by size, time and a checksum.
    """

    @property
    def pattern(self) -> str:
        """Return the glob below the folder; if it is empty, all files of that folder are meant."""
        ...

    def is_there(self) -> bool:
        """Return whether the folder exists; always True in an object store. Raises OSError if the answer is unknown."""
        ...

    def deep(self) -> "FileStorage":
        """Return the same folder with a pattern that matches all files in it and in its subfolders."""
        ...

    @property
    def address(self) -> str:
        """Return the folder as the log names it. Two places with the same address have the same files."""
        ...

    @property
    def grows(self) -> bool:
        """Return whether a file may grow after it was read. An object cannot grow: a writer replaces it as a whole."""
        ...

    @property
    def sorted(self) -> bool:
        """Return whether `files` yields the names in their order, and can begin after a given name."""
        ...

    @property
    def opening_bytes(self) -> int:
        """Return how many bytes can be read in the time that it takes to open a file."""
        ...

    def path(self, name: str) -> str:
        """Return the path or URL of the file with the given name, for messages."""
        ...

    def files(self, hidden: bool, after: str) -> Iterator[ListedFile]:
        """Yield the files that exist now: only hidden ones if `hidden`, otherwise only visible ones.

        If `sorted` is True, names up to `after` are left out. Raises OSError if the files cannot be listed.
        """
        ...

    def look(self, name: str) -> ListedFile:
        """Return the file with the given name as it is now. Raises OSError if there is none, or it cannot be read."""
        ...

    def open(self, file: ListedFile) -> OpenFile:
        """Open a file by its name, and by its tag if it has one. Raises OSError if the file cannot be read."""
        ...

    def for_arrow(self, file: ListedFile) -> str | BinaryIO:
        """Return the object from which Arrow reads the file: a local path, or the opened file."""
        ...
