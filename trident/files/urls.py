"""The URL of a file store: an object store, or HDFS."""

from trident.base.errors import TopologyError
from trident.files.hdfs import SCHEME, hdfs_files, without_user
from trident.files.object_options import Storage
from trident.files.objects import is_object_url, object_files
from trident.files.store import FileStore

OTHER_NAMES = ("viewfs://", "webhdfs://", "swebhdfs://")
"""URLs by which other programs name folders of HDFS."""


def is_files_url(text: str) -> bool:
    """Return whether a text is meant as the URL of a file store, and not as a path on a disk."""
    return text.startswith((SCHEME, *OTHER_NAMES)) or is_object_url(text)


def files_by_url(option: str, url: str, storage: Storage) -> FileStore:
    """Return the file store of a URL, which is the value of `option`. Raises TopologyError if the URL is invalid.

    >>> files_by_url("filesLocation", "hdfs://namenode:8020/runs", Storage()).address
    'hdfs://namenode:8020/runs'
    """
    if url.startswith(OTHER_NAMES):
        raise TopologyError(
            f"{option}={without_user(url)!r}: {url.partition(':')[0]}:// is not supported. Write the folder's "
            f"hdfs:// URL, such as hdfs://namenode:8020/folder"
        )
    return (hdfs_files if url.startswith(SCHEME) else object_files)(option, url, storage)
