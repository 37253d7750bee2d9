"""The listing of a state for one expression such as ``dict(view)``, which calls the view several times.

Python's builtins call a mapping several times: ``list(view)`` asks for the keys and then for their number,
``dict(view)`` lists the keys and then asks for each value in their order. All these calls must be one read as of one
txid: many reads would be slow, and with batches committed between them the result would mix several txids.
"""

import inspect
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

MISSING = object()
"""The answer of a listing that does not hold the value."""


class ExpressionListing(threading.local):
    """The last listing that a thread made of one view, kept for the expression that requested it.

    A call of a builtin such as ``dict`` is one bytecode instruction of the caller. The listing answers further calls
    only while this instruction runs. Any later access by the program is a new read, as of a newer txid.
    """

    def __init__(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Forget the listing, and free its memory."""
        self._asked: tuple[int, int] | None = None
        self._rows = 0
        self._pairs: Iterator[tuple[Any, Any]] | None = None

    def keep(self, caller: FrameType, rows: int, pairs: Iterator[tuple[Any, Any]] | None = None) -> None:
        """Keep the number of entries and, if all keys were returned, the (key, value) pairs in order."""
        self._asked, self._rows, self._pairs = (id(caller), caller.f_lasti), rows, pairs

    def rows(self, caller: FrameType) -> int | None:
        """Return how many entries the caller's listing has; None if the caller has made no listing."""
        return self._rows if self._asked == (id(caller), caller.f_lasti) else None

    def value(self, caller: FrameType, key: object) -> Any:
        """Return the value of the next key in the caller's listing if `key` is that very object, otherwise MISSING."""
        if self._asked is None:
            return MISSING
        if self._pairs is not None and self._asked == (id(caller), caller.f_lasti):
            listed, value = next(self._pairs, (MISSING, None))
            if listed is key:
                self._rows -= 1
                if not self._rows:
                    self.drop()
                return value
        self.drop()
        return MISSING


def calling_frame() -> FrameType:
    """Return the frame that called the caller of this function."""
    asking = inspect.currentframe()
    calling = asking and asking.f_back and asking.f_back.f_back
    assert calling is not None, "CPython keeps the frames of its callers"
    return calling
