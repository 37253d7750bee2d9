"""Paths of folders that a user names."""

import re
from os import PathLike, fspath
from pathlib import Path

from trident.base.errors import TopologyError
from trident.base.short_texts import typed_brief


def local_path(
    option: str, given: str | PathLike[str], refusal: str = "{scheme}: is not a file system of this machine"
) -> Path:
    """Return the absolute path of the folder that `given`, the value of `option`, names.

    Raises TopologyError if the path is on a file system of another kind (`refusal` says why), names a file, is empty,
    or is not a string. An empty path, as of a variable that is not set, would mean the working directory.

    >>> local_path("path", "file:///data/words").as_posix()
    '/data/words'
    """
    text = fspath(given) if isinstance(given, str | PathLike) else given
    if not isinstance(text, str) or not text.strip():
        raise TopologyError(
            f"{option}={typed_brief(given)}: expected the path of a folder; for the working directory, '.'"
        )
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", text)
    if scheme:
        raise TopologyError(f"{option}={text!r}: {refusal.format(scheme=scheme[1])}")
    path = Path(text).expanduser().absolute()
    existing = next(ancestor for ancestor in (path, *path.parents) if ancestor.exists())
    if not existing.is_dir():
        raise TopologyError(f"{option}={text!r}: {existing} is a file; name a folder")
    return path
