"""Secrets that a program names and does not hold: ``env:NAME`` and ``file:path``."""

import os
from pathlib import Path

from trident.base.errors import TopologyError


def read_secret(name: str, given: str) -> str:
    """Return the secret that ``env:NAME`` or ``file:path`` holds, or `given` itself if it is neither.

    Raises TopologyError, which calls the argument `name`, if there is no such variable or file.
    """
    try:
        if given.startswith("env:"):
            return os.environ[given.removeprefix("env:")]
        if given.startswith("file:"):
            return Path(given.removeprefix("file:")).read_text(encoding="utf-8").strip()
    except KeyError:
        raise TopologyError(f"{name}={given!r}: there is no such environment variable") from None
    except OSError as error:
        raise TopologyError(f"{name}={given!r}: {error.strerror or error}") from None
    return given
