"""FilterNull, Equals, Negate: the built-in filters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.operations.functions import Filter


@dataclass(frozen=True)
class FilterNull(Filter):
    """A filter that keeps the tuples in which no input field is null.

    Meaning: ``org.apache.storm.trident.operation.builtin.FilterNull``.

    >>> FilterNull().isKeep((1, None)), FilterNull().isKeep((1, 0))
    (False, True)
    """

    def isKeep(self, tuple: Any) -> bool:
        return all(value is not None for value in tuple)


@dataclass(frozen=True)
class Equals(Filter):
    """A filter that keeps the tuples whose input fields are all equal. As in `groupBy`, two nulls or two NaN are equal.

    Meaning: ``org.apache.storm.trident.operation.builtin.Equals``, which raises if two neighbours are null.

    >>> Equals().isKeep((1, 1, 1)), Equals().isKeep((None, None)), Equals().isKeep((1, None))
    (True, True, False)
    """

    def isKeep(self, tuple: Any) -> bool:
        return all(_equal(left, right) for left, right in zip(tuple, tuple[1:], strict=False))


@dataclass(frozen=True)
class Negate(Filter):
    """A filter that keeps the tuples that `filter` drops: a `Filter`, or a callable of the input fields.

    Meaning: ``org.apache.storm.trident.operation.builtin.Negate``.

    >>> Negate(FilterNull()).isKeep((None,)), Negate(str.isalpha).isKeep(("dog",))
    (True, False)
    """

    filter: Filter | Callable[..., bool]

    def __post_init__(self) -> None:
        if not callable(getattr(self.filter, "isKeep", self.filter)) or isinstance(self.filter, type):
            raise TopologyError(
                f"Negate takes a Filter or a callable, such as Negate(FilterNull()), not {brief(self.filter)}"
            )

    def isKeep(self, tuple: Any) -> bool:
        keep = self.filter.isKeep(tuple) if isinstance(self.filter, Filter) else self.filter(*tuple)
        return not keep

    def __getattr__(self, name: str) -> Any:
        if name in ("prepare", "cleanup"):  # Negate has these only if `filter` has them
            return getattr(self.filter, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right) or (left != left and right != right)
