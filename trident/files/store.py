"""The protocol by which a run uses its files, on a disk, on an object store or on HDFS.

No file is renamed once it has its name, and no file is overwritten. A file counts once the log or a manifest names it;
a file that neither names is garbage, whatever its content. So the remains of a writer that dies half-way do not matter.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol


class StoredFile(NamedTuple):
    """A file in a listing: its name, relative to the root of the store, and its size in bytes."""

    name: str
    size: int


class Sink(Protocol):
    """The object to which the content of a new file is written."""

    def write(self, data: Any, /) -> Any:
        """Write the next bytes, from any object with a buffer. Return their number."""
        ...

    def flush(self) -> None: ...


def listed_sizes(files: "FileStore", names: Collection[str]) -> dict[str, int]:
    """Return the sizes of files from a list of all files in a store; see `FileStore.sizes`."""
    sizes = {file.name: file.size for file in files.files()} if names else {}
    return {name: sizes[name] for name in names if name in sizes}


class FileStore(Protocol):
    """A store of files: a folder, or a prefix of a bucket.

    It is picklable, because it is sent to workers. Names of files are relative to it, with slashes.

    All methods raise FilesError if an object store or HDFS does not carry out a request, and OSError if a disk does
    not.
    """

    @property
    def address(self) -> str:
        """The folder or the URL, for messages. Two stores with the same address have the same files."""
        ...

    def below(self, folder: str) -> "FileStore":
        """Return a store of the files below a folder of this store."""
        ...

    def path(self, name: str) -> str:
        """Return the path or URL of a file, for messages and for readers."""
        ...

    # --- writing --------------------------------------------------------------------------------------------------

    def writer(self, name: str) -> AbstractContextManager[Sink]:
        """Return a context that writes a new file. When the context ends, the file exists as a whole and is durable.

        No other writer may ever use the name, so it must contain a random part. If the block raises, the file may be
        missing or incomplete, and the log and manifests must not name it.
        """
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write a whole file durably, unless a file of this name exists. Of several writers, the first wins.

        Return whether the file now has this content. That is so, too, if an earlier attempt at the same write created
        it.
        """
        ...

    def sync(self, folder: str) -> None:
        """Make the name of a folder durable. The files in it already are: `writer` made them durable."""
        ...

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Any:
        """Return the content of a file, as an object with a buffer.

        Raises FileNotFoundError if there is no such file.
        """
        ...

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if there is no such file."""
        ...

    def sizes(self, names: Collection[str]) -> dict[str, int]:
        """Return the sizes in bytes of files, by their names. A missing file has no entry.

        A disk is asked for each file, because a network file system may show an old list of a folder. Other stores list
        all their files, with one request for many: so call this for a store of one folder (`below`).
        """
        ...

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        """Yield all files below a folder, in no particular order. If there is no such folder, yield nothing."""
        ...

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in `folder`, relative to it."""
        ...

    # --- deleting -------------------------------------------------------------------------------------------------

    def delete(self, names: Iterable[str]) -> None:
        """Delete files. A missing file is not an error."""
        ...

    def remove(self, folder: str) -> None:
        """Delete a folder with all files below it, as far as possible.

        Files that are left are garbage for the next sweep.
        """
        ...

    def remove_empty(self) -> None:
        """Delete the folder of this store, if it exists and is empty."""
        ...
