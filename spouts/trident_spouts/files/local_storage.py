"""Files on the disks of a machine, or on disks that driver and workers mount under the same path."""

import glob
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

from trident.base.errors import SourceUnreadableError
from trident_spouts.files.file_births import birth_of
from trident_spouts.files.glob_patterns import wild_at
from trident_spouts.files.listing import is_hidden
from trident_spouts.files.storage import ListedFile, OpenFile


class LocalFile(OpenFile):
    """An opened file of a disk."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__(io.FileIO(path))
        self._listed_name = name

    def status(self) -> ListedFile:
        """Return the file as it is now, even if it was renamed."""
        return ListedFile.of(self._listed_name, os.fstat(self.fileno()))

    def birth(self) -> int:
        """Return the time (ms since 1970) at which the file was created; 0 if the system does not know it."""
        return birth_of(self.fileno())


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A folder, and a pattern below it. The names of files are relative to the folder, so that it can be moved."""

    root: str
    pattern: str
    """A glob below the folder `root`; if it is empty, all files of that folder."""

    grows = True
    sorted = False
    opening_bytes = 0

    @classmethod
    def at(cls, path: str) -> "LocalStorage":
        """Return the LocalStorage of an absolute path, which names a folder, a file or a glob.

        Raises SourceUnreadableError if the path is not a glob and names no file or folder.

        >>> LocalStorage.at("/data/2024-*/part?.txt")
        LocalStorage(root='/data', pattern='2024-*/part?.txt')
        """
        if os.path.isdir(path):
            return cls(path, "")
        if os.path.exists(path):
            return cls(os.path.dirname(path), glob.escape(os.path.basename(path)))
        parts = PurePath(path).parts
        wild = wild_at(parts)
        if wild is None:
            raise SourceUnreadableError(f"FileSpout: there is no file or folder {path}")
        return cls(str(PurePath(*parts[:wild])), str(PurePath(*parts[wild:])))

    def is_there(self) -> bool:
        """Return whether the folder exists."""
        return os.path.isdir(self.root)

    def deep(self) -> "LocalStorage":
        """Return the same folder with a pattern that matches all files in it and in its subfolders."""
        return replace(self, pattern="**/*")

    @property
    def address(self) -> str:
        """Return the folder as the log names it, with symbolic links resolved."""
        return os.path.realpath(self.root)

    def path(self, name: str) -> str:
        """Return the absolute path of the file with the given name."""
        return os.path.join(self.root, name)

    def look(self, name: str) -> ListedFile:
        """Return the file with the given name as it is now. Raises FileNotFoundError if there is no such file."""
        status = _status(self.path(name))
        if status is None:
            raise FileNotFoundError(2, "there is no such file")
        return ListedFile.of(name, status)

    def open(self, file: ListedFile) -> LocalFile:
        """Open the file that has the name of `file` now."""
        return LocalFile(self.path(file.name), file.name)

    def for_arrow(self, file: ListedFile) -> str:
        """Return the file's path, which Arrow opens itself."""
        return self.path(file.name)

    def files(self, hidden: bool, after: str) -> Iterator[ListedFile]:
        """Yield the files that exist now. `after` is ignored, because a folder lists files in an arbitrary order."""
        if not self.pattern:
            yield from self._folder(hidden)
            return
        for name in glob.iglob(self.pattern, root_dir=self.root, recursive=True):
            status = _status(self.path(name)) if is_hidden(name) == hidden else None
            if status is not None:
                yield ListedFile.of(name, status)

    def _folder(self, hidden: bool) -> Iterator[ListedFile]:
        with os.scandir(self.root) as entries:
            for entry in entries:
                try:
                    if is_hidden(entry.name) == hidden and entry.is_file():
                        yield ListedFile.of(entry.name, os.stat(entry.path))
                except FileNotFoundError:  # the file was deleted after the folder was opened
                    continue

    def __str__(self) -> str:
        return os.path.join(self.root, self.pattern) if self.pattern else self.root


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path) if os.path.isfile(path) else None
    except FileNotFoundError:
        return None
