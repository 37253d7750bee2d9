"""The folder of a Delta table, local or on an object store. On an object store, the package deltalake opens files."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from trident.base.errors import SourceUnreadableError, TopologyError
from trident.base.forked_child import check_not_inherited
from trident.base.optional_packages import optional_package
from trident.base.secret_references import read_secret
from trident.base.short_texts import one_line

_LIMITS = {"timeout": "10s", "connect_timeout": "5s", "max_retries": "1", "retry_timeout": "15s"}
"""The time limits of a store, unless the options set others. The package's file system holds Python's lock while it
waits, so a store that hangs would block the whole driver. A failed request is repeated anyway."""


UNSAFE = "allow_unsafe_rename"
"""A part of the names of settings that let deltalake overwrite another writer's version."""

_NEED = "DeltaSpout needs the package deltalake, and on the workers too if the table is on an object store"


def deltalake(need: str = _NEED) -> Any:
    """Return the module deltalake. Raises MissingPackageError, which names `need`, if it is not installed.

    Also raises the error of `check_not_inherited`.
    """
    check_not_inherited("deltalake")
    return optional_package("deltalake", "delta", need)


def check_storage_options(options: object) -> dict[str, str]:
    """Return the options of an object store; no options for None. Raises TopologyError if they are not strings."""
    held = {} if options is None else options
    if not isinstance(held, Mapping) or not all(isinstance(part, str) for pair in held.items() for part in pair):
        raise TopologyError(
            "storageOptions: expected a mapping of strings to strings, such as {'AWS_REGION': 'eu-west-1'}"
        )
    return dict(held)


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder of a table. Paths in it are relative to it."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()
    """Options of deltalake for an object store, sorted; a value may be ``env:NAME`` or ``file:path``."""
    owner: str = "DeltaSpout"
    """The spout or the step that uses the table, for errors."""

    @property
    def shown(self) -> str:
        return f"{self.owner}: {self.uri}"

    @property
    def local(self) -> bool:
        """True if the table is on a file system of this machine."""
        return "://" not in self.uri

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

    def entries(self) -> list[str]:
        """Return the names of the files and folders in the table's folder; none if there is no such folder."""
        return [info.base_name for info in self._infos(pa.fs.FileSelector("", allow_not_found=True))]

    def _infos(self, selector: Any) -> list[Any]:
        try:
            return list(_file_system(self).get_file_info(selector))
        except OSError as error:
            raise SourceUnreadableError(f"{self.shown}: cannot list its files: {one_line(error)}") from error

    def output(self, path: str) -> pa.NativeFile:
        """Return a stream into a new file. The file of a local table must be in the table's folder itself."""
        return _file_system(self).open_output_stream(path)

    def delete(self, path: str) -> None:
        """Delete a file. A missing file is not an error."""
        with suppress(FileNotFoundError):
            _file_system(self).delete_file(path)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options, with the values of secrets."""
        return {
            name: read_secret(f"storageOptions: {name}", value, self._refused) for name, value in self.options
        } or None

    def _refused(self, problem: str) -> TopologyError:
        return TopologyError(f"{self.owner}: {problem}")


def folder_of(path: str | os.PathLike[str], options: Mapping[str, str], owner: str = "DeltaSpout") -> TableFolder:
    """Return the folder at a path or an address such as ``s3://bucket/orders``; a local path becomes absolute."""
    uri = os.fspath(path)
    if uri.startswith("file:"):
        uri = unquote(urlsplit(uri).path)
    if "://" not in uri:
        uri = os.path.abspath(os.path.expanduser(uri))
    return TableFolder(uri.rstrip("/") or "/", tuple(sorted(options.items())), owner)


@lru_cache(maxsize=32)
def _file_system(folder: TableFolder) -> pa.fs.FileSystem:
    if folder.local:
        return pa.fs.SubTreeFileSystem(folder.uri, pa.fs.LocalFileSystem())
    deltalake()
    from deltalake.fs import DeltaStorageHandler

    return pa.fs.PyFileSystem(DeltaStorageHandler(folder.uri, _LIMITS | (folder.storage_options or {})))
