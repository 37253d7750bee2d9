"""The options of a start that a file or the environment can set: the default of each, and how its value is read.

Each start imports this module before Spark warms up, so slow imports are made only for values that need them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from trident.base.durations import read_limit, read_seconds
from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.plan.hints import check_hints
from trident.run.options import at_least, files_place, flag, folder

if TYPE_CHECKING:
    from trident.log import RedisLog

Check = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its default, the check of its value, and the conversion of an environment variable's text."""

    default: Any
    check: Check
    of_text: Callable[[str], Any]


def _flag_of(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), text)


def _number_of(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text


def _duration_of(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _text(text: str) -> Any:
    return text


def _limit(name: str, value: Any, *, zero: bool = False) -> Any:
    """Check a duration, or "none" for no limit: TOML and the environment cannot express None otherwise."""
    unlimited = None if value == "none" else value
    read_limit(name, unlimited, zero=zero)
    return unlimited


def _attempts(name: str, value: Any) -> Any:
    """Check a number of attempts, or "none" for no limit."""
    return None if value in ("none", None) else at_least(1, name, value)


def _duration(name: str, value: Any) -> Any:
    read_seconds(name, value)
    return value


def _folder(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        raise TopologyError(f"{name}={value!r}: expected the path of a folder")
    folder(value)
    return value


def _hints_of(text: str) -> Any:
    """Return the partitions by step in a text such as ``words=4,lines=2``."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): _number_of(count) for name, _, count in pairs}


def pairs_of(text: str) -> Any:
    """Return the pairs in a text such as ``region=eu-central-1,secret_access_key=env:MY_SECRET``."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _files_location(name: str, value: Any) -> Any:
    files_place(value, None)
    return value


def _files_storage(name: str, value: Any) -> Any:
    from trident.files.object_options import Storage

    Storage.of(value, name)
    return value


def _hints(name: str, value: Any) -> Any:
    return value if value is None else check_hints(name, value)


def _engine(name: str, value: Any) -> Any:
    from trident.compiler.engine_choice import check_engine_name

    check_engine_name(value)
    return value


def _log(name: str, value: Any) -> "RedisLog":
    """Return the log in Redis that a url, or a table of RedisLog's parameters, describes."""
    from trident.log import RedisLog

    parameters = {"url": value} if isinstance(value, str) else value
    known = RedisLog.__dataclass_fields__
    if not isinstance(parameters, Mapping) or "url" not in parameters:
        raise TopologyError(f"{name}: expected the url of a server, or a table with url")
    for parameter in parameters:
        if parameter not in known:
            raise TopologyError(
                f"{name} has no {parameter!r}{did_you_mean(parameter, known)}; it takes {', '.join(known)}"
            )
    try:
        return RedisLog(**parameters)
    except (TypeError, ValueError) as error:
        raise TopologyError(f"{name}: {error}") from None


OPTIONS: Mapping[str, Option] = {
    "engine": Option("spark", _engine, _text),
    "checkpointLocation": Option(None, _folder, _text),
    "log": Option(None, _log, _text),
    "filesLocation": Option(None, _files_location, _text),
    "filesStorage": Option(None, _files_storage, pairs_of),
    "availableNow": Option(False, flag, _flag_of),
    "processingTime": Option(None, partial(_limit, zero=True), _duration_of),
    "requireExactlyOnce": Option(False, flag, _flag_of),
    "standby": Option(False, flag, _flag_of),
    "leaseSecs": Option(10.0, _duration, _duration_of),
    "maxAttempts": Option(5, _attempts, _number_of),
    "retrySecs": Option(None, partial(_limit, zero=True), _duration_of),
    "maxSpoutPending": Option(2, partial(at_least, 1), _number_of),
    "messageTimeoutSecs": Option(300.0, _duration, _duration_of),
    "commitRetrySecs": Option(300.0, partial(_limit, zero=True), _duration_of),
    "rewindBytes": Option(2 << 30, partial(at_least, 0), _number_of),
    "targetBatchSecs": Option(None, _limit, _duration_of),
    "active": Option(True, flag, _flag_of),
    "parallelismHints": Option(None, _hints, _hints_of),
    "ledger": Option(False, flag, _flag_of),
}
"""The options by name. The name of a topology, `takeover`, `replace`, `waitStrategy` and `clock` belong to the call
alone."""
