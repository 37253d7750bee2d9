"""The path that a user gives: on a disk, or a URL of an object store or of HDFS."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePath

from trident.base.errors import TopologyError
from trident.base.short_texts import typed_brief
from trident.files import object_client
from trident.files.object_client import bucket_of
from trident.files.object_options import Storage
from trident_spouts.files import hdfs_storage
from trident_spouts.files.hdfs_storage import HdfsStorage
from trident_spouts.files.local_storage import LocalStorage
from trident_spouts.files.manifest import ManifestFile
from trident_spouts.files.object_storage import ObjectStorage
from trident_spouts.files.storage import FileStorage

_SCHEMES = (*object_client.SCHEMES, *hdfs_storage.SCHEMES)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A path to a manifest: a file that names the files to read, in place of a folder or a glob.

    Each line has the path of one file, relative to the manifest's folder or absolute. The files are read in that order,
    each once, and must be complete. More names may be appended; other changes are refused. JSON in the form of
    Redshift's COPY is read, too: ``{"entries": [{"url": "s3://..."}]}``.

    Examples
    --------
    >>> from trident.spouts import FileSpout, Manifest
    >>> FileSpout(Manifest("/data/in/files.txt"), "json", "user long")
    FileSpout(Manifest('/data/in/files.txt'), 'json', 'user bigint')
    """

    path: str | PurePath

    def __repr__(self) -> str:
        return f"Manifest({str(self.path)!r})"


def absolute(path: str | PurePath) -> str:
    """Return an absolute path, or the URL unchanged.

    Raises TopologyError for a URL that cannot be read, and for a value that is not a path.

    >>> absolute("file:///data/*.txt")
    '/data/*.txt'
    """
    if isinstance(path, bytes) or not isinstance(path, str | os.PathLike):
        several = (
            "; for several files give a glob, such as 'in/*.json', or a Manifest('files.txt')" if _several(path) else ""
        )
        raise TopologyError(f"FileSpout: path={typed_brief(path)}: expected one path, a str or a pathlib.Path{several}")
    text = os.fspath(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if "://" not in text:
        return os.path.abspath(os.path.expanduser(text))
    if not text.startswith(_SCHEMES) or not text.partition("://")[2].partition("/")[0]:
        raise TopologyError(
            f"FileSpout: expected a path, or a URL ({', '.join(_SCHEMES)}) with its bucket or host, got "
            f"{_hidden(text)!r}; mount or copy other files"
        )
    if _hidden(text) != text and not text.startswith(("abfs://", "abfss://")):
        raise TopologyError(
            f"FileSpout: {_hidden(text)!r} contains credentials; set them in the environment, or with storage="
        )
    return text


def _several(path: object) -> bool:
    return isinstance(path, Collection) and not isinstance(path, bytes)


def _hidden(url: str) -> str:
    """Return a URL with stars in place of the user and password before its host."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    login, at, host = host.rpartition("@")
    return f"{scheme}://{'***' if login else ''}{at}{host}{slash}{path}"


def is_object(path: str) -> bool:
    """Return whether a path from `absolute` is a URL of an object store."""
    return path.startswith(object_client.SCHEMES)


def manifest_of(path: str, storage: Storage) -> ManifestFile:
    """Return the manifest at a path from `absolute`. It may name files of the same disk, bucket or file system."""
    scheme, _, rest = path.partition("://")
    root, _, name = rest.partition("/")
    if is_object(path):
        bucket, key = bucket_of(path)
        return ManifestFile(ObjectStorage(bucket, "", "", storage), key)
    if path.startswith(hdfs_storage.SCHEMES):
        return ManifestFile(HdfsStorage(f"{scheme}://{root}", "/", ""), name)
    return ManifestFile(LocalStorage(os.path.dirname(path), ""), os.path.basename(path))


def place_of(path: str, storage: Storage) -> FileStorage:
    """Return the FileStorage for a path from `absolute`: a folder, a file or a glob.

    Raises SourceUnreadableError if the path is not a glob and names no file or folder.
    """
    if is_object(path):
        return ObjectStorage.at(path, storage)
    return HdfsStorage.at(path) if path.startswith(hdfs_storage.SCHEMES) else LocalStorage.at(path)
