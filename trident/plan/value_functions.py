"""Functions of users that compute the stored values of a state from other values, one by one."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from trident.base.callsite import site_of
from trident.base.errors import StateValueError, UserFunctionError
from trident.base.short_texts import raised, typed_brief
from trident.base.value_conversion import NotAccepted, to_arrow, to_python, type_name
from trident_state.binary_arrays import one_chunk


def computed(
    function: Callable[[Any], Any], values: pa.Array, kind: pa.DataType, where: str, given: str, unchanged: str
) -> pa.Array:
    """Return the results of `function` for each value, as a column of the type `kind`.

    Error messages begin with `where`, name the values by `given`, and end with `unchanged`. Raises
    UserFunctionError if the function fails, and StateValueError if a result does not fit the type.
    """
    former, made = to_python(values), list[Any]()
    try:
        for value in former:
            made.append(function(value))
    except Exception as error:
        raise UserFunctionError(
            f"{where}: {site_of(function)} {raised(error)}; it was called with {given}"
            f"{typed_brief(former[len(made)])}. {unchanged}"
        ) from error
    try:
        return one_chunk(to_arrow(made, kind))
    except NotAccepted as error:
        raise StateValueError(
            f"{where}: {site_of(function)} returned {typed_brief(error.value)} for {given}"
            f"{typed_brief(former[error.row])}, expected {type_name(kind)}{f' ({error.why})' if error.why else ''}. "
            f"{unchanged}"
        ) from error
