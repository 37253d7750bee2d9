"""Objects that end with a `with` block."""

from types import TracebackType
from typing import Self


class Ending:
    """A context manager: `with` gives the block this object, and calls `_end` after the block."""

    __slots__ = ()

    def _end(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
