"""Errors of user functions: their messages, and their transport from a worker to the driver.

A worker cannot raise a typed error in the driver, because Spark passes on only text. So the text contains the error as
one line of JSON after a mark, and the driver recreates the error from this line.
"""

import json
import os
import re
import reprlib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trident.base import errors
from trident.base.callsite import CallSite
from trident.base.errors import FailedException, StateBehindError, TridentError, UserFunctionError
from trident.base.outages import is_away
from trident.base.short_texts import error_text, raised, short_repr
from trident.base.value_conversion import NotAccepted
from trident.operations.checked_aggregators import WrongValueError

_MARK = "TRIDENT-FAILURE "
_PYSPARK = os.path.join("", "pyspark", "sql", "")
_MAKES_COLUMNS = "functions of pyspark.sql make Columns: give the Column to the verb itself, each(F.lit(1), 'n')"
_OURS = os.path.dirname(__file__)
_LONGEST = 600
"""The most characters of a message that is sent to the driver, because Spark Connect cuts longer messages."""


@dataclass(frozen=True, slots=True)
class Where:
    """The call of a user's function as errors describe it: the step, the function and the fields that it reads."""

    step: str
    site: CallSite
    inputs: tuple[str, ...] = ()

    def raised(self, cause: BaseException, lists: Sequence[Sequence[Any]], row: int, rows: int = 1) -> TridentError:
        """Return the error for a function that raised `cause` at row `row` of its inputs.

        If one call had several rows, `row` is the first of `rows` rows. A FailedException and a UserFunctionError are
        returned unchanged.
        """
        if isinstance(cause, FailedException | UserFunctionError):
            return cause
        what = described(cause)
        told = f"{what}; {self.tuple_text(lists, row, rows)}" if self.inputs else what
        return self.error(f"{told}{self._hint(cause, lists, row, rows)}", cause)

    def _hint(self, cause: BaseException, lists: Sequence[Sequence[Any]], row: int, rows: int) -> str:
        """Return a hint for two common mistakes: a null that the function does not expect, or a function of PySpark."""
        if isinstance(cause, TypeError | AttributeError) and "NoneType" in error_text(cause) and rows == 1:
            nulls = [name for name, values in zip(self.inputs, lists, strict=False) if values[row] is None]
            if nulls:
                return f" ({', '.join(nulls)} is null: test for None, or put each({nulls[0]!r}, FilterNull()) before)"
        frames = traceback.extract_tb(cause.__traceback__)
        if frames and _PYSPARK in frames[-1].filename:
            return f" ({_MAKES_COLUMNS})"
        return ""

    def calling(self, method: str) -> "Calling":
        """Return a context for calls of a user's method that gets no tuple, or many tuples at once."""
        return Calling(lambda cause: self.error(f"{described(cause)} in {method}", cause))

    def calling_rows(self, lists: Sequence[Sequence[Any]], row: Callable[[], int]) -> "Calling":
        """Return a context for calls of a user's function row by row. `row` returns the current row."""
        return Calling(lambda cause: self.raised(cause, lists, row()))

    def gave(self, what: str, lists: Sequence[Sequence[Any]], row: int, hint: str = "") -> UserFunctionError:
        """Return the error for a function with a result for this row that does not match its declaration."""
        error = self.error(f"returned {what}; {self.tuple_text(lists, row)}{f' ({hint})' if hint else ''}")
        error.row = row
        return error

    def error(
        self, what: str, cause: BaseException | None = None, kind: type[UserFunctionError] = UserFunctionError
    ) -> UserFunctionError:
        """Return an error about this function. Its message is the step, the function's name, and `what`."""
        error = kind(f"{self.step}: {self.site} {what}")
        error.step, error.__cause__ = self.step, cause
        return error

    def tuple_text(self, lists: Sequence[Sequence[Any]], row: int, rows: int = 1) -> str:
        """Return the text of the tuple at this row, the first of `rows` rows in one call. Long texts are cut."""
        if not rows:
            return "it was called without a tuple, for an empty batch, request or partition"
        shown = [f"{name}={short(values[row])}" for name, values in zip(self.inputs, lists, strict=False)]
        which = "the tuple" if rows == 1 else f"the first of {rows} tuples"
        return f"{which} was ({', '.join(shown[:8])}{', ...' if len(shown) > 8 else ''})"


