"""Secrets that a program names but does not contain: ``env:NAME`` and ``file:path``."""

import os
from collections.abc import Callable
from pathlib import Path

from trident_client.errors import TopologyError

SOURCES = ("env:", "file:")
"""The beginnings of a text that names the place of a secret: an environment variable, or a file."""


def read_secret(name: str, given: str, error: Callable[[str], Exception] = TopologyError) -> str:
    """Return the content of ``env:NAME`` or ``file:path``, without space around it; `given` itself if it is neither.

    Raises ``error(message)`` if there is no such variable or file. The message names the argument `name`, and never
    shows the secret.

    >>> read_secret("password", "env:NOT_SET")
    Traceback (most recent call last):
    trident_client.errors.TopologyError: password='env:NOT_SET': the environment variable NOT_SET is not set
    """
    kind, _, place = given.partition(":")
    if not given.startswith(SOURCES):
        return given
    if kind == "env":
        if place not in os.environ:
            raise error(f"{name}={given!r}: the environment variable {place} is not set")
        return os.environ[place].strip()
    return read_secret_file(name, place, given, error).strip()


def read_secret_file(name: str, path: str, given: str, error: Callable[[str], Exception] = TopologyError) -> str:
    """Return the content of a file. Raises ``error(message)`` if the file cannot be read as text."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is not text"
        raise error(f"{name}={given!r}: the file cannot be read ({reason})") from None
