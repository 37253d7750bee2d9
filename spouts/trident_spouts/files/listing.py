"""The listing of the files of a FileSpout, in the stable order in which the spout reads them."""

import os
from collections.abc import Callable, Iterator
from itertools import islice

from trident.base.errors import MalformedInputError, SourceUnreadableError
from trident_spouts.files.compression import UNREADABLE
from trident_spouts.files.storage import FileStorage, ListedFile

MOST_LISTED = 3_000
"""The most unread files that one listing returns, if files are listed in the order of their names."""


def list_files(
    place: FileStorage,
    by_name: bool = False,
    after: str = "",
    most: int | None = None,
    known: Callable[[str], bool] = lambda name: False,
) -> list[ListedFile]:
    """Return the files that exist now, in the order in which they are read.

    A file with several hard links is listed once, under a name for which `known` returns True, if it has such a name.

    Files are read in the order of their modification times, or with `by_name` of their names. If the place lists names
    in order, the listing begins after the name `after`, and ends after `most` files. Raises SourceUnreadableError if
    the files cannot be listed.
    """
    order = _name_of if by_name else None
    files = sorted(islice(_list(place, after=after), most if by_name and place.sorted else None), key=order)
    once = {(file.device, file.inode or file.name): file for file in reversed(files)}
    if len(once) == len(files):
        return files
    once |= {(file.device, file.inode or file.name): file for file in reversed(files) if known(file.name)}
    return sorted(once.values(), key=order)


def _name_of(file: ListedFile) -> str:
    return file.name


def hidden_file(place: FileStorage) -> str | None:
    """Return the name of a hidden file that the listing skips; None if there is no such file."""
    return next((file.name for file in _list(place, hidden=True)), None)


def nested_file(place: FileStorage) -> str | None:
    """Return the name of a file in a subfolder, if `place` is a folder; None if there is no such file."""
    if place.pattern:
        return None
    return next((file.name for file in place.deep().files(False, "") if "/" in file.name), None)


def _list(place: FileStorage, hidden: bool = False, after: str = "") -> Iterator[ListedFile]:
    try:
        yield from place.files(hidden, after)
    except SourceUnreadableError:
        raise
    except OSError as error:
        raise SourceUnreadableError(f"FileSpout: cannot list {place}: {error.strerror or error}") from error


def check_readable(files: list[ListedFile], place: FileStorage) -> None:
    """Raise MalformedInputError if a file has the suffix of a compression that cannot be read."""
    for file in files:
        if file.name.lower().endswith(UNREADABLE):
            raise MalformedInputError(
                f"FileSpout: {place.path(file.name)} has an unsupported compression; expected plain text, .gz, .bz2 "
                f"or .zst: compress it again, or select the other files with a glob such as '*.txt'"
            )


def is_hidden(name: str) -> bool:
    """Return whether a file is hidden by its name, or by the name of a folder above it.

    Writers give such names to unfinished files.

    The rules are Spark's. They also hold for the names of all folders below the root, because a Spark job keeps its
    unfinished files under ``_temporary``.
    """
    return any(map(_is_hidden, name.split(os.sep))) if os.sep in name else _is_hidden(name)


def _is_hidden(part: str) -> bool:
    return part[:1] == "." or (part[:1] == "_" and "=" not in part) or part.endswith("._COPYING_")


def nested_hint(place: FileStorage) -> str:
    """Return a hint about files in subfolders, which are read only with a glob; "" if there are none."""
    name = nested_file(place)
    if name is None:
        return ""
    return (
        f": its files are in subfolders, such as {name}; read these with a glob: {place}/**/*.parquet (a folder name "
        f"such as day=1 becomes a field with Folders(path, 'day int'))"
    )