class Calling:
    """A context for calls of user code. An exception in it is replaced by the error that `error` returns for it.

    A FailedException passes unchanged, and so does an error that already names its step. Entering the context costs
    more than a call of a small function: enter once for a column, never once for a row.
    """

    __slots__ = ("_error",)

    def __init__(self, error: Callable[[BaseException], BaseException]) -> None:
        self._error = error

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, cause: BaseException | None, trace: object) -> None:
        # a SystemExit in the user's code must not end a worker or the driver's thread
        if isinstance(cause, Exception | SystemExit) and not isinstance(cause, FailedException | UserFunctionError):
            raise self._error(cause) from cause


def described(cause: BaseException) -> str:
    """Return the words for a failed call in an error: it raised an error, or returned an invalid value."""
    if isinstance(cause, WrongValueError):
        return str(cause)
    return raised(cause)


def short(value: object) -> str:
    """Return a value as an error shows it.

    >>> short("x" * 500)[:12], len(short("x" * 500)) < 90
    ("'xxxxxxxxxxx", True)
    """
    try:
        return _REPR.repr(value)
    except ValueError:  # a number with more digits than Python converts to text
        return short_repr(value)


def typed(value: object) -> str:
    """Return a value and its type in the form in which an error shows them."""
    return f"{short(value)} ({type(value).__name__})"


def reason(error: NotAccepted) -> str:
    """Return in parentheses why a column cannot hold a value; "" if the two types already show it."""
    why = why_not(error)
    return f" ({why})" if why else ""


def why_not(error: NotAccepted) -> str:
    """Return why a column cannot hold a value, or the way out; "" if the two types already show it."""
    made = type(error.value)
    is_column = made.__name__ == "Column" and made.__module__.startswith("pyspark.")
    return error.why or (_MAKES_COLUMNS if is_column else "")


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80


# --- from a worker to the driver ----------------------------------------------------------------------------------


class WorkerFailure(Exception):
    """An error that a worker raises in place of a library error. Its text has a line that `decoded` can read."""


def encoded(error: TridentError) -> WorkerFailure:
    """Return an error of the library in the form in which a worker raises it."""
    fields: dict[str, str | int] = {"type": type(error).__name__, "message": _cut(str(error))}
    if error.step is not None:
        fields["step"] = error.step
    if isinstance(error, StateBehindError):
        fields["marker"] = error.marker
    if is_away(error):
        fields["away"] = "yes"
    if error.__cause__ is not None:
        fields["trace"] = _cut(_user_frames(error.__cause__))
    return WorkerFailure(_MARK + json.dumps(fields, ensure_ascii=True))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _user_frames(cause: BaseException) -> str:
    """Return the innermost frames of the traceback, without frames of this folder, and then the exception itself."""
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if not frame.filename.startswith(_OURS)]
    shown = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[-4:]]
    return " | ".join([*shown, "".join(traceback.format_exception_only(cause)).strip()])


def decoded(text: str) -> TridentError | None:
    """Return the library's error in the text of a Spark exception; None if the text has none."""
    for line in _lines_with_mark(text):
        try:
            fields, _ = json.JSONDecoder().raw_decode(line)
            error = _by_name(fields["type"], fields["message"])
        except (ValueError, KeyError, TypeError):
            continue
        error.step = fields.get("step")
        if isinstance(error, UserFunctionError):
            error.away = "away" in fields
        if isinstance(error, StateBehindError):
            error.marker = fields.get("marker", error.marker)
        if fields.get("trace"):
            error.add_note(f"in the worker: {fields['trace']}")
        return error
    bare = _BARE.search(text)
    return _by_name(bare[1], bare[2].strip()) if bare else None


def is_failure(text: str) -> bool:
    """Return whether a line of text from a worker describes a failure."""
    return text.startswith(_MARK)


def _lines_with_mark(text: str) -> list[str]:
    return [text[match.end() :] for match in re.finditer(_MARK, text)]


_BARE = re.compile(r"trident(?:_client|\.base)\.errors\.(\w+): ([^\n]*)")


def _by_name(name: str, message: str) -> TridentError:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TridentError):
        try:
            return kind(message)
        except TypeError:  # the class of the error needs more than a message
            return TridentError(f"{name}: {message}")
    return UserFunctionError(message)
