"""Records of the drivers that took a file store, one for each lease: ``<folder>/00000000000000000003.json``.

A record is created, never replaced, and the newest record counts. So two drivers that share a file store, as drivers of
a copied log may, cannot both take it: one of them finds the other's record.
"""

import contextlib

from trident.base.errors import FilesError
from trident.files.store import FileStore


def newest_epoch(place: FileStore, folder: str) -> int | None:
    """Return the epoch of the newest record; None if there is no record."""
    return max(_epochs(place, folder), default=None)


def newest_record(place: FileStore, folder: str) -> tuple[str, bytes] | None:
    """Return the name and the content of the newest record; None if there is no record."""
    while (epoch := newest_epoch(place, folder)) is not None:
        name = _name(folder, epoch)
        with contextlib.suppress(FileNotFoundError):  # a later driver has deleted it: search again
            return name, bytes(place.read(name))
    return None


def create_record(place: FileStore, folder: str, epoch: int, content: bytes) -> bool:
    """Create the record of a lease, and delete earlier records.

    Return False if another driver has created the record of this epoch.
    """
    if not place.create(_name(folder, epoch), content):
        return False
    earlier = [_name(folder, other) for other in _epochs(place, folder) if other < epoch]
    with contextlib.suppress(FilesError, OSError):  # older records that remain are useless, but harmless
        place.delete(earlier)
    return True


def _epochs(place: FileStore, folder: str) -> list[int]:
    names = [file.name.rpartition("/")[2].removesuffix(".json") for file in place.files(folder)]
    return [int(name) for name in names if name.isdigit()]


def _name(folder: str, epoch: int) -> str:
    return f"{folder}/{epoch:020}.json"
