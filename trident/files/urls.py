"""The URL of a place of files: of an object store, or of HDFS."""

from trident.files.hdfs import SCHEME, hdfs_files
from trident.files.object_options import Storage
from trident.files.objects import is_object_url, object_files
from trident.files.store import FileStore


def is_files_url(text: str) -> bool:
    """Return whether a text is a URL of a place of files, and not a path on a disk."""
    return text.startswith(SCHEME) or is_object_url(text)


def files_by_url(option: str, url: str, storage: Storage) -> FileStore:
    """Return the place that a URL names. The URL is the value of `option`. Raises TopologyError if it names no place.

    >>> files_by_url("filesLocation", "hdfs://namenode:8020/runs", Storage()).address
    'hdfs://namenode:8020/runs'
    """
    return (hdfs_files if url.startswith(SCHEME) else object_files)(option, url, storage)
