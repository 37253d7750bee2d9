"""Stateful operations in a commit turn: the calls of the user's object, in order, batch by batch.

The result of the calls is frozen before it is written, as for every update. So only the txid decides the order of
calls: a batch that is processed a second time has failed before it was frozen, and a frozen batch is never processed
again.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pyarrow as pa

from trident.base.checkpoint_size import WAY_OUT, too_large
from trident.base.errors import StateError, StateValueError, UserFunctionError
from trident.base.generator_checks import check_ran
from trident.base.json_form import json_form
from trident.base.spark_types import arrow_schema, select
from trident.compiler.columns.columns import Columns, Kernel
from trident.compiler.columns.function_errors import Where, short
from trident.compiler.columns.operation_calls import action, emitter
from trident.compiler.states.key_values import Current, KeyValues
from trident.compiler.states.operation_owners import owned
from trident.compiler.states.overlay import Overlay, Stored, ValueOverlay
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import RunWindow, WindowBatch
from trident.compiler.states.updates import Updated
from trident.operations.functions import Call, Operation
from trident.operations.stateful import Stateful, overrides
from trident.plan.nodes import PartitionPersist, StateWriter


def stateful_update(step: PartitionPersist) -> RunWindow:
    """Return the function that runs a stateful operation over a batch.

    It keeps the operation between batches of a run.
    """
    assert isinstance(step.updating, Stateful)
    return (_Checkpoints(step) if step.updating.transactional else Values(step)).update


def call_hook(step: StateWriter, name: str, txid: int) -> None:
    """Call a hook of a step's operation that is not part of a state update: preCommit, ackCommit."""
    assert isinstance(step, PartitionPersist) and isinstance(step.updating, Stateful)
    with _where(step).calling(f"{name}({txid})"):
        check_ran(getattr(step.updating.operation.target, name)(txid), f"do the work in {name} itself")


def has_hook(step: StateWriter, name: str) -> bool:
    """Return whether a step is a stateful operation with this hook."""
    updating = getattr(step, "updating", None)
    return isinstance(updating, Stateful) and overrides(updating.operation.target, name)


def _where(step: PartitionPersist) -> Where:
    assert isinstance(step.updating, Stateful)
    return Where(step.step, step.updating.site, step.updating.inputs)


