"""The errors of a commit that lead to another try. After any other one the group stops, with the batch frozen."""

from trident.base.errors import (
    BatchTimeoutError,
    FailedException,
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
    SnapshotMovedError,  # of another topology's state, which was written while it was read
)
"""Commit errors that may go away by themselves. They are tried again for `commitRetrySecs`."""

REPEATED = (FailedException, BatchTimeoutError, OutputError, UserFunctionError, SparkFailedError)
"""Commit errors after which the commit is repeated `maxAttempts` times: code or work that failed, as in an attempt."""
