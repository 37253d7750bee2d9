"""InitialState: the content of a new state before its first batch."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trident.base.names import brief
from trident.base.verb_call import Step

_SOURCES = (
    "a pandas or Spark DataFrame, an Arrow table, the path of a Parquet file, a state that openState opened, "
    "or a function that returns one of these"
)


@dataclass(frozen=True, eq=False)
class InitialState:
    """The content of a new state, and how its values are stored.

    Trident has no counterpart; in Flink, a savepoint written with the State Processor API has this purpose.

    Parameters
    ----------
    source : DataFrame, pyarrow.Table, path, or state
        A pandas or Spark DataFrame, a table of Arrow, the path of a Parquet file or folder, or a state that `openState`
        opened. Or a function without arguments that returns one of these: it is called only when the state begins.
    value : callable, optional
        A function from a value of the source to the stored value: for an aggregator whose accumulator is not the value
        that queries see. Several value columns come as a Row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from trident import Average, InitialState
    >>> known = pa.table({"shop": ["dog"], "mean": [2.5], "sales": [4]})
    >>> start = InitialState(known, lambda row: (row.mean * row.sales, row.sales))
    """

    source: Any
    value: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if not _is_source(self.source):
            raise TypeError(f"initialState: {brief(self.source)} is not a source of values: expected {_SOURCES}")
        if self.value is not None and not callable(self.value):
            raise TypeError(f"value={brief(self.value)}: expected a function from a source value to the stored one")


def read_initial(initialState: object, step: Step) -> InitialState:
    """Return the argument `initialState` of a verb as an InitialState. Raises TopologyError if it is not a source."""
    if isinstance(initialState, InitialState):
        return initialState
    try:
        return InitialState(initialState)
    except TypeError as error:
        raise step.wrong(str(error)) from None


def _is_source(source: object) -> bool:
    """Return whether `table_of` may be able to read the source. Its content is read only when the state begins."""
    return is_path(source) or callable(source) or is_table(source)


def is_path(source: object) -> bool:
    """Return whether a source is the path of a Parquet file or folder."""
    return isinstance(source, str | os.PathLike)


def is_table(source: object) -> bool:
    """Return whether a source is a table: Arrow, pandas, Spark, or an opened state."""
    return any(hasattr(source, name) for name in ("toArrow", "column_names", "to_parquet"))
