"""Calls into a user's spout: what it raises and what it gives, checked where it happens."""

import math
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StructType

from trident.base.callsite import site_of
from trident.base.errors import SpoutContractError, TridentError, UserFunctionError
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata
from trident_spouts.rows import table_of


def call(owner: object, method: str, *arguments: object) -> Any:
    """Return the method's result. What it raises becomes a UserFunctionError that says where the method is defined."""
    return run(f"spout {type(owner).__name__}", getattr(owner, method), *arguments)


def run(who: str, function: Callable[..., Any], *arguments: object) -> Any:
    """Return the function's result. What it raises becomes a UserFunctionError that says where it is defined."""
    try:
        return function(*arguments)
    except TridentError:
        raise
    except Exception as error:
        shown = ", ".join(map(_shown, arguments))
        raise UserFunctionError(
            f"{who}: {site_of(function)} raised {type(error).__name__}: {error}; it was called with ({shown})"
        ) from error


def emission_of(emitted: Any, schema: StructType, where: str) -> Emission | None:
    """Return what a spout emitted, as an Emission; None where it emitted nothing."""
    if emitted is None:
        return None
    if isinstance(emitted, ArrowEmission):
        return ArrowEmission(table_of(emitted.table, schema, where), emitted.after)
    if hasattr(emitted, "dataframe") and hasattr(emitted, "arrow"):
        given: Emission = emitted
        return given
    return ArrowEmission(table_of(emitted, schema, where))


def pair_of(result: Any, where: str) -> tuple[Any, Metadata]:
    """Return rows and metadata from the pair that a partitioned spout gave."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise SpoutContractError(f"{where} returned {_shown(result)}; it must return a pair (rows, metadata)")
    return result[0], json_of(result[1], f"{where}, metadata")


def foreign(name: str, metadata: object) -> SpoutContractError:
    """Return the error for metadata in the log that is not what this spout gave it."""
    return SpoutContractError(
        f"{name}: the log's metadata is none of its own ({metadata!r}); was it another spout before?"
    )


def json_of(value: Any, where: str) -> Metadata:
    """Return the value as it will come back from the log: JSON, tuples as lists.

    >>> json_of({"offset": (1, 2)}, "here")
    {'offset': [1, 2]}
    >>> json_of({"at": {5}}, "here")
    Traceback (most recent call last):
    trident.base.errors.SpoutContractError: here['at'] is {5} (set), which the log cannot keep as JSON
    """
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [json_of(item, f"{where}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: json_of(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise SpoutContractError(f"{where} is {_shown(value)}, which the log cannot keep as JSON")


def _shown(value: object) -> str:
    text = repr(value)
    short = text if len(text) <= 80 else f"{text[:77]}..."
    return (
        short if isinstance(value, bool | int | float | str) or value is None else f"{short} ({type(value).__name__})"
    )
