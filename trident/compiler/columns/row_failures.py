"""The rows on which a user's function failed. They are noted while the function continues with the other rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trident.base.errors import FailedException, UserFunctionError
from trident.base.short_texts import error_text
from trident.compiler.columns.function_errors import Where


@dataclass(frozen=True, slots=True)
class Failure:
    """The record of a failure: the class of the error, and the error's text."""

    error: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Return the record of an exception.

        For an error about a user's function, this is the exception that caused it.
        """
        cause = error.__cause__ if isinstance(error, UserFunctionError) else None
        root = error if cause is None else cause
        return cls(type(root).__name__, error_text(root))


FailedRows = dict[int, Failure]
"""The rows on which a function failed, by row number."""


def fail_row(
    where: Where, cause: BaseException, lists: Sequence[Sequence[Any]], row: int, failed: FailedRows | None
) -> None:
    """Note in `failed` that the function failed on a row; if `failed` is None, raise the error.

    An error that does not depend on the tuple is always raised: a FailedException, which asks for another attempt,
    and the error of a function that cannot work at all.
    """
    for_the_batch = isinstance(cause, FailedException) or (isinstance(cause, UserFunctionError) and cause.hopeless)
    if failed is not None and not for_the_batch:
        failed[row] = Failure.of(cause)
        return
    error = where.raised(cause, lists, row)
    if error is cause:
        raise error
    raise error from cause
