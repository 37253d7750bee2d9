"""Files of HDFS, read through pyarrow's file system, which needs Hadoop's library (libhdfs) on each machine."""

import glob
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import fs

from trident.base.errors import SourceUnreadableError
from trident_spouts.files.glob_patterns import matches, wild_at
from trident_spouts.files.listing import is_hidden
from trident_spouts.files.storage import ListedFile, OpenFile

SCHEMES = ("hdfs://", "viewfs://")
"""The URLs of file systems that pyarrow opens."""


@dataclass(frozen=True, slots=True)
class HdfsStorage:
    """A folder of a file system of pyarrow, and a pattern below it.

    The file system has no tags and no inodes. A file is identified by its size, time and checksum.
    """

    system: str
    """The URL of the file system: ``hdfs://host:port``."""

    root: str
    pattern: str
    """A glob below the folder `root`; if it is empty, all files of that folder."""

    grows = True
    sorted = False
    opening_bytes = 256 << 10

    @classmethod
    def at(cls, url: str) -> "HdfsStorage":
        """Return the HdfsStorage of a URL, which names a folder, a file or a glob.

        Raises SourceUnreadableError if the URL is not a glob and names no file or folder, or if the file system cannot
        be opened.
        """
        scheme, _, rest = url.partition("://")
        host, _, path = rest.partition("/")
        parts = path.strip("/").split("/")
        wild = wild_at(parts)
        if wild is not None:
            return cls(f"{scheme}://{host}", "/" + "/".join(parts[:wild]), "/".join(parts[wild:]))
        place = cls(f"{scheme}://{host}", "/" + "/".join(parts), "")
        kind = place._about("").type
        if kind == fs.FileType.Directory:
            return place
        if kind == fs.FileType.File:
            return cls(place.system, posixpath.dirname(place.root), glob.escape(posixpath.basename(place.root)))
        raise SourceUnreadableError(f"FileSpout: there is no file or folder {url}")

    def is_there(self) -> bool:
        """Return whether the folder exists."""
        return bool(self._about("").type == fs.FileType.Directory)

    def deep(self) -> "HdfsStorage":
        """Return the same folder with a pattern that matches all files in it and in its subfolders."""
        return replace(self, pattern="**/*")

    @property
    def address(self) -> str:
        """Return the folder as a URL."""
        return self.system + self.root

    def path(self, name: str) -> str:
        """Return the URL of the file with the given name."""
        return f"{self.address.rstrip('/')}/{name}"

    def __str__(self) -> str:
        return self.path(self.pattern) if self.pattern else self.address

    def files(self, hidden: bool, after: str) -> Iterator[ListedFile]:
        """Yield the files that exist now.

        `after` is ignored, because the file system lists files in an arbitrary order.
        """
        pattern = self.pattern or "*"
        deep = "/" in pattern or "**" in pattern
        for about in _open_system(self.system).get_file_info(fs.FileSelector(self.root, recursive=deep)):
            name = posixpath.relpath(about.path, self.root)
            if about.type == fs.FileType.File and is_hidden(name) == hidden and matches(name, pattern):
                yield _listed(name, about)

    def open(self, file: ListedFile) -> "HdfsFile":
        """Open the file that has the name of `file` now."""
        return HdfsFile(self, file.name)

    def for_arrow(self, file: ListedFile) -> pa.NativeFile:
        """Return the opened file, which Arrow reads without Python."""
        return self.native(file.name)

    def native(self, name: str) -> pa.NativeFile:
        """Return the file with the given name, opened by Arrow."""
        return _open_system(self.system).open_input_file(posixpath.join(self.root, name))

    def look(self, name: str) -> ListedFile:
        """Return the file with the given name as it is now. Raises FileNotFoundError if there is none."""
        about = self._about(name)
        if about.type != fs.FileType.File:
            raise FileNotFoundError(2, "there is no such file")
        return _listed(name, about)

    def _about(self, name: str) -> fs.FileInfo:
        return _open_system(self.system).get_file_info(posixpath.join(self.root, name).rstrip("/") or "/")


class HdfsFile(OpenFile):
    """An opened file of a file system of pyarrow."""

    def __init__(self, place: HdfsStorage, name: str) -> None:
        super().__init__(place.native(name), 64 << 10)
        self._place, self._listed_name = place, name

    def status(self) -> ListedFile:
        """Return the file that has this name now, because Arrow does not show which file it has opened."""
        return self._place.look(self._listed_name)


def _listed(name: str, about: fs.FileInfo) -> ListedFile:
    # A file of HDFS is written once; only its modification time shows a change.
    return ListedFile(about.mtime_ns or 0, name, about.size, changed=about.mtime_ns or 0)


@lru_cache(maxsize=8)
def _open_system(system: str) -> Any:
    try:
        return fs.FileSystem.from_uri(f"{system}/")[0]
    except OSError as error:
        said = str(error).partition("\n")[0]  # the loader lists every path that it has tried
        raise SourceUnreadableError(
            f"FileSpout: cannot open {system}: {said}; pyarrow needs a Java and Hadoop's libhdfs: set JAVA_HOME, "
            f"HADOOP_HOME and CLASSPATH (`hadoop classpath --glob`) for the driver and for every worker"
        ) from None
