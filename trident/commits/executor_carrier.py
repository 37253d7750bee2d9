"""Spark's executors as a carrier: they read frozen files, and read and write states that they can reach."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import ClassVar, Literal

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.errors import StateKeyError
from trident.base.spark_types import spark_schema
from trident.commits.carrier import LeftToDriver, UpdateResults, UpdateWork
from trident.commits.latest_search import LatestSearch
from trident.commits.previous_states import PreviousStates
from trident.commits.reachable_stores import ReachableStores
from trident.commits.user_code import UserCode
from trident.compiler.carrier_choice import CarrierPlan
from trident.compiler.engine import Puts
from trident.compiler.frozen_parts import answered, carried
from trident.compiler.keyed_job import KeyedJob, Wanted
from trident.compiler.keyed_updates import KeyedUpdate
from trident.compiler.program import Output
from trident.compiler.states.queries import Question
from trident.compiler.states.update_types import Clock
from trident.compiler.windows.time_windows import clock_of, field_of_latest, latest_of
from trident.frozen.files import FrozenFolders
from trident.frozen.results import FrozenFiles, Result
from trident.log.frozen_batches import FrozenBatches
from trident.log.frozen_results import with_dropped
from trident.plan.nodes import StateReader, StateUpdate, StateWriter, Window, sources_of
from trident.reads.static_states import SharedForeignState
from trident_spouts.executor import Emission
from trident_spouts.shared_reading import SharesEmission
from trident_state.store import Readable, Shared
from trident_state.store_messages import Applied


@dataclass
class ExecutorCarrier:
    """The work of one run's executors for one group; see `Carrier`. Every method may raise LeftToDriver.

    `stores` are the stores of the group's states, acquired under `lease`, and of the states that the topology only
    reads. The files of this run are in `folders`.
    """

    plan: CarrierPlan
    stores: Mapping[str, object]
    lease: Lease
    frozen: FrozenBatches
    before: PreviousStates
    code: UserCode
    puts: Puts
    reach: ReachableStores
    latest: LatestSearch
    folders: FrozenFolders | None
    _asked: dict[StateReader, str] = field(default_factory=dict)
    """For each query of another topology's state, the folder of the last tuples that workers got for it. Only the
    commit thread uses it."""
    name: ClassVar[Literal["executors"]] = "executors"

    def __post_init__(self) -> None:
        self._question, self._keyed = cache(Question.of), cache(KeyedUpdate.of)

    def write(self, step: StateWriter, txid: int, result: Result, values: bool) -> Applied:
        """Let the workers put frozen files, and commit the batch in every group; see `Carrier.write`."""
        store, update = self.stores[step.state.name], self.frozen.without_keys(txid, result)
        assert isinstance(store, Shared) and isinstance(result, FrozenFiles) and not values
        opens = partial(store.open_batch, self.lease, update)
        batch = self.reach.opened(self.plan.choice("write", step), opens)
        return store.commit_batch(batch, update, self.puts.put(result, batch))

    def update(self, work: UpdateWork) -> UpdateResults:
        """Let the workers run the user's code over the keys of their tuples; see `Carrier.update`."""
        job = self._job(work)
        run, overrun = partial(self.puts.update, job), partial(self.puts.cancel, job)
        try:
            made = self.code.call(work.step, work.txid, run, overrun)
        except StateKeyError as error:
            choice = self.plan.choice("update", work.step)
            if choice.wanted == "executors":
                raise
            self.reach.leave(choice, error)
            raise LeftToDriver from error
        return UpdateResults(with_dropped(made.puts, made.dropped), made.emitted)

    def _job(self, work: UpdateWork) -> KeyedJob:
        step, txid, keyed = work.step, work.txid, self._keyed(work.step)
        (source,) = sources_of(step)
        store, tuples = self.stores[step.state.name], work.entering.of(source)
        assert isinstance(store, Shared) and isinstance(tuples, SharesEmission)
        if self.folders is None or not tuples.shares:
            raise LeftToDriver
        opens = partial(store.open_snapshot, txid - 1, self.before.expiry(step.state.name, txid))
        snapshot = self.reach.opened(self.plan.choice("update", step), opens)
        clock = self._clock(step, tuples, txid) if keyed.by_event_time else None
        due = 0 if clock is None else snapshot.count_due(clock.after)
        if due is None:  # only a scan of the whole state finds the due keys
            raise LeftToDriver
        folder = self.folders.folder(self.plan.group.name, TransactionAttempt(txid, 0, self.lease.epoch), work.stage)
        wanted = Wanted(folder, work.output.schema, None if work.emitted is None else work.emitted.schema)
        return KeyedJob(keyed, tuples, snapshot, txid, self.frozen.time(txid), wanted, clock, due)

    def _clock(self, step: StateUpdate, tuples: SharesEmission, txid: int) -> Clock:
        """Return the watermarks of an update by event time."""
        assert isinstance(step, Window)
        newest = latest_of(self.latest.find(step, tuples, txid), field_of_latest(step))
        return clock_of(step.windowing.config, newest, self.before.window_batch(step, txid))

    def ask(self, step: StateReader, asking: Result, as_of: int) -> Emission:
        """Return the tuples of frozen files, for which the workers query the state; see `Carrier.ask`.

        They query the state while the next stage runs, when the state already holds this batch. The values as of the
        txid can still be read until two further batches are written (docs/decisions/0035).

        A state of another topology is read as of its last committed batch. Its driver does not wait for this run: if it
        writes two batches meanwhile, the stage fails, and in the repeated turn the driver queries the state
        (``writers="auto"``).
        """
        choice, store = self.plan.choice("ask", step), self.stores[step.updated.state.name]
        assert isinstance(store, Readable) and isinstance(asking, FrozenFiles)
        if choice.wanted == "auto" and isinstance(store, SharedForeignState):
            if self._asked.get(step) == asking.folder:
                raise LeftToDriver
            self._asked[step] = asking.folder
        snapshot = self.reach.opened(choice, partial(store.open_snapshot, as_of))
        return answered(self.frozen.files, asking, self._question(step), snapshot, step.schema)

    def carry(self, output: Output, result: Result) -> Emission:
        """Return the rows of frozen files, which the workers read; see `Carrier.carry`."""
        assert isinstance(result, FrozenFiles)
        readers = self.plan.choice("carry", output.step).readers
        if not self.reach.sees_files(needed=any(reader.by_executors for reader in readers)):
            raise LeftToDriver
        return carried(self.frozen.files, result, spark_schema(output.schema), output.step.step)
