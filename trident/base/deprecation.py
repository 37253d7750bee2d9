"""Deprecated names: each works for two further minor versions, with a warning that names its replacement.

docs/compatibility.md makes this promise. `tests/compatibility` compares the public names with those of the former
version.
"""

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def minor_of(version: str) -> str:
    """Return the minor version of a version.

    >>> minor_of("0.3.1")
    '0.3'
    """
    return ".".join(version.split(".")[:2])


def farewell(name: str, instead: str, since: str) -> str:
    """Return a deprecation warning for `name`: `instead` is the replacement, `since` the first version that warns.

    >>> farewell("trident.Total", "trident.Sum", "0.3")
    'trident.Total is deprecated since version 0.3, and version 0.5 removes it: use trident.Sum'
    """
    major, minor = since.split(".")
    return f"{name} is deprecated since version {since}, and version {major}.{int(minor) + 2} removes it: use {instead}"


def warn_deprecated(name: str, instead: str, since: str, depth: int = 1) -> None:
    """Warn the caller of a function that it uses a deprecated name, such as an argument.

    `depth` is the number of calls between this function and the user's line, without this call.
    """
    warnings.warn(farewell(name, instead, since), DeprecationWarning, stacklevel=depth + 2)


def deprecated(instead: str, since: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator for a deprecated function or method. Type checkers do not see the difference.

    >>> @deprecated("new_total", since="0.3")
    ... def total(numbers):
    ...     return sum(numbers)
    >>> total.__deprecated__
    'total is deprecated since version 0.3, and version 0.5 removes it: use new_total'
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def called(*args: _P.args, **keywords: _P.kwargs) -> _R:
            warn_deprecated(function.__name__, instead, since)
            return function(*args, **keywords)

        called.__deprecated__ = farewell(function.__name__, instead, since)  # type: ignore[attr-defined]
        return called

    return decorate
