"""What a Spark exception means to a user: one of our errors where it says so, without Java's and py4j's noise."""

import re

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    PySparkException,
)

from trident.base.errors import SourceUnreadableError, TridentError, UserFunctionError
from trident.compiler.failures import decoded

_VALUES = (ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, NumberFormatException)
_IN_TEXT = re.compile(
    r"\[((?:ARITHMETIC_OVERFLOW|DIVIDE_BY_ZERO|CAST_INVALID_INPUT|CAST_OVERFLOW|INVALID_ARRAY_INDEX|USER_RAISED_EXCEPTION|"
    r"NUMERIC_VALUE_OUT_OF_RANGE)[^\]]*)\] ([^\n]*)"
)
_UNREADABLE = re.compile(r"\[(FAILED_READ_FILE[^\]]*|PATH_NOT_FOUND)\] ([^\n]*)")
_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED", "OPERATION_CANCELLED", "cancelled because", "was cancelled")


def translated(error: BaseException) -> BaseException:
    """The error that stands for this one; itself where Spark's own words say it best."""
    if isinstance(error, TridentError):
        return error
    text = _text(error)
    ours = decoded(text)
    if ours is not None:
        return ours
    unreadable = _UNREADABLE.search(text)
    if unreadable is not None:
        return SourceUnreadableError(f"Spark cannot read the source: {unreadable[2].strip()} [{unreadable[1]}]")
    value = _IN_TEXT.search(text)
    if value is not None:
        return UserFunctionError(f"an expression failed in Spark: {value[2].strip()} [{value[1]}]")
    if isinstance(error, _VALUES) or isinstance(error, AnalysisException | ParseException):
        return UserFunctionError(f"an expression failed in Spark: {text.partition(chr(10))[0]}")
    return error


def was_cancelled(error: BaseException) -> bool:
    """Whether this is how Spark says that a job was cancelled."""
    text = _text(error)
    return any(sign in text for sign in _CANCELLED)


def _text(error: BaseException) -> str:
    """Everything that the error says, from whichever side of Spark it comes."""
    parts = [str(error)]
    if isinstance(error, PySparkException):
        parts.append(str(error.getMessage() or ""))
    java = getattr(error, "java_exception", None)
    if java is not None:
        parts.append(str(java))
    return "\n".join(parts)
