"""The folder of a Delta table, local or on an object store. On an object store, the package deltalake opens files."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from trident.base.errors import SourceUnreadableError, TopologyError
from trident.base.optional_packages import optional_package
from trident.base.secrets import read_secret
from trident_spouts.tables.data_files import one_line

_LIMITS = {"timeout": "10s", "connect_timeout": "5s", "max_retries": "1", "retry_timeout": "15s"}
"""The time limits of a store, unless the options set others. The package's file system holds Python's lock while it
waits, so a store that hangs would block the whole driver. A failed attempt is repeated in any case."""


def deltalake() -> Any:
    """Return the module deltalake. Raises MissingPackageError if it is not installed."""
    need = "DeltaSpout needs the package deltalake, and on the workers too if the table is on an object store"
    return optional_package("deltalake", "delta", need)


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder of a table. Paths in it are relative to it."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()
    """Options of deltalake for an object store, sorted; a value may be ``env:NAME`` or ``file:path``."""

    @property
    def shown(self) -> str:
        return f"DeltaSpout: {self.uri}"

    def open(self, path: str) -> pa.NativeFile:
        return _file_system(self).open_input_file(path)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""
        try:
            with self.open(path) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceUnreadableError(f"{self.shown}: cannot read {path}: {one_line(error)}") from error

    def stamp(self, path: str) -> tuple[int, int] | None:
        """Return the size of a file and the time of its last change (ns); None if there is no such file."""
        (info,) = self._infos([path])
        return None if info.type == pa.fs.FileType.NotFound else (info.size or 0, info.mtime_ns or 0)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""
        return [info.base_name for info in self._infos(pa.fs.FileSelector(folder)) if info.is_file]

    def _infos(self, selector: Any) -> list[Any]:
        try:
            return list(_file_system(self).get_file_info(selector))
        except OSError as error:
            raise SourceUnreadableError(f"{self.shown}: cannot list its files: {one_line(error)}") from error

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options, with the values of secrets."""
        return {name: read_secret(f"storageOptions: {name}", value, _refused) for name, value in self.options} or None


def folder_of(path: str | os.PathLike[str], options: Mapping[str, str]) -> TableFolder:
    """Return the folder at a path or an address such as ``s3://bucket/orders``; a local path becomes absolute."""
    uri = os.fspath(path)
    if uri.startswith("file:"):
        uri = unquote(urlsplit(uri).path)
    if "://" not in uri:
        uri = os.path.abspath(os.path.expanduser(uri))
    return TableFolder(uri.rstrip("/") or "/", tuple(sorted(options.items())))


@lru_cache(maxsize=32)
def _file_system(folder: TableFolder) -> pa.fs.FileSystem:
    if "://" not in folder.uri:
        return pa.fs.SubTreeFileSystem(folder.uri, pa.fs.LocalFileSystem())
    deltalake()
    from deltalake.fs import DeltaStorageHandler

    return pa.fs.PyFileSystem(DeltaStorageHandler(folder.uri, _LIMITS | (folder.storage_options or {})))


def _refused(problem: str) -> TopologyError:
    return TopologyError(f"DeltaSpout: {problem}")
