"""The errors after which a commit is tried again. After other TridentErrors the group stops; the batch stays frozen."""

from trident.base.errors import (
    BatchTimeoutError,
    FailedException,
    FilesUnavailableError,
    LedgerError,
    OutputError,
    OutputUnavailableError,
    SnapshotMovedError,
    SparkFailedError,
    StateBehindError,
    StateFullError,
    StateRecoveringError,
    StateUnavailableError,
    UserFunctionError,
)

TRANSIENT = (
    *(StateUnavailableError, StateFullError, StateRecoveringError, StateBehindError, OutputUnavailableError),
    FilesUnavailableError,
    SnapshotMovedError,  # the state of another topology was written while it was read
)
"""Commit errors that may go away by themselves. They are tried again for `commitRetrySecs`."""

REPEATED = (FailedException, LedgerError, BatchTimeoutError, OutputError, UserFunctionError, SparkFailedError)
"""Errors of user code or of Spark. The commit is tried `maxAttempts` times, as a batch is attempted."""
