"""Expressions over whole columns, by Arrow. What Arrow cannot compute in the same way is computed tuple by tuple.

A part that fails for some tuples is null there, and these tuples are marked. If the value is not needed, such as
behind the condition of a `when`, the mark is dropped. If a mark is left at the end, the function of one tuple is
called for the tuple, and raises the error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.spark_types import arrow_type
from trident.base.value_conversion import to_arrow, to_python
from trident.expressions.binding import Bound, BoundCall, BoundCase, BoundField, BoundLiteral
from trident.expressions.repeated import repeated
from trident.expressions.rules import RULES, Datum, ExpressionError
from trident.expressions.tuple_evaluation import value_function


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The values of a part, and the tuples for which it failed (None: none)."""

    values: Datum
    failed: pa.Array | None = None


def columns_of(parts: Sequence[Bound], inputs: Sequence[pa.Array], rows: int) -> list[pa.Array] | None:
    """Return the values of expressions for all tuples; None if one of them fails for a tuple."""
    made = [_made(part, inputs, rows) for part in parts]
    if any(each.failed is not None and pc.any(each.failed).as_py() for each in made):
        return None
    return [_whole(each.values, part, rows) for each, part in zip(made, parts, strict=True)]


def _whole(values: Datum, part: Bound, rows: int) -> pa.Array:
    whole = values if isinstance(values, pa.Array) else pa.repeat(values, rows)
    kind = arrow_type(part.kind)
    return whole if whole.type.equals(kind) else whole.cast(kind)


def _made(part: Bound, inputs: Sequence[pa.Array], rows: int) -> Evaluated:
    match part:
        case BoundField(at=at):
            return Evaluated(inputs[at])
        case BoundLiteral(value=value, kind=kind):
            return Evaluated(pa.scalar(value, arrow_type(kind)))
        case BoundCase():
            return _case(part, inputs, rows)
        case BoundCall(rule="coalesce"):
            return _coalesced(part, [_made(arg, inputs, rows) for arg in part.args], rows)
        case BoundCall(rule="&" | "|"):
            return _logical(part, [_made(arg, inputs, rows) for arg in part.args])
    return _call(part, [_made(arg, inputs, rows) for arg in part.args], rows)


def _call(part: BoundCall, args: list[Evaluated], rows: int) -> Evaluated:
    failed = None
    for arg in args:
        failed = _either(failed, arg.failed)
    values = _by_arrow(part, [arg.values for arg in args]) if failed is None else None
    if values is not None:
        return Evaluated(values)
    if failed is None and all(isinstance(arg.values, pa.Scalar) for arg in args):
        return _constant(part, [arg.values for arg in args], rows)
    shared = _by_values(part, [arg.values for arg in args]) if failed is None else None
    return shared or _by_rows(part, [arg.values for arg in args], failed, rows)


def _constant(part: BoundCall, values: list[Datum], rows: int) -> Evaluated:
    """Return the value of a call whose arguments are the same for all tuples."""
    made = _by_rows(part, values, None, 1)
    failed = None if made.failed is None else pa.repeat(made.failed[0], rows)
    return Evaluated(made.values[0], failed)


def _by_arrow(part: BoundCall, values: list[Datum]) -> Datum | None:
    columns = RULES[part.rule].columns
    if columns is None or not any(isinstance(each, pa.Array) for each in values):
        return None
    try:
        made = columns(part.typed, *values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a value of some tuple fails: the function finds which
        return None
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def _by_values(part: BoundCall, values: list[Datum]) -> Evaluated | None:
    """Compute a call of one column once for each distinct value; None for more columns, or if few values repeat."""
    columns = [at for at, each in enumerate(values) if isinstance(each, pa.Array)]
    few = repeated(values[columns[0]]) if len(columns) == 1 else None
    if few is None:
        return None
    made = _by_rows(
        part, [few.dictionary if at in columns else v for at, v in enumerate(values)], None, len(few.dictionary)
    )
    return Evaluated(made.values.take(few.indices), None if made.failed is None else made.failed.take(few.indices))


def _by_rows(part: BoundCall, values: list[Datum], failed: pa.Array | None, rows: int) -> Evaluated:
    function = value_function(part)
    lists = [to_python(v) if isinstance(v, pa.Array) else to_python(pa.repeat(v, rows)) for v in values]
    skipped = failed.to_pylist() if failed is not None else None
    made: list[Any] = []
    wrong: list[int] = []
    for row, each in enumerate(zip(*lists, strict=True) if lists else [()] * rows):
        if skipped is not None and skipped[row]:
            made.append(None)
            continue
        try:
            made.append(function(*each))
        except ExpressionError:
            made.append(None)
            wrong.append(row)
    if wrong:
        marks = [False] * rows
        for row in wrong:
            marks[row] = True
        failed = _either(failed, pa.array(marks, pa.bool_()))
    return Evaluated(to_arrow(made, arrow_type(part.kind)), failed)


def _logical(part: BoundCall, args: list[Evaluated]) -> Evaluated:
    left, right = args
    needed = right.failed
    if needed is not None:  # the right side counts only if the left side does not decide
        decided = pc.fill_null(left.values, part.rule == "&")
        needed = pc.and_(needed, decided if part.rule == "&" else pc.invert(decided))
    kleene = pc.and_kleene if part.rule == "&" else pc.or_kleene
    return Evaluated(kleene(left.values, right.values), _either(left.failed, needed))


def _coalesced(part: BoundCall, args: list[Evaluated], rows: int) -> Evaluated:
    failed, missing = None, pa.array([True] * rows, pa.bool_())
    for arg in args:
        if arg.failed is not None:
            failed = _either(failed, pc.and_(arg.failed, missing))
        missing = pc.and_(missing, pc.is_null(arg.values))
    if part.kind.typeName() in ("array", "map", "struct"):
        return _picked(part, args, failed, rows)
    return Evaluated(pc.coalesce(*[arg.values for arg in args]), failed)


def _picked(part: BoundCall, args: list[Evaluated], failed: pa.Array | None, rows: int) -> Evaluated:
    lists = [to_python(_whole(arg.values, bound, rows)) for arg, bound in zip(args, part.args, strict=True)]
    first = [next((value for value in values if value is not None), None) for values in zip(*lists, strict=True)]
    return Evaluated(to_arrow(first, arrow_type(part.kind)), failed)


def _case(part: BoundCase, inputs: Sequence[pa.Array], rows: int) -> Evaluated:
    result = _made(part.last, inputs, rows)
    for condition, value in reversed(part.branches):
        chosen, then = _made(condition, inputs, rows), _made(value, inputs, rows)
        taken = pc.fill_null(chosen.values, False)
        failed = _either(_and(then.failed, taken), _and(result.failed, pc.invert(taken)))
        result = Evaluated(pc.if_else(taken, then.values, result.values), _either(chosen.failed, failed))
    return result


def _and(marks: pa.Array | None, condition: Datum) -> pa.Array | None:
    return None if marks is None else pc.and_(marks, condition)


def _either(a: pa.Array | None, b: pa.Array | None) -> pa.Array | None:
    return b if a is None else a if b is None else pc.or_(a, b)
