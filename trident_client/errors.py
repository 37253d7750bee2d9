"""Every error that a user can get, in one shallow tree.

A message names the wrong value, its place (the step, the user's function with its file and line) and the accepted
values. If a builtin exception fits, the error inherits from it too, so that ``except LookupError`` works as expected.
"""

from typing import ClassVar

from trident_client.notebook import short_traceback


class TridentError(Exception):
    """The root of all errors that this library raises."""

    hopeless: ClassVar[bool] = False
    """True if a batch that failed with this error would fail again in the same way. Such a batch is not retried."""

    step: str | None = None
    """The label of the step that failed; None if it is not known, or if no single step failed."""

    def _render_traceback_(self) -> list[str]:
        """Return the text that a notebook shows for this error. IPython calls this method in place of its traceback."""
        return short_traceback(self)


# --- while a topology is built -----------------------------------------------------------------------------------


class TopologyError(TridentError, ValueError):
    """A call that builds the topology is wrong. Raised at that call, not when the topology starts."""

    hopeless = True


class FieldNotFoundError(TopologyError, LookupError):
    """A verb names a field that the stream does not have. The message lists the stream's fields."""


class DuplicateFieldError(TopologyError):
    """A verb would produce two fields of one name."""


class TypeDeclarationError(TopologyError, TypeError):
    """A type declaration is missing (no type given, no annotation) or cannot be read."""


class ArgumentsError(TopologyError, TypeError):
    """A verb is called with an argument that it does not take, or without one that it needs."""


class DuplicateNameError(TopologyError):
    """Two streams, states or DRPC functions share a name."""


class GuaranteeError(TopologyError):
    """The topology has ``requireExactlyOnce=True``, but one of its states or outputs has a weaker guarantee."""


class MissingPackageError(TopologyError, ImportError):
    """A feature needs a package that is not installed. An extra of trident-pyspark installs that package."""


class MissingSessionError(TridentError, RuntimeError):
    """An operation needs a Spark session (a ready Column, a DRPC query that only Spark can run), and there is none."""

    hopeless = True


# --- while a batch runs ------------------------------------------------------------------------------------------


class SparkFailedError(TridentError, RuntimeError):
    """Spark could not do the work, and the cause is in Spark, such as the death of a worker."""


class SparkSetupError(SparkFailedError):
    """Spark is not set up for the work: its workers lack a module or run another Python, or the session was stopped."""

    hopeless = True


class FailedException(TridentError):
    """Any operation may raise this, as in Storm, to fail the batch's attempt at once. The batch is retried."""


class UserFunctionError(TridentError):
    """A user's function raised an error, or returned something other than it declares.

    The message names the step, the function and the tuple.
    """

    away: bool = False
    """For the library: whether the function failed on a worker because a service that it needs did not answer."""

    row: int | None = None
    """For the library: the number of the row, among the tuples of one call of a step, on which the function failed.
    None if the error does not belong to a single tuple."""

    of_spark: str | None = None
    """For the library: Spark's own message, if Spark failed in an expression and the step is not known."""


class UserCodeError(UserFunctionError):
    """A user's function cannot work, whatever the tuples are.

    For example, it cannot be sent to workers, or the DataFrame that it returns lacks a field.
    """

    hopeless = True


class BatchFailedError(TridentError):
    """A batch failed for good, and its batch group stopped. Nothing of the batch was applied.

    The batch failed `maxAttempts` times, or once if another attempt could only fail in the same way. ``__cause__`` is
    the error of the last attempt.
    """


class AttemptCancelledError(TridentError):
    """An attempt was cancelled from outside: by a timeout, a stop, or the failure of an earlier batch."""


class BatchTimeoutError(TridentError, TimeoutError):
    """An attempt of a batch, or a call of a user's code for a batch, took longer than `messageTimeoutSecs`.

    The work was cancelled or abandoned, and is retried. The message names the functions that may have been running, and
    the line that they had reached, if it is known.
    """


class CallHangsError(BatchTimeoutError):
    """A user's code cannot be called again, because an earlier call of it has not returned. The batch group stops.

    A batch that was frozen stays frozen, and the next start commits it.
    """

    hopeless = True


class LedgerError(TridentError):
    """Rows of a batch were lost or doubled between two steps. Only ``start(ledger=True)`` notices this.

    Nothing of the attempt was frozen, and the batch is tried again. The message names the step, the partition, and how
    many rows it sent and how many arrived.
    """


