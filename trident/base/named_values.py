"""Named tuples (a Row, a namedtuple, a TridentTuple) passed where values are matched with fields by position."""

from collections.abc import Sequence
from typing import Any


def misplaced(value: object, names: Sequence[str]) -> str | None:
    """Return why a value is refused that has one of `names` at the wrong position; None for any other value.

    The value of one field would silently become that of another. A tuple without any of the names is only renamed.

    >>> from pyspark.sql import Row
    >>> misplaced(Row(b=2, a=1), ["a", "b"])
    "it has 'a' at another position; give the values in the order of the fields (a, b)"
    >>> misplaced(Row(x=2, y=1), ["a", "b"]), misplaced((2, 1), ["a", "b"])
    (None, None)
    """
    kind = type(value)
    if kind is tuple or kind is list or not isinstance(value, tuple):
        return None
    own: Any = getattr(kind, "_trident_fields", None) or getattr(kind, "_fields", None)
    own = list(own or getattr(value, "__fields__", ()))
    for at, name in enumerate(names):
        if name in own and own[at : at + 1] != [name]:
            order = ", ".join(names)
            return f"it has {name!r} at another position; give the values in the order of the fields ({order})"
    return None
