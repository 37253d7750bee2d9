"""Every error that a user can meet, in one shallow tree.

A message says what came, where (the step, the user's function with its file and line) and what is accepted.
Where a builtin exception fits, it is inherited too, so that ``except LookupError`` works as one expects.
"""

from typing import ClassVar


class TridentError(Exception):
    """The root of all errors that this library raises."""

    hopeless: ClassVar[bool] = False
    """Whether a batch that failed with it would fail in the same way again: it is not tried again."""


# --- while a topology is built -----------------------------------------------------------------------------------


class TopologyError(TridentError, ValueError):
    """The topology cannot mean what it says; raised where the wrong call stands."""

    hopeless = True


class FieldNotFoundError(TopologyError, LookupError):
    """A verb names a field that the stream does not have; the message lists those it has."""


class DuplicateFieldError(TopologyError):
    """A verb would give two fields of one name."""


class TypeDeclarationError(TopologyError, TypeError):
    """A type is neither given, nor declared, nor readable from annotations, or it cannot be read."""


class ArgumentsError(TopologyError, TypeError):
    """A verb was called with an argument that it does not take, or without one that it needs."""


class DuplicateNameError(TopologyError):
    """Two streams, states or DRPC functions share a name."""


class GuaranteeError(TopologyError):
    """``requireExactlyOnce=True`` met a pairing that promises less."""


class MissingPackageError(TopologyError, ImportError):
    """What was asked for needs a package that is not installed: an extra of this one."""


class MissingSessionError(TridentError, RuntimeError):
    """An operation needs a Spark session (a ready Column, a DRPC query that only Spark can run) and there is none."""

    hopeless = True


# --- while a batch runs ------------------------------------------------------------------------------------------


class SparkFailedError(TridentError, RuntimeError):
    """Spark could not do the work for a reason of its own: a worker died, say."""


class SparkSetupError(SparkFailedError):
    """Spark is not set up for the work: its workers lack a module or run another Python, the session was stopped."""

    hopeless = True


class FailedException(TridentError):
    """Raise it in any operation to fail the batch's attempt at once, as in Storm; the batch is tried again."""


class UserFunctionError(TridentError):
    """A user's function raised, or gave what was not declared; names the step, the function and the tuple."""


class UserCodeError(UserFunctionError):
    """A user's function cannot work whatever the tuples are: it cannot be sent to workers, or its DataFrame lacks a
    field."""

    hopeless = True


class BatchFailedError(TridentError):
    """A batch failed `maxAttempts` times, or once where another attempt could only fail in the same way; its group
    stopped. Nothing of the batch was applied. ``__cause__`` is what it failed with."""


class AttemptCancelledError(TridentError):
    """An attempt's work was stopped from outside (a timeout, a stop, an earlier batch that failed)."""


class BatchTimeoutError(TridentError, TimeoutError):
    """Work on a batch took longer than `messageTimeoutSecs`: an attempt, or a call of a user's code. It was cancelled,
    or left alone, and is tried again; the message names the functions and the line at which they were."""


class CallHangsError(BatchTimeoutError):
    """A user's code cannot be called again, because an earlier call of it has not come back; the group stops. A batch
    that was frozen stays so, and the next start commits it."""

    hopeless = True


# --- spouts ------------------------------------------------------------------------------------------------------


class SpoutError(TridentError):
    """A source cannot give what it was asked for."""


class SourceUnreadableError(SpoutError, OSError):
    """A file or server of a source cannot be read; names it and the reason."""


class MalformedInputError(SpoutError, ValueError):
    """Input that is not what its format says: invalid UTF-8, a broken JSON line; names file and line or byte."""

    hopeless = True


class SpoutContractError(SpoutError):
    """A spout broke its promise: a transactional replay differs, a plan is not JSON, fields do not fit."""

    hopeless = True


class FeedTimeoutError(SpoutError, TimeoutError):
    """A batch that was fed was not committed in the time given; it stays fed."""


# --- state -------------------------------------------------------------------------------------------------------


class StateError(TridentError):
    """A state cannot be read or written."""


class StateUnavailableError(StateError, ConnectionError):
    """The store does not answer; the commit is retried with back-off, a read fails with this."""


class StateFullError(StateError):
    """The store takes no more (out of memory, disk full); retried, nothing half-written."""


class StateLostError(StateError):
    """A store is further behind than the log can heal, or gone; names both txids and the way out."""


class StateAheadError(StateError):
    """A store knows a txid that the log never froze: the log was lost or is an old copy. Nothing is written."""


class StateBehindError(StateError):
    """A store's marker is below the txid before the one to commit; the runtime heals it from the frozen batches."""

    def __init__(self, message: str, marker: int) -> None:
        super().__init__(message)
        self.marker = marker


class StateOwnedError(StateError):
    """The store's place belongs to another topology, another log, or is no state of ours at all."""


class StateShapeError(StateError):
    """The stored state has other keys, another kind or another aggregator than the topology declares."""


class StateCorruptError(StateError):
    """Stored bytes cannot be what we wrote; names the state and the place, not the content."""


class StateRecoveringError(StateError):
    """The store is behind the log and being healed; ask again shortly."""


class StateValueError(StateError, ValueError):
    """A value that the state cannot hold: too big, of the wrong type, a number out of range."""


class SnapshotMovedError(StateError):
    """A read as of txid S came too late: the store has gone on. The reader takes a newer S and reads again."""


class StateKeyError(StateError, TypeError):
    """A key that does not fit the state's key fields; names those and what came."""


class StateKeyNotFoundError(StateError, KeyError):
    """Nothing is stored under this key. A KeyError, as a mapping's reader expects."""

    __str__ = Exception.__str__  # KeyError's own would put the message in quotes


class StateClosedError(StateError, RuntimeError):
    """A state object was used after the call that it was given to."""


# --- output ------------------------------------------------------------------------------------------------------


class OutputError(TridentError):
    """An output did not take a batch: a function given to foreachBatch raised, a file could not be written. The batch
    is frozen and is handed over again."""


class OutputUnavailableError(OutputError, OSError):
    """Where an output goes is away or full (a connection, a disk); handed over again for `commitRetrySecs`."""


class OutputConflictError(OutputError):
    """The place of an output holds something else than what this topology wrote there; nothing of it was touched."""

    hopeless = True


class FencedError(TridentError):
    """A later driver has taken this topology over; this one stops without writing."""


# --- log, start, life cycle --------------------------------------------------------------------------------------


class LogError(TridentError):
    """The transaction log cannot be used."""


class LogCorruptError(LogError):
    """The log's bytes are damaged or not a log of ours; nothing was written."""


class LogMismatchError(LogError):
    """The states belong to another log than the one under this checkpointLocation."""


class TopologyActiveError(TridentError, RuntimeError):
    """A topology of this name is active in this process already; the message names the ways out."""


class CodeChangedError(TridentError):
    """A frozen batch waits that the changed topology cannot apply; names what changed and the way out."""


# --- queries -----------------------------------------------------------------------------------------------------


class DRPCError(TridentError):
    """A DRPC request failed."""


class DRPCNotFoundError(DRPCError, LookupError):
    """No DRPC function of that name; lists those there are."""


class DRPCArgumentError(DRPCError, TypeError):
    """The arguments do not fit the function's declared ones."""


class DRPCTimeoutError(DRPCError, TimeoutError):
    """The answer did not come in time."""
