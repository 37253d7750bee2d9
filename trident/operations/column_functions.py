"""Functions of the library over whole columns, for steps that it adds to a program by itself."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import DataType

from trident.expressions.rules import ANOTHER_FORM as ANOTHER_FORM

RAISED = f"raise_error('{ANOTHER_FORM}')"


class ColumnFunction:
    """A function of a tuple's values that can also be computed over whole columns, to the same results.

    Engines call `columns` for many tuples, and the object itself for few.
    """

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        """Return the columns of the output fields.

        None: the values need the call for each tuple, which then raises the error of the tuple at fault.
        """
        raise NotImplementedError

    def sql(self, inputs: Sequence[str], kinds: Sequence[DataType]) -> list[str] | None:
        """Return the output fields as SQL over the columns `inputs` of these types; None if SQL cannot compute them.

        A tuple for which the call would raise an error must fail there, too, by `RAISED` or by an overflow: the stage
        then runs again with the calls.
        """
        return None
