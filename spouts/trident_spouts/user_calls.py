"""Calls of a user's spout: errors get the function's file and line, and results are checked."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.callsite import site_of
from trident.base.copied_values import own_value
from trident.base.errors import SpoutContractError, TridentError, UserFunctionError
from trident.base.json_form import json_form
from trident.base.short_texts import raised, shorten, typed_brief
from trident.base.user_rows import all_rows
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata
from trident_spouts.rows import RowsLike, table_of
from trident_spouts.source_times import known_times


def call(spout: object, method: str, *arguments: object, **offered: object) -> Any:
    """Call a method of a user's spout and return its result; errors are raised as in `call_function`.

    The method gets those of the `offered` arguments for which it has parameters of these names. It gets copies of
    metadata: a failed batch begins from the same metadata again, so the method must not change the original.
    """
    function = getattr(spout, method)
    asked = {name: value for name, value in offered.items() if asks_for(function, name)}
    return call_function(f"spout {type(spout).__name__}", function, *map(own_value, arguments), **asked)


def asks_for(function: Callable[..., Any], name: str) -> bool:
    """Return whether a user's function has a parameter of this name."""
    try:
        return name in inspect.signature(function).parameters
    except ValueError:  # a builtin without a known signature
        return False


def call_function(caller: str, function: Callable[..., Any], *arguments: object, **named: object) -> Any:
    """Call a user's function and return its result.

    Raises UserFunctionError, with the function's file and line, if the function raises an error other than a
    TridentError. `caller` begins the message.
    """
    try:
        return function(*arguments, **named)
    except TridentError:
        raise
    except Exception as error:
        shown = ", ".join(map(_shown_argument, arguments))
        raise UserFunctionError(
            f"{caller}: {site_of(function)} {raised(error)}; it was called with ({shown})"
        ) from error


def emission_of(emitted: Any, schema: StructType, where: str) -> Emission | None:
    """Return the result of a user's emit method as an Emission; None if the result is None.

    Raises SpoutContractError if the rows do not fit `schema`, and UserFunctionError if the user's code raises an error
    while it makes the rows.
    """
    if emitted is None:
        return None
    if isinstance(emitted, ArrowEmission):
        times = known_times(emitted, where)
        return replace(emitted, table=table_of(emitted.table, schema, where), source_times=times)
    if hasattr(emitted, "dataframe") and hasattr(emitted, "arrow"):
        emission: Emission = emitted
        return emission
    return ArrowEmission(made_table(emitted, schema, where))


def made_table(rows: RowsLike, schema: StructType, where: str) -> pa.Table:
    """Return the rows that a user's function returned as a table of `schema`. Raises as `emission_of` does."""
    with _making(where):
        return table_of(rows, schema, where)


def all_of(rows: Iterable[Any], where: str) -> list[Any]:
    """Return everything that a user's iterable has. Raises UserFunctionError if the user's code raises an error."""
    with _making(where):
        return all_rows(rows)


@contextmanager
def _making(where: str) -> Iterator[None]:
    """Replace an error of the user's code that makes rows, such as a generator's, by one that names the place."""
    try:
        yield
    except TridentError:
        raise
    except Exception as error:
        raise UserFunctionError(f"{where}: its iterator {raised(error)}") from error


def pair_of(result: Any, where: str) -> tuple[Any, Metadata]:
    """Return the rows and the metadata that a user's function returned as a pair.

    Raises SpoutContractError if `result` is not a pair, or its metadata is not JSON.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise SpoutContractError(f"{where} returned {typed_brief(result)}; expected a pair (rows, metadata)")
    return result[0], json_of(result[1], f"{where}, metadata")


def foreign_metadata_error(name: str, metadata: object) -> SpoutContractError:
    """Return the error for metadata in the log that the spout `name` cannot have written."""
    shown = shorten(repr(metadata))
    return SpoutContractError(
        f"{name}: this spout cannot replay the batch {shown} of the log: another spout wrote it, or this spout with "
        f"another kind of source (a folder instead of a manifest). Start with the spout that wrote it; or give the "
        f"stream another name, with newStream(..., anew=True), which begins at the start of its source"
    )


def json_of(value: Any, where: str) -> Metadata:
    """Return a value in the form in which the log returns it.

    Raises SpoutContractError if `json_form` raises a ValueError.
    """
    try:
        return json_form(value, where)
    except ValueError as error:
        raise SpoutContractError(str(error)) from None


def _shown_argument(value: object) -> str:
    return shorten(repr(value)) if isinstance(value, bool | int | float | str | None) else typed_brief(value)
