"""Modules that import their names at the first use (PEP 562). The stub beside a module lists its names."""

import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from trident.base.missing_names import missing_name

_LISTED = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)
_FORMER = re.compile(r"^from (\S+) import (\w+) as (\w+)  # since (\d+\.\d+)$", re.MULTILINE)
"""A deprecated name, with its replacement and the version that deprecated it (docs/compatibility.md)."""


def lazy_names(
    module: str, hint: Callable[[str], str], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a module.

    The module's stub lists each public name as ``from home import name as name``; type checkers read the same list.
    A name that was renamed is listed as ``from home import New as Old  # since 0.3``; its use warns. `submodules` are
    imported when they are first used, too. `hint` returns a replacement for an unknown name.
    """
    itself: Any = sys.modules[module]
    stub = f"{itself.__file__.removesuffix('.py')}.pyi"
    listed = itself.__spec__.loader.get_data(stub).decode()  # the loader also reads a stub in a zip file
    homes = {name: home for home, name in _LISTED.findall(listed)}
    former = {name: (home, present, since) for home, present, name, since in _FORMER.findall(listed)}

    def attribute(name: str) -> object:
        if name in submodules or homes.get(name) == module:
            return import_module(f"{module}.{name}")
        if name in former:
            return _former(module, name, *former[name])
        if name not in homes:
            raise missing_name(module, name, lambda: hint(name), sys._getframe(1))  # noqa: SLF001
        value = getattr(import_module(homes[name]), name)
        setattr(itself, name, value)  # the next look-up finds this attribute
        return value

    def names() -> list[str]:
        return sorted({*homes, *submodules})

    return attribute, names, [name for name in sorted(homes) if not name.startswith("_")]


def _former(module: str, name: str, home: str, present: str, since: str) -> object:
    """Return the object of a deprecated name, and warn the line that uses the name."""
    from trident.base.deprecation import warn_deprecated

    warn_deprecated(f"{module}.{name}", f"{module}.{present}", since, depth=2)
    return getattr(import_module(home), present)
