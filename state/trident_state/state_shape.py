"""The description of a state: its kind, its owner, its types, and how its values combine."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from trident_state.fingerprint import write_fingerprint


class StateKind(enum.Enum):
    """Trident's three kinds of states, by what they keep beside the value."""

    NON_TRANSACTIONAL = "nonTransactional"
    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class StateIdentity:
    """The owner of a state: a name inside a topology, and the UUID of the log that records it.

    `batchGroup` names the batch group whose txids the state counts in ("" where that is not known). It is stored for
    readers from outside and identifies nothing.
    """

    topology: str
    name: str
    log: str
    batchGroup: str = field(default="", compare=False)


@dataclass(frozen=True)
class Combine:
    """The function that combines a batch's value (the delta) with the stored one.

    `native` names an operation that a store can do by itself on numbers ("put": on any type). `function` does the same
    in Python: it is associative and called as ``function(stored, delta)``, but only where something is stored; else
    the delta becomes the value. "put" replaces the stored value, and a null delta under it removes the key.
    """

    name: str
    function: Callable[[Any, Any], Any]
    native: Literal["sum", "min", "max", "put"] | None = None


def replacing(name: str = "put") -> Combine:
    """Return a Combine under which a batch's value replaces the stored one.

    >>> replacing().function(3, None) is None
    True
    """
    return Combine(name, _second, "put")


def _second(stored: Any, delta: Any) -> Any:
    return delta


@dataclass(frozen=True)
class StateShape:
    """The key fields of a state (none for one global value), the type of its values, and how they combine."""

    keys: pa.Schema
    value: pa.DataType
    combine: Combine

    @cached_property
    def fingerprint(self) -> str:
        """Key types, value type and aggregator as text: what must not change between restarts."""
        return write_fingerprint(self.keys, self.value, self.combine.name)
