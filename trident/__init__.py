"""Exactly-once, queryable state for PySpark, in Trident's fluent vocabulary.

Names are imported when they are first used: ``import trident`` is quick, starts no JVM and opens nothing. The stub
``__init__.pyi`` lists them.
"""

import importlib

from trident.base.lazy_names import lazy_names


def _hint(name: str) -> str:
    """Return the replacement for an unknown name: the module that has the name, or a similar name."""
    from trident.base.names import by_any_case, did_you_mean
    from trident.stream import names_elsewhere

    modules = [
        part for part in ("functions", "spouts", "state") if name in importlib.import_module(f"trident.{part}").__all__
    ]
    if modules:
        return f"; write: from trident.{modules[0]} import {name}"
    foreign = by_any_case(name, names_elsewhere.MODULE)
    return did_you_mean(name, __all__) if foreign is None else f"; use {names_elsewhere.MODULE[foreign]}"


__getattr__, __dir__, __all__ = lazy_names(__name__, _hint, ("functions", "spouts", "state", "testing"))
