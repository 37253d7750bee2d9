"""The rules of stored values: how a batch's values combine with them, and which values a read as of a txid returns.

The rules are plain functions over whole columns. A null among stored values means that nothing is stored, here and in
reads and scans. ``docs/guide/state.md`` states the rules, and explains why a value that a batch has written already may
stay unchanged when the batch is applied again, in opaque and in transactional states.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.callsite import site_of
from trident.base.discard_advice import reset_with
from trident.base.errors import (
    SnapshotMovedError,
    StateRecoveringError,
    StateValueError,
    TridentError,
    UserFunctionError,
)
from trident.base.short_texts import raised
from trident.base.spark_order import exceeds
from trident.base.value_conversion import NotAccepted, to_arrow, to_python, type_name
from trident_state.binary_arrays import one_chunk, replace_rows, valid_rows
from trident_state.state_shape import Combine

TOO_LONG_HINT = (
    "The batch stays in the log: drop this state (with dropState, it starts empty after the batch), or discard log and "
    f"all states ({reset_with()}); then filter such values out, or divide them among several keys"
)
"""The advice in an error for a batch that can never be applied because a value is too long for its store."""

Merge = Callable[[pa.Array, pa.Array], pa.Array]


def overflow_hint(combine: Combine) -> str:
    """Return the advice for a batch that can never be applied because a combined value does not fit its type."""
    wider = combine.wider or "declare a wider type for the aggregator's output, or filter such values out"
    return (
        f"The batch stays in the log: drop this state (with dropState, it starts empty after the batch), or discard "
        f"log and all states ({reset_with()}); then {wider}"
    )


def combined(combine: Combine, stored: pa.Array, deltas: pa.Array, where: str = "a state") -> pa.Array:
    """Return the values after a batch, row by row: ``combine(stored, delta)``, or the delta if nothing is stored.

    If `combine` has a native form for the type of the values, Arrow computes it, and a null delta changes nothing, as
    in SQL. Otherwise the Python function is called with Python objects like those of any function of a topology, which
    are created for each call.

    Raises
    ------
    StateValueError
        The result does not fit the state's type: a sum out of range, or a function that returned something else.
    UserFunctionError
        The function raised; the message names the aggregator, its file and line, and the types of the two values.

    >>> count = Combine("Count", lambda a, b: a + b, "sum")
    >>> combined(count, pa.array([3, None]), pa.array([2, 1])).to_pylist()
    [5, 1]
    """
    if combine.parts is not None:
        return _by_parts(combine, combine.parts, stored, deltas, where)
    native = _native(combine, deltas.type)
    if native is None:
        values = None if combine.columns is None else _by_columns(combine, stored, deltas)
        return _by_function(combine, stored, deltas, where) if values is None else values
    try:
        return native(stored, deltas)
    except pa.ArrowInvalid:
        row = _first_failing(native, stored, deltas)
        raise _overflow(combine, stored[row].as_py(), deltas[row].as_py(), deltas.type, where) from None


UNSURE = "if this was a write, it may have succeeded; a run repeats it"
"""The end of the error message for a request with an unknown outcome."""


def check_reached(where: str, marker: int | None, asOf: int) -> None:
    """Raise StateRecoveringError if the state has not reached txid `asOf` yet."""
    if marker is None:
        raise StateRecoveringError(
            f"{where} is missing in its store or was emptied: a read as of txid {asOf} has to wait until the "
            f"driver has written it again from its log, which it does before its next batch or at its next start"
        )
    if marker < asOf:
        raise StateRecoveringError(f"{where} is at txid {marker}, so a read as of {asOf} has to wait")


def check_not_beyond(where: str, marker: int | None, asOf: int) -> None:
    """Raise SnapshotMovedError if the state is more than one batch past txid `asOf`.

    For each key a state keeps the value and the value before it, so it can be read only as of its marker and as of the
    txid before the marker.
    """
    if marker is not None and marker > asOf + 1:
        raise SnapshotMovedError(f"{where} cannot be read as of txid {asOf}: it is already at {marker}")


def as_of(
    asOf: int, txids: npt.NDArray[np.int64], values: pa.Array, prevs: pa.Array, where: str = "a state"
) -> pa.Array:
    """Return the values as of batch `asOf`.

    A key last changed by batch `asOf` or an earlier batch gets its value; a key changed by the next batch gets its
    prev. In the arguments, a key for which nothing is stored has a null, and a txid below that of every batch.

    Raises
    ------
    SnapshotMovedError
        A batch later than `asOf` + 1 has changed a key.

    >>> as_of(5, np.array([4, 6]), pa.array([10, 20]), pa.array([1, 2])).to_pylist()
    [10, 2]
    """
    _check_not_changed(where, int(txids.max(initial=asOf)), asOf)
    late = txids > asOf
    return pc.if_else(pa.array(late), prevs, values) if np.count_nonzero(late) else values


def few_as_of(asOf: int, txids: list[int], values: list[Any], prevs: list[Any], where: str = "a state") -> list[Any]:
    """Return the values of a few keys as of batch `asOf`, by the rule of `as_of`.

    >>> few_as_of(5, [4, 6], [10, 20], [1, 2])
    [10, 2]
    """
    _check_not_changed(where, max(txids, default=asOf), asOf)
    return [prev if txid > asOf else value for txid, value, prev in zip(txids, values, prevs, strict=True)]


def _check_not_changed(where: str, last: int, asOf: int) -> None:
    """Raise SnapshotMovedError if `last`, the last txid of some keys, is later than that of the batch after `asOf`."""
    if last > asOf + 1:
        raise SnapshotMovedError(f"{where} cannot be read as of txid {asOf}: txid {last} has already changed a key")


def _native(combine: Combine, kind: pa.DataType) -> Merge | None:
    nested = kinds.is_nested(kind) or kinds.is_null(kind)
    if combine.native == "put":
        return _put
    if combine.native == "sum" and kinds.is_decimal(kind):
        return _decimal_sum
    if combine.native == "sum" and (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_duration(kind)):
        return _sum
    if combine.native == "min" and not nested:
        return lambda stored, deltas: _chosen(exceeds(stored, deltas), stored, deltas)
    if combine.native == "max" and not nested:
        return lambda stored, deltas: _chosen(exceeds(deltas, stored), stored, deltas)
    return None


def _put(stored: pa.Array, deltas: pa.Array) -> pa.Array:
    return deltas


def _sum(stored: pa.Array, deltas: pa.Array) -> pa.Array:
    total = pc.add_checked(stored, deltas)
    return pc.coalesce(total, stored, deltas) if total.null_count else total


def _decimal_sum(stored: pa.Array, deltas: pa.Array) -> pa.Array:
    kind = deltas.type
    wide = pa.decimal256(kind.precision, kind.scale)
    return pc.coalesce(pc.add_checked(stored.cast(wide), deltas.cast(wide)).cast(kind), stored, deltas)


def _chosen(deltas_win: pa.Array, stored: pa.Array, deltas: pa.Array) -> pa.Array:
    return pc.coalesce(pc.if_else(deltas_win, deltas, stored), stored, deltas)


def _first_failing(merge: Merge, stored: pa.Array, deltas: pa.Array) -> int:
    """Return the number of the first row on which `merge` fails. It is found by bisection."""
    low, high = 0, len(deltas)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            merge(stored[low:middle], deltas[low:middle])
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _by_function(combine: Combine, stored: pa.Array, deltas: pa.Array, where: str) -> pa.Array:
    function, results = combine.function, list[Any]()
    before, after = to_python(stored), to_python(deltas)
    try:
        for a, b in zip(before, after, strict=True):
            results.append(b if a is None else function(a, b))
    except TridentError:  # the wrapper of the user's function has already named its step, file and line
        raise
    except Exception as error:
        a, b = before[len(results)], after[len(results)]
        raise UserFunctionError(
            f"{where}: combine of {combine.name}, {site_of(function)}, {raised(error)}; "
            f"it was called with the stored {_describe(a)} and the batch's {_describe(b)}; "
            f"nothing of the batch was applied"
        ) from error
    try:
        return one_chunk(to_arrow(results, deltas.type))
    except NotAccepted as error:
        if combine.wider:  # a built-in average, whose combine returns the declared type unless the sum overflows it
            raise _overflow(combine, before[error.row], after[error.row], deltas.type, where) from None
        raise StateValueError(
            f"{where}: combine of {combine.name}, {site_of(function)}, returned {_describe(error.value)}, but the "
            f"state has values of type {type_name(deltas.type)}{f' ({error.why})' if error.why else ''}; "
            f"nothing of the batch was applied"
        ) from error


def _overflow(combine: Combine, stored: Any, delta: Any, kind: pa.DataType, where: str) -> StateValueError:
    return StateValueError(
        f"{where}: {combine.name} of the stored {stored!r} and the batch's {delta!r} does not fit its type "
        f"{type_name(kind)}; nothing of the batch was applied. {overflow_hint(combine)}"
    )


def _by_parts(combine: Combine, parts: tuple[Combine, ...], stored: pa.Array, deltas: pa.Array, where: str) -> pa.Array:
    """Combine structs field by field. If no struct is stored, all fields are null, so the result is the delta."""
    kind, columns = deltas.type, zip(parts, stored.flatten(), deltas.flatten(), strict=True)
    fields = [
        combined(part, before, after, f"{where}: field {kind.field(at).name!r}")
        for at, (part, before, after) in enumerate(columns)
    ]
    zeros = reduce(pc.and_, (pc.equal(field, 0).fill_null(True) for field in fields)) if combine.zeros_leave else None
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=zeros)


def _by_columns(combine: Combine, stored: pa.Array, deltas: pa.Array) -> pa.Array | None:
    """Combine whole columns with `combine.columns`, which gets only rows with values on both sides.

    Return None if `combine.columns` does.
    """
    assert combine.columns is not None
    rows = np.flatnonzero(valid_rows(stored) & valid_rows(deltas))
    either = deltas if not deltas.null_count else pc.if_else(deltas.is_valid(), deltas, stored)
    if not len(rows):
        return either
    indices = pa.array(rows)
    whole = len(rows) == len(deltas)
    values = combine.columns(stored, deltas) if whole else combine.columns(stored.take(indices), deltas.take(indices))
    return values if whole or values is None else replace_rows(either, rows, values)


def _describe(value: object) -> str:
    """Return the type of a value as text, with the value if it is short: errors must not contain large data."""
    shown = repr(value)
    return f"{type(value).__name__} {shown}" if len(shown) <= 80 else type(value).__name__
