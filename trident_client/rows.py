"""Rows with named fields, of the form of PySpark's."""

from collections.abc import Sequence
from typing import Any, Self


class Row(tuple[Any, ...]):
    """The values of a row, by their fields' names or by their positions.

    It is equal to a tuple of its values, and so to PySpark's Row of the same values.

    >>> row = Row.of(["word", "count"], ["dog", 2])
    >>> row, row.word, row["count"], row[1], row == ("dog", 2)
    (Row(word='dog', count=2), 'dog', 2, 2, True)
    """

    fields: tuple[str, ...]

    @classmethod
    def of(cls, fields: Sequence[str], values: Sequence[Any]) -> Self:
        """Return a row of values, one for each field."""
        row = cls(values)
        row.fields = tuple(fields)
        return row

    def asDict(self) -> dict[str, Any]:
        """Return the values by their fields' names.

        >>> Row.of(["word"], ["dog"]).asDict()
        {'word': 'dog'}
        """
        return dict(zip(self.fields, self, strict=True))

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._place(key) if isinstance(key, str) else key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "fields" or name not in self.fields:
            raise AttributeError(f"the row has no field {name!r}", name=name)
        return self[name]

    def _place(self, name: str) -> int:
        if name not in self.fields:
            raise KeyError(f"the row has no field {name!r}; it has {', '.join(self.fields)}")
        return self.fields.index(name)

    def __reduce__(self) -> Any:
        return Row.of, (self.fields, tuple(self))

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in self.asDict().items())})"
