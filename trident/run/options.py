"""The options of a start. Each is checked, and its error names the accepted values."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from trident.base.durations import Duration
from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.paths import local_path
from trident.run.options_elsewhere import elsewhere
from trident_spouts.wait_strategy import WaitStrategy

if TYPE_CHECKING:
    from trident.files.store import FileStore
    from trident.log import RedisLog


class StartOptions(TypedDict, total=False):
    """The options of a start for type checkers, without `name` and `checkpointLocation`. `start_on` documents them."""

    log: "RedisLog | None"
    filesLocation: "str | None"
    filesStorage: "Mapping[str, str] | None"
    availableNow: bool
    processingTime: Duration | None
    requireExactlyOnce: bool
    maxAttempts: int | None
    retrySecs: Duration | None
    maxSpoutPending: int
    messageTimeoutSecs: Duration
    commitRetrySecs: Duration | None
    rewindBytes: int
    targetBatchSecs: Duration | None
    active: bool
    parallelismHints: "Mapping[str, int] | None"
    ledger: bool
    waitStrategy: WaitStrategy | None
    replace: bool
    standby: bool
    takeover: bool | None
    leaseSecs: Duration


def check_known(starts: Iterable[Callable[..., Any]], given: Mapping[str, Any]) -> None:
    """Raise TopologyError for an option that is not a keyword parameter of one of the functions `starts`."""
    parameters = [parameter for start in starts for parameter in inspect.signature(start).parameters.values()]
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for option in given:
        if option in known:
            continue
        if hint := elsewhere(option, tuple(known)):
            raise TopologyError(f"start has no option {option!r}: {hint}")
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
        "that moves, log=RedisLog(...), with states in Redis or a filesLocation",
    )


def files_place(filesLocation: str | None, filesStorage: Mapping[str, str] | None) -> "FileStore | None":
    """Return the place of all topologies' files that a URL names; None if the files are under the checkpointLocation.

    Raises TopologyError if the location or an option of the store is none.
    """
    if filesLocation is None:
        if filesStorage:
            raise TopologyError("filesStorage= are the options of the store that filesLocation= names; give that too")
        return None
    from trident.files.object_options import Storage
    from trident.files.urls import files_by_url

    if not isinstance(filesLocation, str):
        raise TopologyError(
            f"filesLocation={filesLocation!r}: expected a URL such as s3://bucket/prefix or "
            f"hdfs://namenode:8020/folder, as a text"
        )
    return files_by_url("filesLocation", filesLocation, Storage.of(filesStorage, "filesStorage"))


def flag(option: str, value: bool) -> bool:
    """Return the value of an option that is True or False.

    Refuse anything else: in Python the text "no" counts as true.
    """
    if not isinstance(value, bool):
        raise TopologyError(f"{option}={value!r}: expected True or False")
    return value


def check_turn(standby: bool, takeover: bool | None, lasting: bool) -> None:
    """Check that `standby` and `takeover` together say when a start takes the log.

    Raises TopologyError if they do not.
    """
    if takeover is not None:
        flag("takeover", takeover)
    if not flag("standby", standby):
        if takeover is False:
            raise TopologyError(
                "takeover=False: a start takes over at once, or stands by with standby=True until the driver that "
                "holds the log has stopped or is silent for leaseSecs"
            )
        return
    if takeover:
        raise TopologyError(
            "standby=True with takeover=True: a standby waits for its turn, takeover=True does not; give one of them"
        )
    if not lasting:
        raise TopologyError(
            "standby=True without a log that others share: give checkpointLocation=, or log=RedisLog(...) for drivers "
            "on other machines"
        )


def at_least(least: int, option: str, value: int) -> int:
    """Return the value of an option that is a whole number of at least `least`. Refuse anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise TopologyError(f"{option}={value!r}: expected a whole number of at least {least}")
    return value
