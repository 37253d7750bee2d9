"""What goes wrong inside a user's function: said in one sentence, and carried from a worker to the driver.

A worker cannot raise a typed error in the driver: Spark hands on text. So the sentence travels in the text, as one
line of JSON behind a mark, and the driver makes the error from it again.
"""

import json
import os
import re
import reprlib
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trident.base import errors
from trident.base.callsite import CallSite
from trident.base.errors import FailedException, TridentError, UserFunctionError

_MARK = "TRIDENT-FAILURE "
_OURS = os.path.dirname(__file__)
_LONGEST = 600
"""Characters of a message that travel: Connect cuts long ones."""


@dataclass(frozen=True, slots=True)
class Where:
    """Whose call an error is about: the step, the user's function, the fields it reads."""

    step: str
    site: CallSite
    inputs: tuple[str, ...] = ()

    def raised(self, cause: BaseException, lists: Sequence[Sequence[Any]], row: int) -> TridentError:
        """The error for a function that raised at this row of its inputs. A FailedException stays what it is."""
        if isinstance(cause, FailedException | UserFunctionError):
            return cause
        what = f"raised {type(cause).__name__}: {cause}" if str(cause) else f"raised {type(cause).__name__}"
        return self.error(f"{what}; {self.tuple_text(lists, row)}" if self.inputs else what, cause)

    def gave(self, what: str, lists: Sequence[Sequence[Any]], row: int, hint: str = "") -> UserFunctionError:
        """The error for a function that gave what was not declared."""
        return self.error(f"gave {what}; {self.tuple_text(lists, row)}{f' ({hint})' if hint else ''}")

    def error(
        self, what: str, cause: BaseException | None = None, kind: type[UserFunctionError] = UserFunctionError
    ) -> UserFunctionError:
        """An error about this function: `what` follows its name."""
        error = kind(f"{self.step}: {self.site} {what}")
        error.__cause__ = cause
        return error

    def tuple_text(self, lists: Sequence[Sequence[Any]], row: int) -> str:
        """The tuple at this row, short enough to read."""
        shown = [f"{name}={short(values[row])}" for name, values in zip(self.inputs, lists, strict=False)]
        return f"the tuple was ({', '.join(shown[:8])}{', ...' if len(shown) > 8 else ''})"


def short(value: object) -> str:
    """A value as an error shows it.

    >>> short("x" * 500)[:12], len(short("x" * 500)) < 90
    ("'xxxxxxxxxxx", True)
    """
    return _REPR.repr(value)


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80


# --- from a worker to the driver ----------------------------------------------------------------------------------


class WorkerFailure(Exception):
    """How an error leaves a worker: its text is a line that `decoded` finds."""


def encoded(error: TridentError) -> WorkerFailure:
    """The error as a worker raises it."""
    told: dict[str, str] = {"type": type(error).__name__, "message": _cut(str(error))}
    if error.__cause__ is not None:
        told["trace"] = _cut(_user_frames(error.__cause__))
    return WorkerFailure(_MARK + json.dumps(told, ensure_ascii=True))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _user_frames(cause: BaseException) -> str:
    """The innermost frames, which are the user's, and the exception itself."""
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if not frame.filename.startswith(_OURS)]
    theirs = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[-4:]]
    return " | ".join([*theirs, "".join(traceback.format_exception_only(cause)).strip()])


def decoded(text: str) -> TridentError | None:
    """The error of ours that a Spark exception's text carries, if it carries one."""
    for line in _lines_with_mark(text):
        try:
            told, _ = json.JSONDecoder().raw_decode(line)
            error = _by_name(told["type"], told["message"])
        except (ValueError, KeyError, TypeError):
            continue
        if told.get("trace"):
            error.add_note(f"in the worker: {told['trace']}")
        return error
    found = _BARE.search(text)
    return _by_name(found[1], found[2].strip()) if found else None


def _lines_with_mark(text: str) -> list[str]:
    return [text[found.end() :] for found in re.finditer(_MARK, text)]


_BARE = re.compile(r"trident\.base\.errors\.(\w+): ([^\n]*)")


def _by_name(name: str, message: str) -> TridentError:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TridentError):
        try:
            return kind(message)
        except TypeError:  # an error that wants more than a message
            return TridentError(f"{name}: {message}")
    return UserFunctionError(message)
