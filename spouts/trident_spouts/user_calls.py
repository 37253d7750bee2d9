"""Calls of a user's spout. Its errors are wrapped with their place, and its results are checked."""

import math
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StructType

from trident.base.callsite import site_of
from trident.base.errors import SpoutContractError, TridentError, UserFunctionError
from trident.base.text import shorten, typed_brief
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata
from trident_spouts.rows import table_of


def call(spout: object, method: str, *arguments: object) -> Any:
    """Call a method of a user's spout, as `call_function` calls a function."""
    return call_function(f"spout {type(spout).__name__}", getattr(spout, method), *arguments)


def call_function(caller: str, function: Callable[..., Any], *arguments: object) -> Any:
    """Call a user's function and return its result. Raise its error as a UserFunctionError with the function's place.

    `caller` begins the error's message.
    """
    try:
        return function(*arguments)
    except TridentError:
        raise
    except Exception as error:
        shown = ", ".join(map(_shown_argument, arguments))
        raise UserFunctionError(
            f"{caller}: {site_of(function)} raised {type(error).__name__}: {error}; it was called with ({shown})"
        ) from error


def emission_of(emitted: Any, schema: StructType, where: str) -> Emission | None:
    """Return the result of a user's emit method as an Emission; None if it emitted nothing."""
    if emitted is None:
        return None
    if isinstance(emitted, ArrowEmission):
        return ArrowEmission(table_of(emitted.table, schema, where), emitted.after)
    if hasattr(emitted, "dataframe") and hasattr(emitted, "arrow"):
        emission: Emission = emitted
        return emission
    return ArrowEmission(table_of(emitted, schema, where))


def pair_of(result: Any, where: str) -> tuple[Any, Metadata]:
    """Return the rows and the metadata of the pair that a partitioned spout returned."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise SpoutContractError(f"{where} returned {typed_brief(result)}; expected a pair (rows, metadata)")
    return result[0], json_of(result[1], f"{where}, metadata")


def foreign_metadata_error(name: str, metadata: object) -> SpoutContractError:
    """Return the error for metadata in the log that this spout cannot have written."""
    shown = shorten(repr(metadata))
    return SpoutContractError(f"{name}: {shown} names none of its batches; the log belongs to another spout")


def json_of(value: Any, where: str) -> Metadata:
    """Return the value as the log will give it back: JSON, with lists for tuples.

    >>> json_of({"offset": (1, 2)}, "here")
    {'offset': [1, 2]}
    >>> json_of({"at": {5}}, "here")
    Traceback (most recent call last):
    trident.base.errors.SpoutContractError: here['at']: expected JSON, which the log can keep, got {5} (set)
    """
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [json_of(item, f"{where}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: json_of(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise SpoutContractError(f"{where}: expected JSON, which the log can keep, got {typed_brief(value)}")


def _shown_argument(value: object) -> str:
    return shorten(repr(value)) if isinstance(value, bool | int | float | str | None) else typed_brief(value)
