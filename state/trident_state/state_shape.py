"""The description of a state: its kind, its owner, its types, and how a batch's values combine with the stored ones."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from trident.base.cached_property import cached_property
from trident_state.fingerprint import write_fingerprint


class StateKind(enum.Enum):
    """Trident's three kinds of states. They differ in the data that is stored with each value."""

    NON_TRANSACTIONAL = "nonTransactional"
    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class StateIdentity:
    """The identity of a state: its topology, its name in the topology, and the UUID of the log that records it.

    `batchGroup` names the batch group whose txids the state uses ("" if that is not known). It is stored for readers
    from outside a run, and is ignored when two identities are compared.
    """

    topology: str
    name: str
    log: str
    batchGroup: str = field(default="", compare=False)


@dataclass(frozen=True)
class Combine:
    """How a batch's value for a key (the delta) is combined with the stored value.

    `function` does it in Python: it is associative, and is called as ``function(stored, delta)`` only if a value is
    stored; otherwise the delta becomes the value. `native`, if not None, names the same operation in a form that a
    store can do by itself on numbers ("put": on any type). "put" replaces the stored value by the delta, and a null
    delta removes the key. `columns`, if not None, computes the same as `function`, for two whole columns without nulls;
    it returns None for columns that only `function` can combine. `parts`, if not None, are the Combines of the fields
    of a value that is a struct: each field is combined separately, like the values of a separate state. With
    `zeros_leave`, a struct of only zeros is the same as no value, and removes its key. `wider` is the advice for a sum
    that overflows its type; "" if the Combine does not sum.
    """

    name: str
    function: Callable[[Any, Any], Any]
    native: Literal["sum", "min", "max", "put"] | None = None
    columns: Callable[[pa.Array, pa.Array], pa.Array | None] | None = None
    parts: tuple["Combine", ...] | None = None
    wider: str = ""
    zeros_leave: bool = False


def replacing(name: str = "put") -> Combine:
    """Return the Combine by which a batch's value replaces the stored value.

    >>> replacing().function(3, None) is None
    True
    """
    return Combine(name, _second, "put")


def _second(stored: Any, delta: Any) -> Any:
    return delta


@dataclass(frozen=True)
class StateShape:
    """The key fields of a state (none for one global value), the type of its values, and its Combine.

    `due`, if not None, returns for a column of values when each is due: a time in microseconds since 1970, null for a
    value that never is. Then a store may keep an index of the keys by these times (`trident_state.store.Timed`). Such
    a state has a `combine` that replaces the stored value.
    """

    keys: pa.Schema
    value: pa.DataType
    combine: Combine
    due: Callable[[pa.Array], pa.Array] | None = None

    @cached_property
    def fingerprint(self) -> str:
        """The key fields, value type and aggregator of the state as text, which must not change between restarts."""
        return write_fingerprint(self.keys, self.value, self.combine.name)

    @property
    def entries(self) -> pa.Schema:
        """The key fields, then the field ``value``: the columns of a scan."""
        return self.keys.append(pa.field("value", self.value))

    def fits(self, fingerprint: str) -> bool:
        """Return whether a state with this stored fingerprint has this shape."""
        return fingerprint == self.fingerprint
