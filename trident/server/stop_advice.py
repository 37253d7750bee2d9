"""Advice for the user of a topology that has stopped, by the type of the error that stopped it."""

from typing import NamedTuple

from trident.base import errors
from trident.server.watched_topology import Fault

_MOST_CAUSES = 5


class _Advice(NamedTuple):
    """The meaning of an error, its consequences for batches and states, and the steps to continue."""

    meaning: str
    kept: str
    ways: tuple[str, ...]


_COMMITTED = "Every committed batch is kept. The next start continues after the last one."
_FROZEN = "The batch is frozen: its results are kept in the log, and the next start commits them. Nothing is lost."
_AGAIN = "Start the topology again with the same name and checkpoint."

_GONE = "The run has no checkpointLocation: its states and its position end with its process."
_ANEW = "Start the topology again, with a checkpointLocation if it is to keep what it commits."

_ADVICE: tuple[tuple[type[BaseException], _Advice], ...] = (
    (
        errors.FencedError,
        _Advice(
            "Another driver has taken over this topology.",
            "This driver has stopped writing. The other driver continues exactly where this one stopped.",
            (
                "Open the page of the current driver.",
                "If you did not start a second driver, look for a scheduler that starts the program twice.",
            ),
        ),
    ),
    (
        errors.CallHangsError,
        _Advice(
            "A function of your code did not return, and could not be called again.",
            _COMMITTED,
            (
                "The message names the call and its line: set a timeout on the operation for which it waits.",
                "If it is only slow, raise messageTimeoutSecs.",
                _AGAIN,
            ),
        ),
    ),
    (
        errors.FilesUnavailableError,
        _Advice(
            "The object store or HDFS with the run's files did not answer, although requests were repeated.",
            _COMMITTED + " Frozen batches are kept too.",
            (
                "Restart the store, and check its address: filesLocation, and the endpoint in filesStorage.",
                _AGAIN,
            ),
        ),
    ),
    (
        errors.FilesRefusedError,
        _Advice(
            "The object store or HDFS with the run's files refused a request: wrong credentials, no such bucket, or "
            "no permission.",
            _COMMITTED + " Frozen batches are kept too.",
            ("The message has the store's reason: correct it, on the driver and on every worker.", _AGAIN),
        ),
    ),
    (
        errors.StateUnavailableError,
        _Advice(
            "The store of a state did not answer for commitRetrySecs, the time for which commits are repeated.",
            _FROZEN,
            ("Restart the store's server, and check its address and password.", _AGAIN),
        ),
    ),
    (
        errors.StateFullError,
        _Advice(
            "The store of a state is full.",
            _FROZEN,
            ("Give it more memory or disk, or let values expire (ttlSecs).", _AGAIN),
        ),
    ),
    (
        errors.StateLostError,
        _Advice(
            "A store lost a state, or more batches of it than the log still has.",
            "The log still has the last commits, but not the whole state.",
            (
                "Restore the store from a backup that has the txid in the message.",
                "Or drop the state (trident state drop), which then starts empty.",
                _AGAIN,
            ),
        ),
    ),
    (
        errors.StateShapeError,
        _Advice(
            "The stored state was written with other keys, another kind or another aggregator.",
            "Nothing was changed.",
            ("Restore the previous declaration, give the state another name, or drop the state.", _AGAIN),
        ),
    ),
    (
        errors.StateError,
        _Advice(
            "A state could not be read or written.",
            _FROZEN,
            ("The message names the state and the reason.", "Then: " + _AGAIN.lower()),
        ),
    ),
    (
        errors.OutputUnavailableError,
        _Advice(
            "The target of an output was unavailable or full for commitRetrySecs, the time for which a batch is "
            "handed over again.",
            _FROZEN,
            ("Restart the target, or free some space.", _AGAIN),
        ),
    ),
    (
        errors.OutputError,
        _Advice(
            "An output did not accept a batch.",
            _FROZEN,
            ("The message names the output and the reason, which has to be corrected.", _AGAIN),
        ),
    ),
    (
        errors.DataLossError,
        _Advice(
            "A source lost tuples before the topology read them.",
            _COMMITTED,
            (
                "The message names the lost tuples, and the option of the spout that continues without them.",
                "To prevent this, let the source keep its data for longer.",
            ),
        ),
    ),
    (
        errors.SourceChangedError,
        _Advice(
            "A source whose rows must not change has changed or deleted some.",
            _COMMITTED,
            ("The message names the rows, and a way to continue without them.",),
        ),
    ),
    (
        errors.SpoutError,
        _Advice(
            "A source could not be read.",
            _COMMITTED,
            ("The message names the source and the reason, which has to be corrected.", _AGAIN),
        ),
    ),
    (
        errors.CodeChangedError,
        _Advice(
            "The program was changed, and cannot commit a batch that the previous program froze.",
            _FROZEN,
            ("Start the previous program once, which commits the batch.", "Then start the new one."),
        ),
    ),
    (
        errors.UserFunctionError,
        _Advice(
            "A function of your code failed on a tuple, every time.",
            _COMMITTED,
            (
                "The message names the step, the function and the tuple: correct the function.",
                'Or leave such tuples out of the batch: onError="skip", or onError="deadLetter" to keep them.',
                _AGAIN,
            ),
        ),
    ),
    (
        errors.SparkFailedError,
        _Advice(
            "A Spark job failed.",
            _COMMITTED,
            ("Spark's own log says why: memory of the workers, a lost executor, a missing package.", _AGAIN),
        ),
    ),
    (
        errors.LedgerError,
        _Advice(
            "Tuples of a batch were lost or repeated between steps, in every attempt.",
            _COMMITTED,
            (
                "Check the step and the partition that the error names; check Spark's log for lost executors.",
                _AGAIN,
            ),
        ),
    ),
    (
        errors.BatchTimeoutError,
        _Advice(
            "A batch took longer than messageTimeoutSecs, every time.",
            _COMMITTED,
            ("Make the batches smaller, or raise messageTimeoutSecs.", _AGAIN),
        ),
    ),
    (
        errors.LogError,
        _Advice(
            "The transaction log cannot be read or written.",
            _COMMITTED,
            ("Check the disk under the checkpoint, or the server of the log.", _AGAIN),
        ),
    ),
)

_ANY = _Advice(
    "The topology stopped because of an error that persisted after retries.",
    _COMMITTED,
    ("Correct the cause that the message names.", _AGAIN),
)


def fault_of(error: BaseException, lasting: bool = True) -> Fault:
    """Return an error in the form in which the page shows it: the advice for its type, and its causes.

    For a BatchFailedError, the advice is that for its cause. `lasting`: whether the run has a log that outlives it.

    >>> fault_of(errors.FencedError("epoch 2 holds the log")).meaning
    'Another driver has taken over this topology.'
    """
    chain = _chain(error)
    telling = chain[1:] if isinstance(error, errors.BatchFailedError) and len(chain) > 1 else chain
    advice = next((advice for each in telling for kind, advice in _ADVICE if isinstance(each, kind)), _ANY)
    causes = [f"{type(each).__name__}: {each}" for each in chain[1:_MOST_CAUSES]]
    kept = advice.kept if lasting else _GONE
    ways = [
        way if lasting else way.replace(_AGAIN, _ANEW).replace(_AGAIN.lower(), _ANEW.lower()) for way in advice.ways
    ]
    return Fault(type(error).__name__, str(error), causes, advice.meaning, kept, ways)


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, nearest first."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__
    return chain
