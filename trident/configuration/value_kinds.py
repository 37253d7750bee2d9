"""The kinds of values that options of a start take, with functions that check them and read them from files or text.

Each start imports this module before Spark warms up, so it makes slow imports only for values that need them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trident.base.argument_checks import check_flag, check_whole_number
from trident.base.durations import read_limit, read_seconds
from trident.base.errors import TopologyError
from trident.base.names import check_name, did_you_mean
from trident.base.user_config import UserConfig, check_user_values
from trident.configuration.file_locations import check_storage, files_place, folder
from trident.plan.debugged_steps import check_debug
from trident.plan.parallelism_hints import check_hints
from trident.plan.spout_options import check_spout_options, joined_spout_options
from trident_spouts.wait_strategy import check_wait_strategy


def _same(_: str, value: Any) -> Any:
    return value


def _latter(_: Any, later: Any) -> Any:
    return later


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of values. Its functions raise TopologyError for a value of another kind."""

    check: Callable[[str, Any], Any]
    """A function of an option's name and the value in a call of `start`. It returns the value that the run uses."""
    of_text: Callable[[str], Any] | None = str
    """Converts a text of the environment or the command line; None if the option belongs to the call alone."""
    of_file: Callable[[str, Any], Any] = _same
    """A function of an option's name and the value in a file.

    It returns the value that a call of `start` would have.
    """
    joined: Callable[[Any, Any], Any] = _latter
    """A function of the value of a layer and the value of a later layer. It returns the value of both."""

    def read(self, option: str, value: Any) -> Any:
        """Return the value that a call of `start` would have for a value in a file.

        Raises TopologyError for a wrong value.
        """
        given = self.of_file(option, value)
        self.check(option, given)
        return given


# --- texts ------------------------------------------------------------------------------------------------------------


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


def _hints_of(text: str) -> Any:
    """Return the partitions by step in a text such as ``words=4,lines=2``."""
    hints = {name: _number_of(count) for name, count in pairs_of(text).items()}
    if not all(name and isinstance(count, int) for name, count in hints.items()):
        raise TopologyError(f"parallelismHints={text!r}: expected step=number, words=4 or words=4,lines=2")
    return hints


def _names_of(text: str) -> list[str]:
    """Return the names in a text such as ``counts,totals``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _debug_of(text: str) -> Any:
    """Return True or False, or the steps in a text such as ``words/1,counts``."""
    flag = _flag_of(text)
    return flag if isinstance(flag, bool) else _names_of(text)


def _scalar_of(text: str) -> Any:
    flag = _flag_of(text)
    return flag if isinstance(flag, bool) else _number_of(text)


def _spout_options_of(text: str) -> Any:
    """Return the options by stream in a text such as ``orders.maxOffsetsPerBatch=1000,clicks.kind=opaque``."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in pairs_of(text).items():
        stream, dot, option = name.rpartition(".")
        if not dot:
            raise TopologyError(f"spouts={text!r}: expected stream.option=value, orders.maxOffsetsPerBatch=1000")
        found.setdefault(stream, {})[option] = _scalar_of(value)
    return found


def pairs_of(text: str) -> dict[str, str]:
    """Return the pairs in a text such as ``region=eu-central-1,secret_access_key=env:MY_SECRET``."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in pairs}


# --- checks -----------------------------------------------------------------------------------------------------------


def _or_none(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Return a check that also accepts None."""
    return lambda option, value: None if value is None else check(option, value)


def _unlimited(_: str, value: Any) -> Any:
    """Return None for "none": TOML and the environment cannot express None otherwise."""
    return None if value == "none" else value


def _names(option: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(name, str) for name in value):
        raise TopologyError(f"{option}={value!r}: expected a list of names, ['counts']")
    return tuple(value)


def _engine(_: str, value: object) -> object:
    from trident.compiler.engine_choice import check_engine_name

    check_engine_name(value)
    return value


def _log(option: str, value: Any) -> Any:
    if not hasattr(value, "open"):
        raise TopologyError(f"{option}= takes a RedisLog (from trident.log), not a {type(value).__name__}")
    return value


def _log_of(option: str, value: Any) -> Any:
    """Return the log in Redis that a url, or a table of RedisLog's parameters, describes."""
    from trident.log import RedisLog

    parameters = {"url": value} if isinstance(value, str) else value
    known = RedisLog.__dataclass_fields__
    if not isinstance(parameters, Mapping) or "url" not in parameters:
        raise TopologyError(f"{option}: expected the url of a server, or a table with url")
    for parameter in parameters:
        if parameter not in known:
            raise TopologyError(
                f"{option} has no {parameter!r}{did_you_mean(parameter, known)}; it takes {', '.join(known)}"
            )
    try:
        return RedisLog(**parameters)
    except (TypeError, ValueError) as error:
        raise TopologyError(f"{option}: {error}") from None


def _folder_of(option: str, value: object) -> object:
    if not isinstance(value, str):
        raise TopologyError(f"{option}={value!r}: expected the path of a folder")
    return value


def _url(_: str, value: Any) -> Any:
    files_place(value, None)
    return value


def _user(option: str, value: Any) -> UserConfig:
    check_user_values(option, value)
    return value if isinstance(value, UserConfig) else UserConfig(value)


# --- kinds ------------------------------------------------------------------------------------------------------------

FLAG = Kind(check_flag, _flag_of)
COUNT = Kind(check_whole_number, _number_of)
SIZE = Kind(partial(check_whole_number, least=0), _number_of)
ATTEMPTS = Kind(_or_none(check_whole_number), _number_of, _unlimited)
DURATION = Kind(read_seconds, _duration_of)
LIMIT = Kind(read_limit, _duration_of, _unlimited)
"""A duration, or None without a limit."""
LIMIT_OR_ZERO = Kind(partial(read_limit, zero=True), _duration_of, _unlimited)
ENGINE = Kind(_engine)
LOG = Kind(_or_none(_log), of_file=_log_of)
FOLDER = Kind(_or_none(lambda _, value: folder(value)), of_file=_folder_of)
FILES_URL = Kind(_or_none(_url))
STORAGE = Kind(_or_none(check_storage), pairs_of)
NAMES = Kind(_or_none(_names), _names_of)
DEBUG = Kind(check_debug, _debug_of)
HINTS = Kind(_or_none(check_hints), _hints_of)
SPOUTS = Kind(_or_none(check_spout_options), _spout_options_of, joined=joined_spout_options)

NAME = Kind(lambda _, value: check_name("topology", value), of_text=None)
CALL_FLAG = Kind(check_flag, of_text=None)
CALL_CHOICE = Kind(_or_none(check_flag), of_text=None)
USER = Kind(_or_none(_user), of_text=None)
WAIT_STRATEGY = Kind(lambda _, value: check_wait_strategy(value), of_text=None)
