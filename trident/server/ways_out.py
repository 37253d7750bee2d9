"""Advice for the user of a topology that has stopped, by the type of the error that stopped it."""

from typing import NamedTuple

from trident.base import errors
from trident.server.watched import Fault

_MOST_CAUSES = 5


class _Advice(NamedTuple):
    """The meaning of an error, its consequences for batches and states, and the way out."""

    meaning: str
    kept: str
    ways: tuple[str, ...]


_COMMITTED = "Everything that was committed is kept, exactly. The next start goes on behind it."
_FROZEN = "The batch is frozen: its results are kept in the log, and the next start commits them. Nothing is lost."
_AGAIN = "Start the topology again with the same name and checkpoint."

_GONE = "The run has no checkpointLocation: its states and its position end with its process."
_ANEW = "Start the topology again, with a checkpointLocation if it is to keep what it commits."

_ADVICE: tuple[tuple[type[BaseException], _Advice], ...] = (
    (
        errors.FencedError,
        _Advice(
            "Another driver has taken this topology over.",
            "This driver has stopped writing. The other one goes on exactly where this one was.",
            (
                "Look at the page of the driver that runs now.",
                "If nobody was meant to start a second one, look for a scheduler that starts the program twice.",
            ),
        ),
    ),
    (
        errors.CallHangsError,
        _Advice(
            "A function of your code did not come back, and could not be called again.",
            _COMMITTED,
            (
                "The message names the call and its line: give what it waits for a time limit.",
                "If it is only slow, raise messageTimeoutSecs.",
                _AGAIN,
            ),
        ),
    ),
    (
        errors.FilesUnavailableError,
        _Advice(
            "The object store or HDFS with the run's files did not answer for as long as it was asked.",
            _COMMITTED + " What was frozen is kept too.",
            (
                "Bring the store up again, and check its address: filesLocation, and the endpoint in filesStorage.",
                _AGAIN,
            ),
        ),
    ),
    (
        errors.FilesRefusedError,
        _Advice(
            "The object store or HDFS with the run's files refused: wrong credentials, no such bucket, or no right.",
            _COMMITTED + " What was frozen is kept too.",
            ("The message has the store's reason: put that right, on the driver and on every worker.", _AGAIN),
        ),
    ),
    (
        errors.StateUnavailableError,
        _Advice(
            "The store of a state did not answer for as long as commits are repeated (commitRetrySecs).",
            _FROZEN,
            ("Bring the store's server up again, and check its address and password.", _AGAIN),
        ),
    ),
    (
        errors.StateFullError,
        _Advice(
            "The store of a state takes no more data.",
            _FROZEN,
            ("Give it more memory or disk, or let values expire (ttlSecs).", _AGAIN),
        ),
    ),
    (
        errors.StateLostError,
        _Advice(
            "A store lost a state, or more of it than the log can write again.",
            "The log still has what was committed last, but not the whole state.",
            (
                "Restore the store from its backup, as of the txid that the message names.",
                "Or drop the state (trident state drop), so that it begins anew.",
                _AGAIN,
            ),
        ),
    ),
    (
        errors.StateShapeError,
        _Advice(
            "The stored state was written with other keys, another kind or another aggregator.",
            "Nothing was changed.",
            ("Put the former declaration back, give the state another name, or drop the state.", _AGAIN),
        ),
    ),
    (
        errors.StateError,
        _Advice(
            "A state could not be read or written.",
            _FROZEN,
            ("The message names the state and the reason.", "Once that is put right: " + _AGAIN.lower()),
        ),
    ),
    (
        errors.OutputUnavailableError,
        _Advice(
            "The target of an output was away or full for as long as hand-overs are repeated (commitRetrySecs).",
            _FROZEN,
            ("Bring the target up again, or make room.", _AGAIN),
        ),
    ),
    (
        errors.OutputError,
        _Advice(
            "An output did not take a batch.",
            _FROZEN,
            ("The message names the output and the reason: put that right.", _AGAIN),
        ),
    ),
    (
        errors.DataLossError,
        _Advice(
            "A source lost tuples before the topology read them.",
            _COMMITTED,
            (
                "The message says what is lost, and which option of the spout goes on without it.",
                "To lose nothing the next time, let the source keep its data for longer.",
            ),
        ),
    ),
    (
        errors.SourceChangedError,
        _Advice(
            "A source that should only grow has changed or deleted rows.",
            _COMMITTED,
            ("The message says which rows, and how to go on without them.",),
        ),
    ),
    (
        errors.SpoutError,
        _Advice(
            "A source could not give its tuples.",
            _COMMITTED,
            ("The message names the source and the reason: put that right.", _AGAIN),
        ),
    ),
    (
        errors.CodeChangedError,
        _Advice(
            "The program was changed, and cannot commit a batch that the former program has frozen.",
            _FROZEN,
            ("Start the former program once, so that it commits the batch.", "Then start the new one."),
        ),
    ),
    (
        errors.UserFunctionError,
        _Advice(
            "A function of your code failed on a tuple, every time.",
            _COMMITTED,
            (
                "The message names the step, the function and the tuple: correct the function.",
                'Or let such tuples out of the batch: onError="skip", or onError="deadLetter" to keep them.',
                _AGAIN,
            ),
        ),
    ),
    (
        errors.SparkFailedError,
        _Advice(
            "Spark could not do the work.",
            _COMMITTED,
            ("Spark's own log says why: memory of the workers, a lost executor, a missing package.", _AGAIN),
        ),
    ),
    (
        errors.LedgerError,
        _Advice(
            "Tuples of a batch were lost or doubled on their way, every time.",
            _COMMITTED,
            (
                "Look at the step and the partition that the error names; look at Spark's log for lost executors.",
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
    "The topology stopped because of an error that it could not repair by trying again.",
    _COMMITTED,
    ("Put right what the message names.", _AGAIN),
)


def fault_of(error: BaseException, lasting: bool = True) -> Fault:
    """Return an error in the form in which the page shows it: advice for its type, its causes, and the way out.

    For a BatchFailedError, the advice is that for its cause. `lasting`: whether the run has a log that outlives it.

    >>> fault_of(errors.FencedError("epoch 2 holds the log")).meaning
    'Another driver has taken this topology over.'
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