class _Update:
    """The update of one stateful operation in one run. Only the thread of the commit turn's user code calls it."""

    def __init__(self, step: PartitionPersist) -> None:
        assert isinstance(step.updating, Stateful)
        self._step, self._where = step, _where(step)
        self._shape, self._inputs = shape_of(step), arrow_schema(select(step.source.schema, step.inputs))
        self._puts = self._shape.keys.append(pa.field(step.schema.names[-1], self._shape.value))
        self._outputs = nullable(arrow_schema(step.outputs))
        self._user, self._plain = step.updating.operation.target, step.updating.operation.call is Call.TUPLE
        self._kernel = self._compiled(step.updating)
        self._begun: int | None = None
        """The last batch that was begun; None before the first batch of the run."""

    def update(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        """Return the result of the operation for a batch."""
        tuples = Columns.of(table.select(self._inputs.names), self._inputs)
        overlay = self._overlay(stored)
        with self._owned(), self._open(overlay, batch.txid):
            self._begin(batch.txid, tuples)
            emitted = self._kernel(tuples).table(self._outputs) if tuples.rows else self._outputs.empty_table()
            emitted = self._after_tuples(emitted)
            self._end(batch.txid)
        if overlay.failure is not None:  # the user's code caught the error, and continued without the value
            raise overlay.failure
        changes = overlay.changes()
        puts = pa.Table.from_arrays([changes[name].array() for name in changes.names], schema=self._puts)
        return Updated(puts, emitted)

    def _overlay(self, stored: Stored) -> Overlay:
        """Return the view of the state for one batch."""
        return Overlay(self._step.state.name, self._shape, self._where, stored)

    def _after_tuples(self, emitted: pa.Table) -> pa.Table:
        """Do the work that follows the tuples of a batch. Return everything that the batch emits."""
        return emitted

    def _owned(self) -> AbstractContextManager[None]:
        """Return a context in which only this step uses the user's object.

        A function keeps no values, so any step may use it.
        """
        if self._plain:
            return nullcontext()
        what = (
            "is used by another step or run at the same time, which would mix the values of both: create a separate "
            "object for each"
        )
        return owned(self._user, self, self._begun is None, lambda: self._where.error(what))

    def _compiled(self, stateful: Stateful) -> Kernel:
        operation = self._bound(stateful.operation)
        if not stateful.emits:
            return action(operation, self._where, frozenset(self._inputs.names))
        return emitter(operation, self._where, self._added, frozenset(self._outputs.names))

    @property
    def _added(self) -> pa.Schema:
        """The fields that the operation emits."""
        return pa.schema([field for field in self._outputs if field.name not in self._inputs.names])

    @contextmanager
    def _open(self, overlay: Overlay, txid: int) -> Iterator[None]:
        """Open the state for the calls of a batch.

        Raise the state's errors unchanged, not as errors of the user's function.
        """
        overlay.beginCommit(txid)
        try:
            yield
        except Exception as error:
            if overlay.failure is not None:
                raise overlay.failure from None
            if isinstance(error, UserFunctionError) and isinstance(error.__cause__, StateError):
                error.__cause__.add_note(str(error))
                raise error.__cause__ from None
            raise
        finally:
            overlay.commit(txid)

    def _call(self, name: str, *args: Any) -> Any:
        with self._where.calling(f"{name}({', '.join(map(short, args))})"):
            returned = getattr(self._user, name)(*args)
            check_ran(returned, f"do the work in {name} itself")
            return returned

    def _bound(self, operation: Operation) -> Operation:
        """Return the operation as a function of one tuple."""
        return operation

    def _begin(self, txid: int, tuples: Columns) -> None:
        raise NotImplementedError

    def _end(self, txid: int) -> None:
        raise NotImplementedError


class Values(_Update):
    """An operation over a KeyValueState."""

    def __init__(self, step: PartitionPersist) -> None:
        self._current = Current()
        self._state = self._view(step)
        super().__init__(step)
        keys = [(field.name, field.type) for field in self._shape.keys]
        self._read_ahead = set(keys) <= {(field.name, field.type) for field in self._inputs}
        """True if the tuples have the key fields. If so, the state is read once a batch, not once a key."""

    def _view(self, step: PartitionPersist) -> KeyValues:
        """Return the state as the user's operation sees it."""
        return KeyValues(step.state.name, shape_of(step).keys, self._current)

    def update(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        try:
            return super().update(table, stored, batch)
        finally:
            self._current.set(None)

    @contextmanager
    def _open(self, overlay: Overlay, txid: int) -> Iterator[None]:
        self._current.set(overlay)
        with super()._open(overlay, txid):
            yield

    def _bound(self, operation: Operation) -> Operation:
        if operation.call is not Call.TUPLE:
            return operation
        function, state = operation.target, self._state
        return replace(operation, target=lambda values: function(values, state))

    def _begin(self, txid: int, tuples: Columns) -> None:
        if self._begun is None and not self._plain:
            self._call("initState", self._state)
        elif self._begun == txid and overrides(self._user, "preRollback"):
            self._call("preRollback")
        self._begun = txid
        if self._read_ahead and tuples.rows:
            self._current.learn(Columns({name: tuples[name] for name in self._shape.keys.names}, tuples.rows))

    def _end(self, txid: int) -> None:
        if overrides(self._user, "prePrepare"):
            self._call("prePrepare", txid)


class _Checkpoints(_Update):
    """An operation that keeps its state itself. The state of its step holds its last checkpoint, as JSON."""

    @contextmanager
    def _open(self, overlay: Overlay, txid: int) -> Iterator[None]:
        self._committed = ValueOverlay(overlay)
        with super()._open(overlay, txid):
            yield

    def _begin(self, txid: int, tuples: Columns) -> None:
        text = self._committed.get()
        checkpoint = None if text is None else json.loads(text)
        if self._begun is None:
            self._call("initState", checkpoint)
            # The former driver may have died between COMMITTED and this call.
            if text is not None and overrides(self._user, "ackCommit"):
                self._call("ackCommit", txid - 1)
        elif self._begun == txid:
            self._call("rollback", checkpoint)
        self._begun = txid

    def _end(self, txid: int) -> None:
        committed = self._call("commit", txid, self._call("finishBatch", txid))
        try:
            text = json.dumps(json_form(committed, "the checkpoint"))
        except ValueError as error:
            raise self._refused(txid, committed, f"that is not JSON ({error})") from None
        if (problem := too_large(text)) is not None:
            raise self._refused(txid, committed, problem)
        self._committed.set(text)

    def _refused(self, txid: int, committed: Any, why: str) -> StateValueError:
        return StateValueError(
            f"{self._where.step}: {self._where.site}: batch {txid}: commit returned {short(committed)}, a checkpoint "
            f"{why}. {WAY_OUT}"
        )
