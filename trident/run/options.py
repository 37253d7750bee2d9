"""The options of a start, each checked with an error that says what is accepted."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.paths import local_path

_UNITS = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "min": 60.0,
    "minute": 60.0,
    "hour": 3600.0,
}


def check_known(starts: Iterable[Callable[..., Any]], given: Mapping[str, Any]) -> None:
    """Raise TopologyError for an option that is not a keyword parameter of one of the functions `starts`."""
    parameters = [parameter for start in starts for parameter in inspect.signature(start).parameters.values()]
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for option in given:
        if option not in known:
            raise TopologyError(
                f"start has no option {option!r}{did_you_mean(option, known)}; its options are {', '.join(known)}"
            )


def folder(checkpointLocation: str | Path) -> Path:
    """Return the absolute folder that a checkpointLocation names.

    >>> folder("file:///data/checkpoint").as_posix()
    '/data/checkpoint'
    """
    return local_path(
        "checkpointLocation",
        checkpointLocation,
        "the log needs locks and fsync, which {scheme}: has not. Name a folder on a disk of the driver; for a driver "
        "that moves, log=RedisLog(...) with states in Redis",
    )


def seconds(interval: str | float | None) -> float | None:
    """Return a trigger's interval in seconds. It is given as PySpark writes it ("1 second"), or as a number of seconds.

    >>> seconds("500 milliseconds")
    0.5
    """
    if interval is None or isinstance(interval, int | float):
        length = interval
    else:
        parts = re.fullmatch(r"\s*([\d.]+)\s*([a-z]+?)s?\s*", interval.lower())
        unit = None if parts is None else _UNITS.get(parts[2]) or _UNITS.get(parts[2] + "s")
        if parts is None or unit is None:
            raise TopologyError(f"processingTime={interval!r}: write for example '1 second', '500 milliseconds' or 0.5")
        length = float(parts[1]) * unit
    if length is not None and length < 0:
        raise TopologyError(f"processingTime={interval!r} is negative")
    return length


def at_least(least: int, option: str, value: int) -> int:
    """Return the value of an option if it is a whole number of at least `least`; refuse it otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise TopologyError(f"{option}={value!r}: expected a whole number of at least {least}")
    return value
