"""Folders that a user names."""

import re
from pathlib import Path

from trident.base.errors import TopologyError


def local_path(option: str, given: str | Path, elsewhere: str = "{scheme}: is no file system of this machine") -> Path:
    """The folder that an option names, independent of where the program stands. `elsewhere` says why no other file
    system will do.

    >>> local_path("path", "file:///data/words").as_posix()
    '/data/words'
    """
    text = str(given)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", text)
    if scheme:
        raise TopologyError(f"{option}={text!r}: {elsewhere.format(scheme=scheme[1])}")
    path = Path(text).expanduser().absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise TopologyError(f"{option}={text!r}: {there} is a file; name a folder")
    return path
