"""The work of Spark's executors in a commit turn: write states, query states, read carried tuples.

A state names its writers (`RedisMapState.opaque(url, writers=...)`). Executors take results that they wrote into frozen
files; the driver takes results that came to it. Both send the same scripts and the same reads, so that either may
repeat, after any failure, what the other has begun.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import TypeVar

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.errors import StateError, StateKeyError, StateUnavailableError
from trident.base.types import spark_schema
from trident.commits.executor_fit import is_sendable
from trident.compiler.carriers import Carriers, writers_of
from trident.compiler.engine import Puts
from trident.compiler.frozen_parts import answered, carried
from trident.compiler.keyed_job import KeyedJob, KeyedResult, Wanted
from trident.compiler.keyed_updates import KeyedUpdate, same_in_parts
from trident.compiler.latest_times import LatestTimes
from trident.compiler.program import Group, Output
from trident.compiler.states.queries import Question
from trident.compiler.states.update_types import Clock
from trident.compiler.windows.time import field_of_latest
from trident.files.store import FileStore
from trident.frozen.results import FrozenFiles, Result
from trident.plan.nodes import Node, Sink, StateQuery, StateSpec, StateUpdate, Watermark, Window, sources_of
from trident.reads.static_states import ReadableStore, SharedForeignState
from trident_spouts.executor import Emission
from trident_spouts.shares import SharesEmission
from trident_state.messages import Applied, Update
from trident_state.state_shape import StateKind
from trident_state.store import Readable, Shared, SharedBatch, SharedSnapshot, Store

logger = logging.getLogger(__name__)

_Opened = TypeVar("_Opened", SharedBatch, SharedSnapshot)


Watched = Callable[[Callable[[], pa.Table], Callable[[], None]], pa.Table]
"""A function that calls its first argument with a time limit, and the second one if the limit is overrun."""

StageTables = dict[Node, pa.Table | Emission]
"""The tuples from which later stages start, by the step that emits them: in the driver, or for workers to read."""


@dataclass
class Executors:
    """The executors of one run, in their work for one group. Threads of different states may call at once.

    `files` is the place that the folders of frozen files are relative to. `statics` are the states that the topology
    only reads.
    """

    group: Group
    stores: Mapping[str, Store]
    puts: Puts | None
    files: FileStore
    statics: Mapping[str, ReadableStore] = field(default_factory=dict)
    _checked: dict[str, bool] = field(default_factory=dict)
    """For each state on which executors have tried to work: whether they reach it. An entry belongs to the state's
    thread."""
    _left: set[StateUpdate] = field(default_factory=set)
    """The updates that only the driver can compute, as was found in this run. Only the commit thread uses the set."""
    _asked: dict[StateQuery, str] = field(default_factory=dict)
    """For each query of another topology's state, the folder of the last tuples for which workers were to ask it. Only
    the commit thread uses it."""

    _latest: tuple[SharesEmission, str, pa.Table] | None = None
    """The last answer of `latest`, and for which tuples and field it is: a watermark and its window ask for the same.
    Only the commit thread uses it."""

    def __post_init__(self) -> None:
        self._question, self._keyed, self._sendable = cache(Question.of), cache(KeyedUpdate.of), cache(is_sendable)

    # --- what enters later stages ------------------------------------------------------------------------------------

    def carry(self, output: Output, frozen: FrozenFiles) -> Emission | None:
        """Return the tuples carried to later stages, to be read by the workers; None if the driver passes them on."""
        readers = [step for step in self._driver_steps.get(output.step, []) if not isinstance(step, Sink)]
        if self.puts is None or self._by_driver(readers, frozen) or not self.puts.sees_files():
            return None
        return carried(self.files, frozen, spark_schema(output.schema), output.step.step)

    def ask(self, step: StateQuery, frozen: FrozenFiles, as_of: int) -> Emission | None:
        """Return the tuples of frozen files with a state's answers as of a txid; None if the driver must query it.

        The workers ask while the next stage runs, when the state holds this batch, too. It keeps what it held as of the
        txid until two further batches are written (docs/decisions/0035). Raises StateRecoveringError if the state is
        behind the txid.

        A state of another topology is read as of its last committed batch. Its driver does not wait for this run: if it
        writes two batches meanwhile, the stage fails, and in the repeated turn the driver asks (``writers="auto"``).
        """
        spec = step.updated.state
        if self._by_driver(self._driver_steps.get(step, []), frozen) or not self._work_on(spec, frozen):
            return None
        store, puts = self._store(spec.name), self.puts
        if writers_of(spec) == "auto" and not self._sendable(step):
            return None
        if writers_of(spec) == "auto" and isinstance(store, SharedForeignState):
            if self._asked.get(step) == frozen.folder:
                return None
            self._asked[step] = frozen.folder
        assert isinstance(store, Readable) and puts is not None
        snapshot = self._reached(spec, puts, partial(store.open_snapshot, as_of))
        if snapshot is None:
            return None
        return answered(self.files, frozen, self._question(step), snapshot, step.schema)

    def _by_driver(self, readers: Sequence[Node], frozen: FrozenFiles) -> bool:
        """Return whether the driver computes one of these steps, which read the tuples in frozen files."""
        # A watermark needs the latest time alone. Workers that have the tuples find it.
        readers = [step for step in readers if not isinstance(step, Watermark)] or readers
        return not all(isinstance(step, StateUpdate) and self._makes(step, frozen) for step in readers)

    @cached_property
    def _driver_steps(self) -> dict[Node, list[Node]]:
        """For each node, the steps of the commit turn that read the node's tuples."""
        steps: dict[Node, list[Node]] = {}
        for output in (output for stage in self.group.stages for output in stage.updates):
            for source in sources_of(output.step):
                steps.setdefault(source, []).append(output.step)
        return steps

    def latest(self, step: Watermark | Window, tuples: SharesEmission, call: Watched) -> pa.Table:
        """Return the latest event time of a batch's tuples for a watermark, as a table of one tuple with that field.

        The workers may run user code on the way to the tuples, so they are asked through `call`.
        """
        field = field_of_latest(step)
        assert self.puts is not None and field is not None
        if self._latest is None or self._latest[0] is not tuples or self._latest[1] != field:
            times = LatestTimes(tuples, field)
            latest = call(partial(self.puts.latest, times), partial(self.puts.cancel, times))
            self._latest = tuples, field, latest
        return self._latest[2]

    # --- updates -----------------------------------------------------------------------------------------------------

    def _makes(self, step: StateUpdate, frozen: FrozenFiles) -> bool:
        """Return whether the executors will compute an update from tuples in frozen files, as far as is known now."""
        state = step.state
        if state.name not in self._fit or step in self._left or not self._work_on(state, frozen):
            return False
        return writers_of(state) == "executors" or self._meant(step)

    @cached_property
    def _meant(self) -> Callable[[StateUpdate], bool]:
        """A function that tells whether an update has the same result on executors, whatever its user's code reads."""
        return cache(lambda step: same_in_parts(step) and self._sendable(step))

    def job(
        self,
        step: StateUpdate,
        tuples: object,
        wanted: Wanted,
        txid: int,
        time: float,
        expires: bool,
        clock: Callable[[], Clock],
    ) -> KeyedJob | None:
        """Return the job by which executors compute an update; None if the driver computes it.

        `expires`: values of the state expire. `clock` returns the watermarks of an update by event time. Raises
        StateRecoveringError if the state is behind the batch before.
        """
        if not isinstance(tuples, SharesEmission) or not tuples.shares or step in self._left:
            return None
        store, puts = self.stores[step.state.name], self.puts
        assert isinstance(store, Shared) and puts is not None
        opens = partial(store.open_snapshot, txid - 1, time if expires else None)
        snapshot = self._reached(step.state, puts, opens)
        if snapshot is None:
            return None
        keyed = self._keyed(step)
        times = clock() if keyed.by_event_time else None
        due = 0 if times is None else snapshot.count_due(times.after)
        if due is None:  # the driver reads the whole state
            return None
        return KeyedJob(keyed, tuples, snapshot, txid, time, wanted, times, due)

    def update(self, step: StateUpdate, job: KeyedJob) -> KeyedResult | None:
        """Let the executors compute an update; return None if the driver must, because of the keys that the code reads.

        Raises what the update raises on the driver, or the error of Spark.
        """
        assert self.puts is not None
        try:
            return self.puts.update(job)
        except StateKeyError as error:
            if writers_of(step.state) == "executors":
                raise
            logger.warning("%s; so the driver makes this update, whatever the size of a batch", error)
            self._left.add(step)
            return None

    def cancel(self, job: KeyedJob) -> None:
        """Stop a running update. Return at once."""
        assert self.puts is not None
        self.puts.cancel(job)

    # --- writes ------------------------------------------------------------------------------------------------------

    def take(self, state: str, result: Result) -> bool:
        """Return whether the executors write this result into the state. If not, the driver does."""
        return state in self._fit and self._work_on(self._specs[state], result)

    def _work_on(self, state: StateSpec, result: Result) -> bool:
        """Return whether executors will work on a result and on the state, as far as is known now."""
        store = self._store(state.name)
        if self.puts is None or not isinstance(result, FrozenFiles) or not isinstance(store, Readable):
            return False
        if writers_of(state) == "driver" or not getattr(state.factory, "sendable", False):
            return False
        # It keeps no txid: a doubled put would count, and there is nothing to read as of the batch before.
        if isinstance(store, Shared) and state.factory.kind is StateKind.NON_TRANSACTIONAL:
            return False
        return self._checked.get(state.name, True)

    def _store(self, state: str) -> object:
        return self.stores[state] if state in self.stores else self.statics.get(state)

    def apply(self, store: Shared, state: str, lease: Lease, update: Update, frozen: FrozenFiles) -> Applied | None:
        """Let the executors apply frozen files; None if they do not reach the state and the driver may apply them.

        `update` has no keys. Raises what `Store.apply` raises, or the error of Spark.
        """
        assert self.puts is not None
        batch = self._reached(self._specs[state], self.puts, partial(store.open_batch, lease, update))
        if batch is None:
            return None
        puts = self.puts.put(frozen, batch)
        return store.commit_batch(batch, update, puts)

    def _reached(self, spec: StateSpec, puts: Puts, opens: Callable[[], _Opened]) -> _Opened | None:
        """Call `opens`, and return its result if the workers reach the state; None if they do not, and need not.

        The workers are asked once. Raises StateError if they must reach the state and do not, and what `opens` raises.
        """
        shared, state = opens(), spec.name
        if state not in self._checked:
            try:
                puts.check_reached(shared)
            except StateUnavailableError:  # nobody may reach it just now
                raise
            except StateError as error:
                # A server that lost its last writes meanwhile looks to the workers like another server. Then this
                # raises an error by which the state is healed, and the workers are asked again.
                opens()
                if writers_of(spec) == "executors":
                    raise
                logger.warning("%s; so the driver writes and asks the state, whatever the size of a batch", error)
                self._checked[state] = False
            else:
                self._checked[state] = True
        return shared if self._checked[state] else None

    @cached_property
    def _specs(self) -> dict[str, StateSpec]:
        return {step.state.name: step.state for step in self.group.states}

    @cached_property
    def _fit(self) -> set[str]:
        choices = Carriers(self.group).by_state
        return {state for state, choice in choices.items() if choice.why_driver is None}
