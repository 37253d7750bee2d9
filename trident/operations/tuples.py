"""Tuples as operations see them: named values."""

from collections import namedtuple
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from trident.base.errors import FieldNotFoundError
from trident.base.names import did_you_mean


class TridentTuple(tuple[Any, ...]):
    """One immutable tuple. Its values are read by name or position; every name works, even ``count`` and ``index``.

    Meaning: ``org.apache.storm.trident.tuple.TridentTuple``. A test of an operation can make a tuple from keywords:

    >>> t = TridentTuple(word="dog", count=2)
    >>> t.word, t["count"], t[0], t.count
    ('dog', 2, 'dog', 2)
    >>> word, count = t
    >>> t
    TridentTuple(word='dog', count=2)
    """

    __slots__ = ()
    _trident_fields: tuple[str, ...] = ()
    _trident_positions: dict[str, int] = {}

    def __new__(cls, /, **values: Any) -> "TridentTuple":
        return tuple_type(tuple(values))(values.values())

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self._trident_positions[key])
            except KeyError:
                raise FieldNotFoundError(self._trident_missing(key)) from None
        return tuple.__getitem__(self, key)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(self._trident_missing(name), name=name, obj=self)

    def _trident_missing(self, name: str) -> str:
        fields = self._trident_fields
        hint = did_you_mean(name, fields)
        if name[:3] == "get" and name[3:4].isupper() and fields:  # getString(0), getLongByField("n") of Storm's tuples
            hint = f"; a value is t[{fields[0]!r}] or t[0]"
        return f"the tuple has no field {name!r}; its fields are ({', '.join(fields)}){hint}"

    def __repr__(self) -> str:
        pairs = zip(self._trident_fields, tuple.__iter__(self), strict=True)
        return f"TridentTuple({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._trident_fields, tuple(self))


def _rebuild(fields: tuple[str, ...], values: tuple[Any, ...]) -> TridentTuple:
    return tuple_type(fields)(values)


@lru_cache(maxsize=4096)
def tuple_type(fields: tuple[str, ...]) -> Callable[[Iterable[Any]], TridentTuple]:
    """Return the class of tuples with these fields, as fast as ``tuple``. Call it with the values in order.

    >>> tuple_type(("word", "n"))(["dog", 2]).n
    2
    """
    # A namedtuple's getters are written in C and do not call __getitem__ of this class. `plain` keeps the namedtuple's
    # class alive until its getters are copied: collecting a class empties its dict.
    plain = namedtuple("plain", [f"at{at}" for at in range(len(fields))])  # type: ignore[misc]
    members: dict[str, Any] = {name: vars(plain)[f"at{at}"] for at, name in enumerate(fields) if _is_free(name)}
    members |= {
        "__slots__": (),
        "__new__": tuple.__new__,
        "_trident_fields": fields,
        "_trident_positions": {name: at for at, name in enumerate(fields)},
    }
    return type("TridentTuple", (TridentTuple,), members)


def _is_free(name: str) -> bool:
    """Return whether a field may become an attribute: it must not hide an attribute of ``tuple`` or TridentTuple."""
    return not name.startswith("__") and not name.startswith("_trident_")
