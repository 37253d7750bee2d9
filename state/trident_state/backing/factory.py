"""BackingMapState: the API to keep a state in a user's map."""

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

from trident.base.names import brief
from trident.base.option_names import known_options_of
from trident_state.backing.protocol import BackingMap
from trident_state.backing.store import BackingStore
from trident_state.records.forms import ValueForm
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home

MakeMap = Callable[[StateIdentity], BackingMap]


class BackingOptions(TypedDict, total=False):
    """The options of a BackingMapState, except for `makeMap`; `BackingMapState.opaque` explains them."""

    values: ValueForm
    most: int


@known_options_of({}, "opaque", "transactional", "nonTransactional")
@dataclass(frozen=True, repr=False)
class BackingMapState:
    """A state in your map from bytes to bytes (`BackingMap`).

    Make a BackingMapState by `opaque`, `transactional` or `nonTransactional`; `opaque` explains the parameters. The map
    itself is made when the topology starts. Meaning: the state factories around Trident's ``IBackingMap``.

    >>> class Notes(dict):
    ...     def __init__(self, identity): pass
    ...     def multiGet(self, keys): return [self.get(key) for key in keys]
    ...     def multiPut(self, keys, values): self.update(zip(keys, values))
    >>> BackingMapState.opaque(Notes), BackingMapState.opaque(Notes).fenced
    (BackingMapState.opaque(Notes), False)
    """

    kind: StateKind
    makeMap: MakeMap
    values: ValueForm = "packed"
    most: int = 10_000

    def __post_init__(self) -> None:
        if not callable(self.makeMap):
            raise TypeError(
                f"makeMap={brief(self.makeMap)}: expected a class or function, such as functools.partial(MyMap, "
                f"'file.db'), that takes the state's identity and returns its map when the topology starts; not a map"
            )
        if self.values not in ("packed", "json"):
            raise ValueError(f"values={self.values!r}: expected 'packed' or 'json'")
        if type(self.most) is not int or self.most < 1:
            raise ValueError(f"most={self.most!r}: expected a number of keys, 1 or more")

    @classmethod
    def opaque(cls, makeMap: MakeMap, **options: Unpack[BackingOptions]) -> "BackingMapState":
        """Return a state that keeps (txid, prev, value): a batch that is applied again starts from prev (`OpaqueMap`).

        Parameters
        ----------
        makeMap
            A function that is called with a `StateIdentity` (``topology``, ``name``) and returns the map of that state.
            Each state needs a separate map. Give a class, a ``functools.partial`` of a class, or a function with a
            return annotation, so that `explain` can say before the start whether the map has a conditional put.
        values
            ``"packed"``, or ``"json"`` if programs other than this library read the map.
        most
            The most keys that one call of the map gets.

        Raises
        ------
        TypeError, ValueError
            An invalid option.
        """
        return cls(StateKind.OPAQUE, makeMap, **options)

    @classmethod
    def transactional(cls, makeMap: MakeMap, **options: Unpack[BackingOptions]) -> "BackingMapState":
        """Return a state in which reapplying a batch changes no value that the batch already wrote.

        See `TransactionalMap`. Like an opaque state it keeps (txid, prev, value). Parameters as in `opaque`.
        """
        return cls(StateKind.TRANSACTIONAL, makeMap, **options)

    @classmethod
    def nonTransactional(cls, makeMap: MakeMap, **options: Unpack[BackingOptions]) -> "BackingMapState":
        """Return a state that keeps values only, so that batches count at least once and reads are not committed reads.

        See `NonTransactionalMap`. Parameters as in `opaque`.
        """
        return cls(StateKind.NON_TRANSACTIONAL, makeMap, **options)

    @property
    def survives(self) -> Literal["process", "checkpoint", "server"]:
        """The component that keeps the state between runs: "server", which here means the store of the map."""
        return "server"

    @property
    def fenced(self) -> bool:
        """Return whether the map is known to have a conditional put.

        Without a conditional put, a former driver's write is not refused.
        """
        made = _made_by(self.makeMap)
        return made is not None and hasattr(made, "multiPutIf")

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> BackingStore:
        """Return the state's store, which creates the map at its first use."""
        return BackingStore(
            identity, shape, self.kind, functools.partial(self.makeMap, identity), self.values, self.most
        )

    def __repr__(self) -> str:
        shown = [getattr(_unwrapped(self.makeMap), "__name__", None) or brief(self.makeMap)]
        if self.values != "packed":
            shown.append(f"values={self.values!r}")
        if self.most != 10_000:
            shown.append(f"most={self.most}")
        return f"BackingMapState.{self.kind.value}({', '.join(shown)})"


def _unwrapped(make: Callable[..., object]) -> Callable[..., object]:
    while isinstance(make, functools.partial):
        make = make.func
    return make


def _made_by(make: MakeMap) -> object:
    """Return the class of the maps that `make` returns; None if only a call of `make` can tell."""
    make = _unwrapped(make)  # type: ignore[assignment]
    if isinstance(make, type):
        return make
    function = make if inspect.isroutine(make) else type(make).__call__
    try:
        return typing.get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):  # an annotation that cannot be evaluated names no class
        return None
