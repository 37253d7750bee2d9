"""The options of a start. Each is declared only here.

`OptionValues` has a line for each option: the type that a run uses, the default, the kind of its values, and one line
of help. `StartOptions` has the option's type for the callers of `start`; tests compare the two, the docstring of
``TridentTopology.start``, and the table in ``docs/guide/running.md``. The configuration file, the environment and the
command line follow from `OPTIONS`.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from trident.base.durations import Duration
from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.configuration import value_kinds as kinds
from trident.configuration.options_elsewhere import elsewhere
from trident.plan.debugged_steps import DebugSteps
from trident.plan.spout_options import SpoutOptions
from trident.plan.topology_protocol import EngineName
from trident_spouts.wait_strategy import WaitStrategy

if TYPE_CHECKING:
    from trident.log import RedisLog

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a start."""

    default: Any
    kind: kinds.Kind
    help: str

    @property
    def outside(self) -> bool:
        """True if a file, the environment or the command line may set it."""
        return self.kind.of_text is not None

    def of_text(self, text: str) -> Any:
        """Return the value that would mean the same in a file as `text` in the environment or on the command line."""
        assert self.kind.of_text is not None
        return self.kind.of_text(text)


def _option(default: Any, kind: kinds.Kind, help: str) -> Any:
    """Return a dataclass field for the value of an option."""
    return dataclasses.field(default=default, metadata={"option": Option(default, kind, help)})


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionValues:
    """The checked value of each option of a start. Durations are seconds."""

    engine: EngineName = _option("spark", kinds.ENGINE, "the engine of the batches: Spark, this process, or both")
    name: str = _option("topology", kinds.NAME, "the topology's identity, by which a restart finds states and position")
    checkpointLocation: Path | None = _option(None, kinds.FOLDER, "the folder of log and memory states, on a disk here")
    log: "RedisLog | None" = _option(None, kinds.LOG, "the log on a Redis server, for a driver that may move")
    filesLocation: str | None = _option(None, kinds.FILES_URL, "the URL of an object store or HDFS for the run's files")
    filesStorage: Mapping[str, str] | None = _option(None, kinds.STORAGE, "the options of that object store")
    availableNow: bool = _option(False, kinds.FLAG, "process the data that the sources have now, then stop")
    processingTime: float | None = _option(None, kinds.LIMIT_OR_ZERO, "the shortest time between two batch starts")
    requireExactlyOnce: bool = _option(False, kinds.FLAG, "refuse a topology with a weaker guarantee")
    standby: bool = _option(False, kinds.FLAG, "wait until the driver of the log has stopped or is silent")
    takeover: bool | None = _option(None, kinds.CALL_CHOICE, "True: take the log over at once, as without `standby`")
    leaseSecs: float = _option(10.0, kinds.DURATION, "a standby takes over if the driver is silent for this long")
    maxAttempts: int | None = _option(5, kinds.ATTEMPTS, "attempts at one batch before its group stops; None: no limit")
    retrySecs: float | None = _option(None, kinds.LIMIT_OR_ZERO, "total pauses between retries of a failed batch")
    maxSpoutPending: int = _option(2, kinds.COUNT, "batches in progress at once; they commit in order")
    messageTimeoutSecs: float = _option(
        300.0, kinds.DURATION, "the time for an attempt, and for each call of your code"
    )
    commitRetrySecs: float | None = _option(300.0, kinds.LIMIT_OR_ZERO, "total pauses between retries of a commit")
    rewindBytes: int = _option(2 << 30, kinds.SIZE, "frozen bytes kept for a store that loses its last writes")
    targetBatchSecs: float | None = _option(None, kinds.LIMIT, "size the batches so that each takes about this long")
    autoRows: int = _option(10_000_000, kinds.COUNT, 'engine="auto": the most tuples of a stage in this process')
    autoBytes: int = _option(1 << 29, kinds.COUNT, 'engine="auto": the most bytes of a stage in this process')
    driverRows: int = _option(
        20_000, kinds.SIZE, 'engine="spark": the most tuples of a stage without your code in this process'
    )
    active: bool = _option(True, kinds.FLAG, "False: start INACTIVE, and plan no batch before `running.activate()`")
    parallelismHints: Mapping[str, int] | None = _option(None, kinds.HINTS, "numbers of partitions, by step")
    spouts: SpoutOptions | None = _option(None, kinds.SPOUTS, "options of spouts, by stream")
    ledger: bool = _option(False, kinds.FLAG, "count rows between steps; fail a batch that lost or doubled one")
    debug: DebugSteps = _option(
        False, kinds.DEBUG, "True: log a line for each batch; names of steps: also a line for each of their tuples"
    )
    waitStrategy: WaitStrategy | None = _option(
        None, kinds.WAIT_STRATEGY, "the pause before an idle spout is called again"
    )
    acceptSteps: Sequence[str] | None = _option(
        None, kinds.NAMES, "states that keep their rows although steps before them have changed"
    )
    user: Mapping[str, Any] | None = _option(None, kinds.USER, "user configuration, for spouts and operations")
    replace: bool = _option(False, kinds.CALL_FLAG, "stop the topology of this name in this process; take its place")


class StartOptions(TypedDict, total=False):
    """The options of a start for type checkers. `TridentTopology.start` describes them."""

    engine: EngineName | None
    name: str | None
    checkpointLocation: str | Path | None
    log: "RedisLog | None"
    filesLocation: str | None
    filesStorage: Mapping[str, str] | None
    availableNow: bool
    processingTime: Duration | None
    requireExactlyOnce: bool
    standby: bool
    takeover: bool | None
    leaseSecs: Duration
    maxAttempts: int | None
    retrySecs: Duration | None
    maxSpoutPending: int
    messageTimeoutSecs: Duration
    commitRetrySecs: Duration | None
    rewindBytes: int
    targetBatchSecs: Duration | None
    autoRows: int
    autoBytes: int
    driverRows: int
    active: bool
    parallelismHints: Mapping[str, int] | None
    spouts: SpoutOptions | None
    ledger: bool
    debug: bool | Sequence[str]
    waitStrategy: WaitStrategy | None
    acceptSteps: Sequence[str] | None
    user: Mapping[str, Any] | None
    replace: bool


OPTIONS: Mapping[str, Option] = {each.name: each.metadata["option"] for each in dataclasses.fields(OptionValues)}
"""The options by name."""

OUTSIDE: Mapping[str, Option] = {name: option for name, option in OPTIONS.items() if option.outside}
"""The options that a file, the environment and the command line may set."""


def checked(given: Mapping[str, Any]) -> OptionValues:
    """Return the value of each option after the call `given`. Raises TopologyError for a wrong name or value."""
    for name in given:
        if name not in OPTIONS:
            raise _unknown(name)
    return OptionValues(**{name: OPTIONS[name].kind.check(name, value) for name, value in given.items()})


def _unknown(name: str) -> TopologyError:
    if hint := elsewhere(name, tuple(OPTIONS)):
        return TopologyError(f"start has no option {name!r}: {hint}")
    near = did_you_mean(name, OPTIONS)
    return TopologyError(f"start has no option {name!r}{near}; its options are {', '.join(OPTIONS)}")


def shows_options(call: _F) -> _F:
    """Let the signature of a function with ``**options: Unpack[StartOptions]`` show each option and its default.

    Type checkers look into `StartOptions`; `help` and notebooks look at this signature.
    """
    signature = inspect.signature(call)
    types = StartOptions.__annotations__
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=types.get(name, Any))
        for name, option in OPTIONS.items()
    ]
    kept = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    call.__signature__ = signature.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    return call
