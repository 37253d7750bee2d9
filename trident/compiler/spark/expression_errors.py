"""Errors of expressions and sums that fail while Spark computes them: with the part that failed, and its step.

Spark says which part of a SQL text failed, or which line of Python made a Column, but knows no steps. The step is the
one whose expression contains that part; if that is not clear, all steps with expressions are named.
"""

import re
from collections.abc import Iterable

from trident.base.callsite import CallSite
from trident.base.errors import UserFunctionError
from trident.base.verb_call import is_ours
from trident.compiler.spark.native_operations import where_of
from trident.operations.aggregators import Aggregation
from trident.operations.functions import Call, Operation
from trident.operations.sum_overflow import BEYOND, beyond_type
from trident.plan.nodes import Aggregate, Node, PersistentAggregate, WindowPanes

_SQL = re.compile(r"\s*== SQL[^\n]*==\n(.*?)(?:\n\s*\n|\n\tat |\Z)", re.DOTALL)
_CALLED = re.compile(r'\s*== DataFrame ==\n("[^"\n]*") was called from\n([^\n]*?):(\d+)')
_OF_DECIMALS = "Overflow in sum of decimals"
_NAMED = 5
"""The number of steps that a message names at most."""


def expression_error(said: str, context: str, nodes: Iterable[Node], cause: BaseException) -> UserFunctionError:
    """Return the error for an expression of these nodes. `said` is Spark's message, `context` the text after it."""
    said = said.rstrip("; ")
    native = [(node, operation) for node in nodes if (operation := _native(node)) is not None]
    part, call = _part(context), _CALLED.match(context)
    where = ""
    if part:
        native, where = _with_part(native, part)
    elif call:
        native, where = _with_call(native, CallSite(call[1], call[2], int(call[3])))
    steps = [where_of(node, operation) for node, operation in native]
    if len(steps) == 1 and (part or call):
        return steps[0].error(f"failed in Spark: {said}{where}", cause)
    if steps:
        names = ", ".join(f"{step.step}: {step.site}" for step in steps[:_NAMED])
        where += f"; the steps with expressions are {names}{', ...' if len(steps) > _NAMED else ''}"
    error = UserFunctionError(f"an expression failed in Spark: {said}{where}")
    error.of_spark, error.__cause__ = f"{said}{where}", cause
    return error


_Native = list[tuple[Node, Operation]]


def _with_part(native: _Native, part: str) -> tuple[_Native, str]:
    """Return the operations that may have this part of an expression, and the words that name the part."""
    native = [pair for pair in native if pair[1].call is not Call.EXPRESSION or part in _text(pair[1])]
    native = [pair for pair in native if pair[1].call is Call.EXPRESSION] or native
    return native, "" if [_text(operation) for _, operation in native] == [part] else f"; it failed in {part}"


def _with_call(native: _Native, line: CallSite) -> tuple[_Native, str]:
    """Return the operations that may have made a call of Spark's Python API, and the words that name its line."""
    if is_ours(line.file):
        return [], ""
    native = [pair for pair in native if pair[1].call is not Call.EXPRESSION]
    return native, f"; {line.name} was called in {line.location}"


def sum_error(text: str, nodes: Iterable[Node], cause: BaseException) -> UserFunctionError | None:
    """Return the error for a sum that is beyond its type in an aggregate of Spark; None for other texts of exceptions.

    Spark does not report which aggregate failed, so all sums of these nodes are named.
    """
    if f"] {BEYOND} " not in text:
        if "[ARITHMETIC_OVERFLOW" not in text:
            return None
        if _OF_DECIMALS not in text and any(sign in text for sign in ("== SQL", "== DataFrame")):
            return None  # the sum is in an expression of the user
    sums = [(node.step, beyond_type(how, inputs)) for node in nodes for how, inputs in _combiners(node)]
    found = [f"{step}: {beyond}" for step, beyond in sums if beyond]
    if not found:
        return None
    error = UserFunctionError(found[0] if len(found) == 1 else f"one of these expressions failed: {'; '.join(found)}")
    error.step = next(step for step, beyond in sums if beyond) if len(found) == 1 else None
    error.__cause__ = cause
    return error


def _combiners(node: Node) -> list[tuple[Aggregation, tuple[str, ...]]]:
    """Return the combiners that run in a step, each with its input fields."""
    if isinstance(node, WindowPanes):
        how = node.windowing.aggregation
        return [] if how is None else [(how, node.inputs)]
    if isinstance(node, Aggregate | PersistentAggregate):
        return [(member.how, member.inputs) for member in node.members if isinstance(member.how, Aggregation)]
    return []


def _native(node: Node) -> Operation | None:
    """Return the operation of a node that Spark runs by itself; None if the node has none."""
    operation = getattr(node, "function", None) or getattr(node, "predicate", None)
    native = isinstance(operation, Operation) and operation.call.native and operation.call is not Call.UDF
    return operation if native else None


def _part(context: str) -> str:
    """Return the part of a SQL text that Spark marks with ``^^^``, on one line; "" if it marks none."""
    found = _SQL.match(context)
    lines = found[1].split("\n") if found else []
    parts = [
        text[marks.index("^") : marks.rindex("^") + 1]
        for text, marks in zip(lines, lines[1:], strict=False)
        if marks.strip() and not marks.strip(" ^")
    ]
    return " ".join(" ".join(parts).split())


def _text(operation: Operation) -> str:
    """Return the text of an expression on one line."""
    return " ".join(operation.target.text.split()) if operation.call is Call.EXPRESSION else ""
