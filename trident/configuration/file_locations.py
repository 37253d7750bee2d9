"""The locations of a run's files: the folder of a checkpointLocation, and the file store of a filesLocation."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trident.base.errors import TopologyError
from trident.base.paths import local_path

if TYPE_CHECKING:
    from trident.files.store import FileStore


def folder(checkpointLocation: str | Path) -> Path:
    """Return the absolute folder that a checkpointLocation names.

    >>> folder("file:///data/checkpoint").as_posix()
    '/data/checkpoint'
    """
    return local_path(
        "checkpointLocation",
        checkpointLocation,
        "the log needs locks and fsync, which {scheme}: does not have. Give a folder on a disk of the driver; for a "
        "driver that moves between machines, log=RedisLog(...), with states in Redis or a filesLocation",
    )


def files_place(filesLocation: str | None, filesStorage: Mapping[str, str] | None) -> "FileStore | None":
    """Return the store of all topologies' files that a URL names; None if the files are under the checkpointLocation.

    Raises TopologyError if the location or an option of the store is invalid.
    """
    if filesLocation is None:
        if filesStorage:
            raise TopologyError("filesStorage= needs filesLocation=, the store to which its options apply")
        return None
    from trident.files.object_options import Storage
    from trident.files.urls import files_by_url

    if not isinstance(filesLocation, str):
        raise TopologyError(
            f"filesLocation={filesLocation!r}: expected a URL such as s3://bucket/prefix or "
            f"hdfs://namenode:8020/folder, as a string"
        )
    return files_by_url("filesLocation", filesLocation, Storage.of(filesStorage, "filesStorage"))


def check_storage(option: str, value: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of an object store.

    Raises TopologyError if an option is unknown, or its value is a secret itself.
    """
    from trident.files.object_options import Storage

    Storage.of(value, option)
    return value
