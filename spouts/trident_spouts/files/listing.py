"""Which files there are: the stable order in which a file spout reads them."""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from trident.base.errors import SourceUnreadableError, TopologyError

_GLOB = "*?["
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy", ".zip", ".deflate")


class Found(NamedTuple):
    """A file as it was when it was listed; sorts by modification time (ns), then by name below the root."""

    mtime: int
    name: str
    size: int
    inode: int = 0
    device: int = 0

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> "Found":
        """Return the file of this name and status."""
        return cls(status.st_mtime_ns, name, status.st_size, status.st_ino, status.st_dev)


@dataclass(frozen=True, slots=True)
class Place:
    """Where files come from: names are relative to `root`, so that folder and checkpoint can move together."""

    root: str
    pattern: str
    """Below the root; empty: every file of the folder `root`."""

    def path(self, name: str) -> str:
        """Return the whole path of a file."""
        return os.path.join(self.root, name)

    def __str__(self) -> str:
        return os.path.join(self.root, self.pattern) if self.pattern else self.root


def absolute(path: str | PurePath) -> str:
    """Return the path as an absolute one. Raise for what is not a local or mounted path.

    >>> absolute("file:///data/*.txt")
    '/data/*.txt'
    """
    text = os.fspath(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if "://" in text:
        raise TopologyError(
            f"FileSpout reads paths that the driver and all workers mount, not {text!r}; mount it, or copy it to one"
        )
    return os.path.abspath(os.path.expanduser(text))


def place_of(path: str) -> Place:
    """Return the place that an absolute path names: a folder, a file or a glob.

    >>> place_of("/data/2024-*/part?.txt")
    Place(root='/data', pattern='2024-*/part?.txt')
    """
    if os.path.isdir(path):
        return Place(path, "")
    if os.path.exists(path):
        return Place(os.path.dirname(path), glob.escape(os.path.basename(path)))
    parts = PurePath(path).parts
    wild = [at for at, part in enumerate(parts) if any(sign in part for sign in _GLOB)]
    if not wild:
        raise SourceUnreadableError(f"FileSpout: there is no file or folder {path}")
    return Place(str(PurePath(*parts[: wild[0]])), str(PurePath(*parts[wild[0] :])))


def find(place: Place) -> list[Found]:
    """Return the files there are now, in the order in which they are read: each once, however many links lead to it."""
    files = sorted(_found(place))
    once = {(file.device, file.inode or file.name): file for file in reversed(files)}
    return files if len(once) == len(files) else sorted(once.values())


def hidden_in(place: Place) -> str | None:
    """Return the name of a file that is left out because it is hidden; None where there is none."""
    return next((file.name for file in _found(place, hidden=True)), None)


def _found(place: Place, hidden: bool = False) -> Iterator[Found]:
    try:
        if not place.pattern:
            yield from _in_folder(place.root, hidden)
            return
        for name in glob.iglob(place.pattern, root_dir=place.root, recursive=True):
            status = _status(place.path(name)) if _is_hidden(name) == hidden else None
            if status is not None:
                yield Found.of(name, status)
    except OSError as error:
        raise SourceUnreadableError(f"FileSpout: cannot list {place}: {error.strerror or error}") from error


def _in_folder(root: str, hidden: bool) -> Iterator[Found]:
    with os.scandir(root) as entries:
        for entry in entries:
            try:
                if _is_hidden(entry.name) == hidden and entry.is_file():
                    yield Found.of(entry.name, os.stat(entry.path))
            except FileNotFoundError:  # deleted since the folder was opened
                continue


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path) if os.path.isfile(path) else None
    except FileNotFoundError:
        return None


def check_compressed(files: list[Found], place: Place) -> None:
    """Raise for a compressed file: a batch of lines cannot begin in the middle of one."""
    for found in files:
        if found.name.lower().endswith(_COMPRESSED):
            raise SourceUnreadableError(
                f"FileSpout: {place.path(found.name)} is compressed, and text and JSON are read by byte ranges, which "
                "such a file has not; unpack it, or name the others by a glob such as '*.txt'"
            )


def _is_hidden(name: str) -> bool:
    """Return whether a name of the path is one by which writers hide what is not complete. The rules are Spark's, for
    all folders below the root too, because a Spark job keeps its unfinished files under ``_temporary``."""
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) or part.endswith("._COPYING_")
        for part in name.split(os.sep)
    )
