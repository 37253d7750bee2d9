"""Stateful operations: the classes that users extend, and their plan form."""

from dataclasses import dataclass
from typing import Any

from trident.base.callsite import CallSite, site_of
from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.base.verb_call import Step
from trident.operations.aggregators import Aggregation
from trident.operations.annotations import Returns
from trident.operations.callables import bind, check_no_lifecycle, check_not_class, operation_kind, read_operation
from trident.operations.functions import Call, Operation, TridentCollector
from trident.operations.timers import Timers
from trident.operations.update_forms import UpdateForm


class StatefulOperation:
    """An operation that keeps state over all batches. Subclass it if a plain function is not enough.

    `statefulEach` calls `execute` for each tuple, on the driver, in the batch's order. The changes of the state and the
    emitted tuples are frozen together before either is written, so each batch changes the state once, whatever fails;
    every committed txid is a checkpoint of all states. The other methods are optional. Meaning: Storm's
    ``IStatefulBolt`` with the hooks of ``IStatefulComponent``, but exactly-once.

    In a run the calls come in this order:

    1. ``initState(state)``, before the first tuple, with the state as of the last committed batch;
    2. for each batch ``execute`` with each tuple, then ``prePrepare(txid)``. Then the batch's changes are frozen;
    3. ``preCommit(txid)``, before the frozen changes are written.

    If a batch fails before its changes are frozen, it begins again with ``preRollback()``; the state is then as of the
    previous batch. If the driver dies, the next driver first writes the changes that were frozen, after calling
    ``preCommit`` on the new object, and then calls ``initState``.

    >>> class Longest(StatefulOperation):
    ...     outputType = "string"
    ...     def initState(self, state):
    ...         self.state = state
    ...     def execute(self, tuple, collector):
    ...         longest = max(self.state.get(tuple.user, ""), tuple.word, key=len)
    ...         self.state.put(tuple.user, longest)
    ...         collector.emit([longest])
    """

    def initState(self, state: Any) -> None:
        """Receive the run's `KeyValueState`, which every method except ``preCommit`` may use."""
        raise NotImplementedError(f"{type(self).__name__} has no initState(state)")

    def execute(self, tuple: Any, collector: TridentCollector) -> None:
        """Read and change the state with `tuple`, a TridentTuple of the input fields; emit values to append to it."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(tuple, collector)")

    def onTimer(self, timer: Any, collector: TridentCollector) -> None:
        """Handle a `Timer` that was set with ``state.setTimer`` and is due: change the state, set timers, emit.

        It is called after all tuples of the batch, in the order of the timers' times.
        """
        raise NotImplementedError(f"{type(self).__name__} has no onTimer(timer, collector)")

    def prePrepare(self, txid: int) -> None:
        """Write values from memory to the state: the batch has no further tuples, and is frozen next."""

    def preCommit(self, txid: int) -> None:
        """Prepare for the write of the frozen changes. It is called again for each attempt at the commit."""

    def preRollback(self) -> None:
        """Drop the batch's values from memory: the batch failed, and its tuples will be processed again."""