# --- spouts ------------------------------------------------------------------------------------------------------


class SpoutError(TridentError):
    """A spout cannot return the requested tuples."""


class SourceUnreadableError(SpoutError, OSError):
    """A file or server of a source cannot be read. The message names the file or server, and the reason."""


class DataLossError(SpoutError):
    """A source has lost tuples that the topology has not read yet: retention, a deletion, or a restored server.

    The message names the lost data, as far as the source shows it, and the way to continue without it.
    """

    hopeless = True


class SourceChangedError(SpoutError):
    """A source that may only grow has changed or deleted rows that it had.

    The message names them, as far as the source shows it, and the way to continue without them.
    """

    hopeless = True


class MalformedInputError(SpoutError, ValueError):
    """Input does not follow its format (invalid UTF-8, a broken JSON line).

    The message names the file, and the line or byte.
    """

    hopeless = True


class SpoutContractError(SpoutError):
    """A spout broke its contract: a transactional replay differs, a plan is not JSON, or fields do not fit."""

    hopeless = True


class FeedTimeoutError(SpoutError, TimeoutError):
    """A batch that was fed to a spout was not committed within the given time. The batch stays in the spout."""


# --- state -------------------------------------------------------------------------------------------------------


class StateError(TridentError):
    """A state cannot be read or written."""


class StateUnavailableError(StateError, ConnectionError):
    """The store does not answer. A commit is retried with back-off; a read fails with this error."""


class StateFullError(StateError):
    """The store accepts no further data (out of memory, disk full). The commit is retried; no batch is half-written."""


class StateLostError(StateError):
    """A store is gone, or lacks more batches than the log can heal.

    The message names the txids of the store and the log if they are known, and the way out.
    """


class StateAheadError(StateError):
    """A store has a txid that the log never froze: the log was lost, or is an old copy. Nothing is written."""


class StateBehindError(StateError):
    """A store lacks batches before the one to commit. The run heals the store from the frozen batches."""

    def __init__(self, message: str, marker: int = -1) -> None:
        super().__init__(message)
        self.marker = marker


class StateOwnedError(StateError):
    """The store's location belongs to another topology or another log, or contains other data."""


class StateShapeError(StateError):
    """The keys, the kind or the aggregator of the stored state are not those that the topology declares."""


class StateCorruptError(StateError):
    """Stored bytes are damaged. The message names the state and the location of the bytes, not their content."""


class StateRecoveringError(StateError):
    """The store lacks batches of the log and is being healed. Ask again shortly."""


class StateNotFollowedError(StateRecoveringError):
    """A reader's copy of a state cannot follow the driver's commits, so its values are old. The message says why.

    Often user code fails in the reader's process. The reader tries again, and answers when it succeeds.
    """


class StateValueError(StateError, ValueError):
    """The state cannot hold a value: it is too big, of the wrong type, or a number out of range."""


class SnapshotMovedError(StateError):
    """A read as of a txid came too late: the store has later values only. The read is repeated for a later txid."""


class TxidNotKeptError(StateError):
    """A read as of a txid cannot be answered: the store has only the values of later batches, or no such batch yet.

    `kept` is the range of the txids as of which the state could be read at that time.
    """

    def __init__(self, message: str, kept: range = range(0)) -> None:
        super().__init__(message)
        self.kept = kept


class TagExistsError(StateError):
    """A tag of this name exists already, with other txids. A tag does not move: drop it first, or give another name."""


class TagNotFoundError(StateError):
    """There is no tag of this name; the message lists those that there are."""


class StateEndedError(StateError):
    """The state that a reader had opened was dropped, reset or recreated.

    Values that were read from it are no longer valid, and feeds of its changes end. Open the state again (`openState`,
    `openTopology`), restart each topology that reads it, and begin feeds again with a snapshot: ``client.changes(name,
    snapshot=True)``.
    """


class ChangesMissedError(StateError):
    """The log no longer keeps batches whose changes a reader lacks: those from `first` to `last`.

    Begin again with a snapshot: ``client.changes(name, snapshot=True)``.
    """

    def __init__(self, message: str, first: int = 0, last: int = 0) -> None:
        super().__init__(message)
        self.first, self.last = first, last


class StateNotFoundError(StateError, LookupError):
    """A SQL query names a state that the topology does not have. The message lists the existing ones."""


