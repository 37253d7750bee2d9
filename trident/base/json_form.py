"""The form in which the log stores the JSON that a user's code returns: a position, a checkpoint."""

import math
from typing import Any, TypeAlias

from trident.base.short_texts import typed_brief

Json: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None

_EXPECTED = "expected JSON, which the log can keep, got"


def json_form(value: Any, where: str) -> Json:
    """Return a value in the form in which the log returns it, with lists in place of tuples.

    Raises ValueError, which begins with `where`, for a value that JSON does not have or would change. `json.dumps`
    would write a key that is a number as a text, so that the code that gets the value back no longer finds the key.

    >>> json_form({"offset": (1, 2)}, "here")
    {'offset': [1, 2]}
    >>> json_form({"at": {5}}, "here")
    Traceback (most recent call last):
    ValueError: here['at']: expected JSON, which the log can keep, got {5} (set)
    >>> json_form({1: "a"}, "here")
    Traceback (most recent call last):
    ValueError: here: expected JSON, which the log can keep, got the key 1 (int); JSON has keys of type str only
    """
    try:
        return _form(value, where)
    except RecursionError:
        raise ValueError(
            f"{where}: expected JSON, which the log can keep, got a value that is nested too deeply"
        ) from None


def _form(value: Any, where: str) -> Json:
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [_form(item, f"{where}[{at}]") for at, item in enumerate(value)]
    expected = f"{where}: {_EXPECTED}"
    if not isinstance(value, dict):
        raise ValueError(f"{expected} {typed_brief(value)}")
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{expected} the key {typed_brief(key)}; JSON has keys of type str only")
    return {key: _form(item, f"{where}[{key!r}]") for key, item in value.items()}
