"""Functions over tuples with a kind of change: they read the kind of a source's tuples, or make both images."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trident.base.changes import ADDS, KINDS
from trident.base.short_texts import short_repr


@dataclass(frozen=True)
class KindOf:
    """The kind of change that a value of the user's field stands for."""

    field: str
    kinds: Mapping[Any, str]

    def __call__(self, value: Any) -> str:
        kind = self.kinds.get(value)
        if kind is None:
            known = ", ".join(map(repr, self.kinds))
            raise ValueError(
                f"field {self.field!r} holds {short_repr(value)}, which is not a kind of change; accepted: {known}. "
                f"Give asChanges a mapping with this value, or filter such tuples out before it"
            )
        return kind


@dataclass(frozen=True)
class Kept:
    """The kind of a tuple behind a filter: the filter may have dropped the other image of an update."""

    def __call__(self, kind: str) -> str:
        return "insert" if kind in ADDS else "delete"


@dataclass(frozen=True)
class Images:
    """The change of one entry of a state: no tuple, one, or the two images of an update.

    Called with the key, then the value after the batch and the value before it; None means that there is no entry.
    `spread` is true if the values are structs, whose fields the tuples get.
    """

    keys: int
    spread: bool

    def __call__(self, *values: Any) -> Iterator[tuple[Any, ...]]:
        key, (after, before) = values[: self.keys], values[self.keys :]
        if after == before:
            return
        if before is not None:
            yield (*key, *self._fields(before), "delete" if after is None else "update_preimage")
        if after is not None:
            yield (*key, *self._fields(after), "insert" if before is None else "update_postimage")

    def _fields(self, value: Any) -> tuple[Any, ...]:
        return tuple(value) if self.spread else (value,)


SAME = {kind: kind for kind in KINDS}
"""The values of a field that holds the kinds already."""
