"""A request's arguments, bound to a function's declared ones and checked."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.errors import DRPCArgumentError
from trident.base.names import did_you_mean
from trident.base.types import arrow_schema, ddl
from trident.base.values import NotAccepted, to_arrow


class Arguments:
    """The declared arguments of one DRPC function.

    >>> from trident.base.types import parse_schema
    >>> Arguments("lookup", parse_schema("user long, day string")).bind((1,), {"day": "2024-02-29"})
    [1, '2024-02-29']
    """

    def __init__(self, function: str, declared: StructType) -> None:
        self.function = function
        self.names: list[str] = declared.names
        self.schema = arrow_schema(declared)
        self.signature = f"{function}({ddl(declared)})"

    def bind(self, args: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        """One value for each declared argument, in their order.

        Raises
        ------
        DRPCArgumentError
            There are too many or too few, or one has no such name or not the declared type.
        """
        if len(args) > len(self.names):
            raise self._error(f"{len(args)} arguments came")
        values = dict(zip(self.names, args, strict=False))
        for name, value in named.items():
            if name not in self.names:
                raise self._error(f"there is no argument {name!r}{did_you_mean(name, self.names)}")
            if name in values:
                raise self._error(f"argument {name!r} came twice")
            values[name] = value
        missing = [name for name in self.names if name not in values]
        if missing:
            raise self._error(f"argument {missing[0]!r} is missing")
        for field in self.schema:
            self._check(field, values[field.name])
        return [values[name] for name in self.names]

    def _check(self, field: pa.Field, value: Any) -> None:
        if value is None and not field.nullable:
            raise self._error(f"argument {field.name!r} came as None")
        if type(value) is str and field.type == _STRING:
            return
        try:
            to_arrow([value], field.type)
        except NotAccepted as error:
            why = f": {error.why}" if error.why else ""
            raise self._error(
                f"argument {field.name!r} came as {error.value!r} ({type(error.value).__name__}){why}"
            ) from None

    def columns(self, requests: Sequence[Sequence[Any]]) -> list[pa.Array]:
        """Return the arguments of several requests as columns, with one row for each request."""
        return [
            to_arrow(list(values), field.type)
            for field, values in zip(self.schema, zip(*requests, strict=True), strict=True)
        ]

    def _error(self, what: str) -> DRPCArgumentError:
        return DRPCArgumentError(f"DRPC {self.function!r}: {what}; declared is {self.signature}")


_STRING = pa.string()
