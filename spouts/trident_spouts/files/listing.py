"""The listing of the files of a FileSpout, in the stable order in which the spout reads them."""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from trident.base.errors import SourceUnreadableError, TopologyError

_GLOB = "*?["
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy", ".zip", ".deflate")


class ListedFile(NamedTuple):
    """A file as it was when it was listed. Files sort by modification time (ns), then name (relative to the root)."""

    mtime: int
    name: str
    size: int
    inode: int = 0
    device: int = 0

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> "ListedFile":
        """Return the listed file with the given name and status."""
        return cls(status.st_mtime_ns, name, status.st_size, status.st_ino, status.st_dev)


@dataclass(frozen=True, slots=True)
class FileSource:
    """Where the files of a spout lie: a folder, and a pattern below it.

    The names of files are relative to the folder `root`, so that the folder can be moved.
    """

    root: str
    pattern: str
    """A glob below the folder `root`; if it is empty, all files of that folder."""

    def path(self, name: str) -> str:
        """Return the absolute path of the file with the given name."""
        return os.path.join(self.root, name)

    def __str__(self) -> str:
        return os.path.join(self.root, self.pattern) if self.pattern else self.root


def absolute(path: str | PurePath) -> str:
    """Return a path as an absolute one. Raises TopologyError if it is a URL of another file system.

    >>> absolute("file:///data/*.txt")
    '/data/*.txt'
    """
    text = os.fspath(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if "://" in text:
        raise TopologyError(
            f"FileSpout: expected a path that the driver and all workers mount, got {text!r}; mount or copy it"
        )
    return os.path.abspath(os.path.expanduser(text))


def file_source(path: str) -> FileSource:
    """Return the FileSource for an absolute path, which names a folder, a file or a glob.

    Raises SourceUnreadableError if the path is no glob and nothing is there.

    >>> file_source("/data/2024-*/part?.txt")
    FileSource(root='/data', pattern='2024-*/part?.txt')
    """
    if os.path.isdir(path):
        return FileSource(path, "")
    if os.path.exists(path):
        return FileSource(os.path.dirname(path), glob.escape(os.path.basename(path)))
    parts = PurePath(path).parts
    wild = [at for at, part in enumerate(parts) if any(sign in part for sign in _GLOB)]
    if not wild:
        raise SourceUnreadableError(f"FileSpout: there is no file or folder {path}")
    return FileSource(str(PurePath(*parts[: wild[0]])), str(PurePath(*parts[wild[0] :])))


def list_files(source: FileSource, by_name: bool = False) -> list[ListedFile]:
    """Return the files that are there now, in the order in which they are read. A file with several links comes once.

    They are read in the order of their modification times; `by_name`: of their names. Raises SourceUnreadableError if
    the files cannot be listed.
    """
    order = _name_of if by_name else None
    files = sorted(_list(source), key=order)
    once = {(file.device, file.inode or file.name): file for file in reversed(files)}
    return files if len(once) == len(files) else sorted(once.values(), key=order)


def _name_of(file: ListedFile) -> str:
    return file.name


def hidden_file(source: FileSource) -> str | None:
    """Return the name of a file that the listing leaves out because it is hidden; None if there is no such file."""
    return next((file.name for file in _list(source, hidden=True)), None)


def _list(source: FileSource, hidden: bool = False) -> Iterator[ListedFile]:
    try:
        if not source.pattern:
            yield from _list_folder(source.root, hidden)
            return
        for name in glob.iglob(source.pattern, root_dir=source.root, recursive=True):
            status = _status(source.path(name)) if _is_hidden(name) == hidden else None
            if status is not None:
                yield ListedFile.of(name, status)
    except OSError as error:
        raise SourceUnreadableError(f"FileSpout: cannot list {source}: {error.strerror or error}") from error


def _list_folder(root: str, hidden: bool) -> Iterator[ListedFile]:
    with os.scandir(root) as entries:
        for entry in entries:
            try:
                if _is_hidden(entry.name) == hidden and entry.is_file():
                    yield ListedFile.of(entry.name, os.stat(entry.path))
            except FileNotFoundError:  # the file was deleted since the folder was opened
                continue


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path) if os.path.isfile(path) else None
    except FileNotFoundError:
        return None


def check_uncompressed(files: list[ListedFile], source: FileSource) -> None:
    """Raise SourceUnreadableError if a file is compressed, because a batch cannot begin in the middle of one."""
    for file in files:
        if file.name.lower().endswith(_COMPRESSED):
            raise SourceUnreadableError(
                f"FileSpout: {source.path(file.name)} is compressed, and text and JSON are read by byte ranges, which "
                "a compressed file does not have; unpack it, or select the other files by a glob such as '*.txt'"
            )


def _is_hidden(name: str) -> bool:
    """Return whether a file is hidden, as writers hide unfinished files: by its name, or by that of a folder above it.

    The rules are Spark's. They also hold for the names of all folders below the root, because a Spark job keeps its
    unfinished files under ``_temporary``.
    """
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) or part.endswith("._COPYING_")
        for part in name.split(os.sep)
    )