class TransactionOperation:
    """An operation that keeps its state itself, and returns a checkpoint for each batch.

    Meaning: JStorm's ``ITransactionStatefulBoltExecutor``. Give it to `statefulEach` without ``keyFields``; its state
    is one value, the checkpoint as JSON, which is committed with the batch. In a run the calls come in this order:

    1. ``initState(checkpoint)``, before the first tuple, with the checkpoint of the last committed batch, or None if
       there is none. ``ackCommit`` of that batch follows, because the previous driver may have died before it;
    2. for each batch ``execute`` with each tuple, ``finishBatch(txid)``, ``commit(txid, checkpoint)``. The result of
    `commit` is frozen with the emitted tuples, and written;
    3. ``ackCommit(txid)``, when every state and output holds the batch.

    If a batch fails before it is frozen, it begins again with ``rollback``, which gets the checkpoint of the batch
    before.

    >>> class Total(TransactionOperation):
    ...     def initState(self, checkpoint):
    ...         self.total = checkpoint or 0
    ...     rollback = initState
    ...     def execute(self, tuple, collector):
    ...         self.total += tuple.n
    ...         collector.emit([self.total])
    ...     def finishBatch(self, txid):
    ...         return self.total
    """

    def initState(self, checkpoint: Any) -> None:
        """Begin a run with the last committed checkpoint: JSON as returned by `commit`, or None."""
        raise NotImplementedError(f"{type(self).__name__} has no initState(checkpoint)")

    def rollback(self, checkpoint: Any) -> None:
        """Go back to this checkpoint (None: to the beginning). Later tuples will be emitted again."""
        raise NotImplementedError(f"{type(self).__name__} has no rollback(checkpoint)")

    def execute(self, tuple: Any, collector: TridentCollector) -> None:
        """Change the state with `tuple`, a TridentTuple of the input fields; emit values to append to it."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(tuple, collector)")

    def finishBatch(self, txid: int) -> Any:
        """Return the checkpoint of the state, after `execute` got all tuples of this batch."""
        raise NotImplementedError(f"{type(self).__name__} has no finishBatch(txid)")

    def commit(self, txid: int, checkpoint: Any) -> Any:
        """Return the JSON value to commit for the checkpoint, at most 64 KiB; by default the checkpoint itself.

        Store a larger checkpoint yourself under a key that contains the txid, and return the key. The method may be
        called again for a txid, and must then store the same value. An error fails the batch, which is rolled back.
        """
        return checkpoint

    def ackCommit(self, txid: int) -> None:
        """Delete data that only batches before `txid` needed.

        The call may be repeated, and may be skipped for a batch.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Stateful(UpdateForm):
    """A stateful operation in a plan: a function of a tuple and the state, or an object with methods.

    `inputs` are the fields of the tuples that it sees; `emits` is false if its input tuples pass unchanged. `timers`
    are None if the operation sets none.
    """

    operation: Operation
    inputs: tuple[str, ...]
    emits: bool
    timers: Timers | None = None

    @property
    def passes_on(self) -> bool:
        """True if its input tuples are emitted unchanged."""
        return not self.emits

    @property
    def meaning(self) -> str:
        """The name that stores keep with the values."""
        return "put" if self.timers is None else self.timers.meaning

    @property
    def timed(self) -> bool:
        """True if the stored values hold timers."""
        return self.timers is not None

    @property
    def presents(self) -> Aggregation | None:
        """The aggregation that returns the user's values to queries; None if the stored values are the user's."""
        return None if self.timers is None else self.timers.presents

    @property
    def site(self) -> CallSite:
        """The name, file and line of the user's operation."""
        return self.operation.site

    @property
    def transactional(self) -> bool:
        """Return whether the operation keeps its state itself and returns checkpoints."""
        return isinstance(self.operation.target, TransactionOperation)

    @property
    def why_driver(self) -> str | None:
        """The reason why executors cannot call the operation; None if they can."""
        if self.transactional:
            return "a TransactionOperation keeps its own state, in the driver"
        if self.timers is not None:
            return "the driver keeps the timers' times"
        if overrides(self.operation.target, "preCommit"):
            return "the driver calls its preCommit, on an object that has processed none of the tuples"
        return None

    @property
    def same_in_parts(self) -> bool:
        """True if the operation is a function: the result of an object may depend on earlier tuples of other keys."""
        return self.operation.call is Call.TUPLE


def overrides(target: object, name: str) -> bool:
    """Return whether an operation has a method `name` other than the default of a base class in this module."""
    method = getattr(type(target), name, None)
    ours = [getattr(base, name, None) for base in (StatefulOperation, TransactionOperation)]
    return callable(getattr(target, name, None)) and method not in ours