class StateKeyError(StateError, TypeError):
    """A key does not fit the state's key fields. The message names the key fields and the key that came."""


class StateKeyNotFoundError(StateError, KeyError):
    """Nothing is stored under a key. This is a KeyError, as readers of a mapping expect."""

    __str__ = Exception.__str__  # KeyError's own __str__ would put the message in quotes


class StateClosedError(StateError, RuntimeError):
    """A user's code used a state object after the call to which the object was given had ended."""


# --- files that a run keeps -----------------------------------------------------------------------------------------


class FilesError(TridentError, OSError):
    """The store of a run's files (frozen results, snapshots, outputs) did not carry out a request.

    The message names the store and its reason.
    """


class FilesUnavailableError(FilesError, ConnectionError):
    """The store of files does not answer. An attempt or a commit that needs it is retried; frozen batches are kept."""


class FilesRefusedError(FilesError, PermissionError):
    """The store of files refuses a request: wrong credentials, no such bucket, no permission.

    A retry would not help.
    """

    hopeless = True


# --- output ------------------------------------------------------------------------------------------------------


class OutputError(TridentError):
    """An output did not take a batch: a function given to foreachBatch raised, or a file could not be written.

    The batch is frozen, and is handed to the output again.
    """


class OutputUnavailableError(OutputError, OSError):
    """An output's target is unreachable or full (a server, a disk). The hand-over is retried for `commitRetrySecs`."""


class OutputRefusedError(OutputError):
    """An output's target refuses a batch and would refuse it again: no such topic, no permission, a message too large.

    The batch stays frozen. Once the reason is gone, the next start hands it over.
    """

    hopeless = True


class OutputConflictError(OutputError):
    """An output's location has data that this topology did not write. Nothing there was changed."""

    hopeless = True


class FencedError(TridentError):
    """A later driver has taken over this topology. The driver that gets this error stops without writing."""


# --- log and start -----------------------------------------------------------------------------------------------


class LogError(TridentError):
    """The transaction log cannot be used."""


class LogCorruptError(LogError):
    """The log's bytes are damaged, or are not a log. Nothing was written."""


class LogMismatchError(LogError):
    """The states belong to a log other than the one under this checkpointLocation."""


class SavepointError(TridentError):
    """A savepoint is missing, damaged or taken, or it cannot be taken or forked. The message has the reason."""


class TopologyActiveError(TridentError, RuntimeError):
    """A topology of this name is already active in this process. The message names the ways out."""


class TopologyConditionError(TridentError, RuntimeError):
    """A topology refuses a request in its present condition: it is inactive, rebalancing, killed, or has ended.

    The message names the condition and the way out.
    """


class TopologyNotFoundError(TridentError, LookupError):
    """There is no topology of this name. The message lists the existing ones."""


class StandbyStoppedError(TridentError):
    """A start with ``standby=True`` was stopped while it waited for the driver that holds the log."""


class CodeChangedError(TridentError):
    """The program was changed and cannot apply a waiting batch. The message names the change and the way out."""


# --- queries -----------------------------------------------------------------------------------------------------


class DRPCError(TridentError):
    """A DRPC request failed."""


class DRPCNotFoundError(DRPCError, LookupError):
    """There is no DRPC function of this name. The message lists the existing ones."""


class DRPCArgumentError(DRPCError, TypeError):
    """The arguments of a DRPC request do not fit the arguments that the function declares."""


class DRPCTimeoutError(DRPCError, TimeoutError):
    """A DRPC request was not answered in time."""


class SqlError(TridentError, ValueError):
    """A SQL query over states is wrong: its syntax, a column, a value, an argument. The message has DuckDB's reason.

    `position` is the offset of the place in the query's text, counted in characters from 0; None if it is not known.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class SqlNotAllowedError(SqlError):
    """A SQL query asks for something other than to read states: files, settings, another kind of statement.

    Nothing of the query was run.
    """


class SqlLimitError(SqlError):
    """A SQL query was ended because it would exceed its limit of rows or of memory. The message names the limit."""


class SqlTimeoutError(SqlLimitError, TimeoutError):
    """A SQL query was ended because it would exceed its limit of time."""


# --- clients of a server ----------------------------------------------------------------------------------------------


class ServerError(TridentError):
    """A server refused a request. The message names the server, its reason, and the way out if there is one."""


class ServerUnavailableError(ServerError, ConnectionError):
    """A server does not answer, or says that it cannot answer now."""
