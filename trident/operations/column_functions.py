"""Library functions over whole columns, for steps that the library itself adds to a program."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import DataType

from trident.expressions.rules import ANOTHER_FORM as ANOTHER_FORM

RAISED = f"raise_error('{ANOTHER_FORM}')"


class ColumnFunction:
    """A function of a tuple's values that can also be computed over whole columns, with the same results.

    Engines call `columns` for many tuples, and the object itself for a few.
    """

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        """Return the columns of the output fields.

        Return None if the values need a call for each tuple, which then raises the error of the failing tuple.
        """
        raise NotImplementedError

    def sql(self, inputs: Sequence[str], kinds: Sequence[DataType]) -> list[str] | None:
        """Return the output fields as SQL over the columns `inputs` of these types; None if SQL cannot compute them.

        If the call would raise an error for a tuple, the SQL must fail, too, by `RAISED` or by an overflow; the stage
        then runs again with the calls.
        """
        return None


class PartlyColumns:
    """A function over many external values, some of which may be invalid.

    It computes most values as columns. The others need a call for each tuple.
    """

    @property
    def outputs(self) -> pa.Schema:
        """The fields that the function declares. A call that declares other fields runs tuple by tuple."""
        raise NotImplementedError

    def columns(self, values: pa.Array) -> tuple[list[pa.Array], list[int]]:
        """Return the columns of the output fields, and the ascending indices of the rows on which the call fails."""
        raise NotImplementedError
