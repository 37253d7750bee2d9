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


class PartlyColumns:
    """The form for many tuples of a function that reads values from outside, of which some may be wrong.

    It makes columns of most values at once. The others need the call for each tuple.
    """

    @property
    def outputs(self) -> pa.Schema:
        """The fields that the function declares. A call that declares others needs the call for each tuple."""
        raise NotImplementedError

    def columns(self, values: pa.Array) -> tuple[list[pa.Array], list[int]]:
        """Return the columns of the output fields, and the rows, in ascending order, that the call fails on."""
        raise NotImplementedError