_HOOKS = {"prePrepare": 1, "preCommit": 1, "preRollback": 0}
_CALLS = {"initState": 1, "rollback": 1, "finishBatch": 1, "commit": 2, "ackCommit": 1}
_ACCEPTED = (
    "a function of a tuple and the state, a StatefulOperation, or a TransactionOperation; an object has "
    "initState(state) and execute(tuple, collector)"
)


def read_stateful(target: Any, emits: bool, step: Step) -> tuple[Operation, Returns]:
    """Read `target` as a stateful operation with its return annotation. `emits`: whether output fields are declared."""
    check_not_class(target, step)
    if isinstance(target, type):
        raise step.error(TopologyError, f"{target.__name__} is a class; give an instance of it, {target.__name__}()")
    if operation_kind(target) == "execute" and callable(getattr(target, "initState", None)):
        operation, returns = read_operation(target, step, tuples=True)
        bind(target.execute, 2, "execute is called with a TridentTuple and a collector", step)
        checkpoints = isinstance(target, TransactionOperation)
        for name, count in (_CALLS if checkpoints else {"initState": 1, **_HOOKS}).items():
            if callable(method := getattr(target, name, None)):
                bind(method, count, f"{name} is called with {count} argument{'' if count == 1 else 's'}", step)
        _check_never_called(target, checkpoints, step)
        return operation, returns
    if operation_kind(target) or not callable(target):
        raise step.error(TopologyError, f"{brief(target)} is not a stateful operation; give {_ACCEPTED}")
    operation, returns = read_operation(target, step, tuples=True)
    if operation.call is not Call.TUPLE:
        raise step.error(TopologyError, f"{brief(target)} is not a function of a tuple and the state; give {_ACCEPTED}")
    check_no_lifecycle(target, step)
    bind(target, 2, "it is called with one TridentTuple and the KeyValueState", step, yields=emits)
    return operation, returns


def read_on_timer(target: Any, onTimer: Any, emits: bool, step: Step) -> Operation | None:
    """Read the method or function that is called with each timer of an operation; None if it has none."""
    if operation_kind(target) == "execute":
        if onTimer is not None:
            raise step.wrong(
                f"onTimer={brief(onTimer)} applies to functions only; {brief(target)} has a method onTimer"
            )
        if not overrides(target, "onTimer"):
            return None
        if isinstance(target, TransactionOperation):
            raise step.wrong(
                f"{brief(target)} is a TransactionOperation, which keeps its state itself and has no timers: extend "
                "StatefulOperation, or remove its method onTimer"
            )
        bind(target.onTimer, 2, "onTimer is called with a Timer and a collector", step)
        return Operation(target, site_of(target), Call.FUNCTION, many=True)
    if onTimer is None:
        return None
    if not callable(onTimer) or operation_kind(onTimer) or isinstance(onTimer, type):
        raise step.wrong(f"onTimer={brief(onTimer)}: expected a function of a Timer and the state")
    operation, _ = read_operation(onTimer, step, tuples=True)
    if operation.call is not Call.TUPLE:
        raise step.wrong(f"onTimer={brief(onTimer)}: expected a function of a Timer and the state")
    bind(onTimer, 2, "onTimer is called with a Timer and the KeyValueState", step, yields=emits)
    return operation


def _check_never_called(target: Any, checkpoints: bool, step: Step) -> None:
    """Refuse an object with a method of another kind of operation, which would never be called here."""
    never = ["prepare", "cleanup", *(_HOOKS if checkpoints else ("finishBatch", "rollback", "commit", "ackCommit"))]
    for name in never:
        if callable(getattr(target, name, None)):
            instead = "initState begins a run" if name in ("prepare", "cleanup") else "extend TransactionOperation"
            instead = "its calls are finishBatch, commit, ackCommit and rollback" if name in _HOOKS else instead
            raise step.error(TopologyError, f"its method {name} would never be called by statefulEach: {instead}")
