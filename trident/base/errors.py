"""Every error that a user can get, in one shallow tree.

A message says what came, where (the step, the user's function with its file and line) and what is accepted.
Where a builtin exception fits, the error inherits it too, so that ``except LookupError`` works as expected.
"""

from typing import ClassVar


class TridentError(Exception):
    """The root of all errors that this library raises."""

    hopeless: ClassVar[bool] = False
    """Whether a batch that failed with this error would fail again in the same way. Such a batch is not retried."""


# --- while a topology is built -----------------------------------------------------------------------------------


class TopologyError(TridentError, ValueError):
    """A call that builds the topology is wrong. Raised at that call, not when the topology starts."""

    hopeless = True


class FieldNotFoundError(TopologyError, LookupError):
    """A verb names a field that the stream does not have; the message lists those it has."""


class DuplicateFieldError(TopologyError):
    """A verb would produce two fields of one name."""


class TypeDeclarationError(TopologyError, TypeError):
    """A type declaration is missing (no type given, no annotation) or cannot be read."""


class ArgumentsError(TopologyError, TypeError):
    """A call of a verb has an argument that it does not take, or lacks one that it needs."""


class DuplicateNameError(TopologyError):
    """Two streams, states or DRPC functions share a name."""


class GuaranteeError(TopologyError):
    """The topology has ``requireExactlyOnce=True``, and a spout and a state that together promise less."""


class MissingPackageError(TopologyError, ImportError):
    """A feature needs a package that is not installed. It comes with an extra of this one."""


class MissingSessionError(TridentError, RuntimeError):
    """An operation needs a Spark session (a ready Column, a DRPC query that only Spark can run), and there is none."""

    hopeless = True


# --- while a batch runs ------------------------------------------------------------------------------------------


class SparkFailedError(TridentError, RuntimeError):
    """Spark could not do the work for a reason of its own, such as the death of a worker."""


class SparkSetupError(SparkFailedError):
    """Spark is not set up for the work: its workers lack a module or run another Python, or the session was stopped."""

    hopeless = True


class FailedException(TridentError):
    """Fail the batch's attempt at once. Any operation may raise this, as in Storm; the batch is retried."""


class UserFunctionError(TridentError):
    """A user's function raised, or returned what was not declared. Names the step, the function and the tuple."""


class UserCodeError(UserFunctionError):
    """A user's function cannot work, whatever the tuples are.

    It cannot be sent to workers, say, or its DataFrame lacks a field.
    """

    hopeless = True


class BatchFailedError(TridentError):
    """A batch failed for good, and its group stopped. Nothing of the batch was applied.

    It failed `maxAttempts` times, or once where another attempt could only fail in the same way. ``__cause__`` is the
    error of the last attempt.
    """


class AttemptCancelledError(TridentError):
    """An attempt was cancelled from outside: by a timeout, a stop, or the failure of an earlier batch."""


class BatchTimeoutError(TridentError, TimeoutError):
    """Work on a batch took longer than `messageTimeoutSecs`: an attempt, or a call of a user's code.

    It was cancelled or abandoned, and is retried. The message names the functions and the line at which they were.
    """


class CallHangsError(BatchTimeoutError):
    """A user's code cannot be called again, because an earlier call of it has not returned. The group stops.

    A batch that was frozen stays frozen, and the next start commits it.
    """

    hopeless = True


# --- spouts ------------------------------------------------------------------------------------------------------


class SpoutError(TridentError):
    """A spout cannot emit what it was asked for."""


class SourceUnreadableError(SpoutError, OSError):
    """A file or server of a source cannot be read. The message names it and the reason."""


class MalformedInputError(SpoutError, ValueError):
    """Input does not follow its format (invalid UTF-8, a broken JSON line). The message names file and line or byte."""

    hopeless = True


class SpoutContractError(SpoutError):
    """A spout broke its contract: a transactional replay differs, a plan is not JSON, or fields do not fit."""

    hopeless = True


class FeedTimeoutError(SpoutError, TimeoutError):
    """A batch that was fed was not committed in the given time. It stays fed."""


# --- state -------------------------------------------------------------------------------------------------------


class StateError(TridentError):
    """A state cannot be read or written."""


class StateUnavailableError(StateError, ConnectionError):
    """The store does not answer. A commit is retried with back-off; a read fails with this error."""


class StateFullError(StateError):
    """The store takes no more data (out of memory, disk full). The commit is retried; nothing is half-written."""


class StateLostError(StateError):
    """A store is gone, or further behind than the log can heal. Names both txids and the way out."""


class StateAheadError(StateError):
    """A store has a txid that the log never froze: the log was lost, or is an old copy. Nothing is written."""


class StateBehindError(StateError):
    """A store lacks batches before the one to commit. The runtime heals it from the frozen batches."""

    def __init__(self, message: str, marker: int) -> None:
        super().__init__(message)
        self.marker = marker


class StateOwnedError(StateError):
    """The store's location belongs to another topology or another log, or holds something that is not a state."""


class StateShapeError(StateError):
    """The stored state has other keys, another kind or another aggregator than the topology declares."""


class StateCorruptError(StateError):
    """Stored bytes cannot be what this library wrote. Names the state and the location, not the content."""


class StateRecoveringError(StateError):
    """The store is behind the log and is being healed. Ask again shortly."""


class StateValueError(StateError, ValueError):
    """The state cannot hold a value: it is too big, of the wrong type, or a number out of range."""


class SnapshotMovedError(StateError):
    """A read as of txid S came too late: the store is past it. The reader takes a newer S and reads again."""


class StateKeyError(StateError, TypeError):
    """A key does not fit the state's key fields. Names these and what came."""


class StateKeyNotFoundError(StateError, KeyError):
    """Nothing is stored under this key. A KeyError, as readers of a mapping expect."""

    __str__ = Exception.__str__  # KeyError's own would put the message in quotes


class StateClosedError(StateError, RuntimeError):
    """A state object was used after the call that received it."""


# --- output ------------------------------------------------------------------------------------------------------


class OutputError(TridentError):
    """An output did not take a batch: a function given to foreachBatch raised, or a file could not be written.

    The batch is frozen, and is handed over again.
    """


class OutputUnavailableError(OutputError, OSError):
    """An output's target is away or full (a connection, a disk). The hand-over is retried for `commitRetrySecs`."""


class OutputConflictError(OutputError):
    """An output's location holds something that this topology did not write. Nothing of it was touched."""

    hopeless = True


class FencedError(TridentError):
    """A later driver has taken over this topology. This one stops without writing."""


# --- log and start -----------------------------------------------------------------------------------------------


class LogError(TridentError):
    """The transaction log cannot be used."""


class LogCorruptError(LogError):
    """The log's bytes are damaged, or not those of a log. Nothing was written."""


class LogMismatchError(LogError):
    """The states belong to another log than the one under this checkpointLocation."""


class TopologyActiveError(TridentError, RuntimeError):
    """A topology of this name is already active in this process. The message names the ways out."""


class CodeChangedError(TridentError):
    """The changed topology cannot apply a frozen batch that waits. Names what changed and the way out."""


# --- queries -----------------------------------------------------------------------------------------------------


class DRPCError(TridentError):
    """A DRPC request failed."""


class DRPCNotFoundError(DRPCError, LookupError):
    """There is no DRPC function of this name. Lists the existing ones."""


class DRPCArgumentError(DRPCError, TypeError):
    """The arguments do not fit those that the function declares."""


class DRPCTimeoutError(DRPCError, TimeoutError):
    """The answer did not come in time."""
