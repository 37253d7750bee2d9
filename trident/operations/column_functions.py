"""Functions of the library over whole columns, for steps that it adds to a program by itself."""

from collections.abc import Sequence

import pyarrow as pa


class ColumnFunction:
    """A function of a tuple's values that can also be computed over whole columns, to the same results.

    Engines call `columns` for many tuples, and the object itself for few.
    """

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        """Return the columns of the output fields.

        None: the values need the call for each tuple, which then raises the error of the tuple at fault.
        """
        raise NotImplementedError
