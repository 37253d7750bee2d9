"""The errors after which a commit is tried again. Other TridentErrors stop the group; the batch stays frozen."""

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
    SnapshotMovedError,  # the state of another topology was written during the read
)
"""Commit errors whose cause may end by itself. The commit is tried again for `commitRetrySecs`."""

REPEATED = (FailedException, LedgerError, BatchTimeoutError, OutputError, UserFunctionError, SparkFailedError)
"""Errors of user code or of Spark. The commit is tried `maxAttempts` times, like a batch."""
