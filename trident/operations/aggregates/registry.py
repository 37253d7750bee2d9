"""All built-in aggregators by name, for opening states without their program and for hints in errors."""

import inspect
import pkgutil
from functools import cache
from importlib import import_module

from trident.operations import aggregates
from trident.operations.aggregates.base import BuiltinAggregator

_FOREIGN = {
    "countif": "Count(where=col('n') > 0)",
    "avg": "Average()",
    "mean": "Average()",
    "topk": "TopK(3)",
    "argmax": "MaxBy('value', 'by')",
    "argmin": "MinBy('value', 'by')",
    "maxby": "MaxBy('value', 'by')",
    "minby": "MinBy('value', 'by')",
    "std": "StdDev()",
    "stddevsamp": "StdDev()",
    "var": "Variance()",
    "varsamp": "Variance()",
    "approxcountdistinct": "CountDistinct()",
    "countdistinct": "CountDistinct(exact=True)",
    "percentile": "Median()",
    "percentileapprox": "Quantiles(0.5)",
    "quantiles": "Quantiles(0.5)",
}
"""How to write an aggregator that Python, Spark or SQL calls by another name, or that needs arguments. Names have no
underscores."""


_BASE = "Aggregator"
"""The suffix of the names of base classes."""


@cache
def builtin_classes() -> tuple[type[BuiltinAggregator], ...]:
    """Return the classes of all built-in aggregators, in the order of their names."""
    modules = [
        import_module(f"{aggregates.__name__}.{each.name}") for each in pkgutil.iter_modules(aggregates.__path__)
    ]
    classes = {each for module in modules for _, each in inspect.getmembers(module, inspect.isclass)}
    ours = [each for each in classes if issubclass(each, BuiltinAggregator) and not each.__name__.endswith(_BASE)]
    return tuple(sorted(ours, key=lambda each: each.__name__))


def known_by_name() -> tuple[BuiltinAggregator, ...]:
    """Return an instance of each class whose instances all combine and present in the same way."""
    return tuple(each() for each in builtin_classes() if each.known_by_name)


def called_like(name: str) -> str | None:
    """Return the call of the built-in aggregator that corresponds to a Python or Spark function; None if there is none.

    >>> called_like("sum"), called_like("avg"), called_like("product")
    ('Sum()', 'Average()', None)
    """
    return _by_foreign_name().get(name.replace("_", "").lower())


@cache
def _by_foreign_name() -> dict[str, str]:
    bare = {each.__name__.lower(): f"{each.__name__}()" for each in builtin_classes() if _takes_nothing(each)}
    return bare | _FOREIGN


def _takes_nothing(kind: type) -> bool:
    """Return whether the class can be called without arguments."""
    parameters = inspect.signature(kind).parameters.values()
    return all(each.default is not each.empty for each in parameters)
