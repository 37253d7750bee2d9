"""What Spark's executors do in a commit turn where the driver would: write states, ask them, read what is carried on.

A state names its writers (`RedisMapState.opaque(url, writers=...)`). The executors take what they wrote into frozen
files before; a result that came to the driver is the driver's. Both send the same scripts and the same reads, so that
either may repeat, after any failure, what the other has begun.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.errors import StateError, StateUnavailableError, TopologyError
from trident.base.types import spark_schema
from trident.compiler.program import Group, Output, Program, Stage
from trident.compiler.results import FrozenFiles, Result
from trident.compiler.spark.frozen_parts import answered, carried
from trident.compiler.spark.state_puts import Puts
from trident.compiler.states.queries import Question
from trident.files.store import FileStore
from trident.plan.nodes import Node, PersistentAggregate, StateQuery
from trident_spouts.executor import Emission
from trident_state.messages import Applied, Update
from trident_state.state_shape import StateKind
from trident_state.store import Shared, SharedBatch, SharedSnapshot, StateFactory, Store

logger = logging.getLogger(__name__)


StageTables = dict[Node, pa.Table | Emission]
"""The tuples from which later stages start, by the step that they leave: in the driver, or for the workers to read."""


@dataclass
class Executors:
    """The executors of one run, as they work for one group. Threads of different states may call at once.

    `files` is the place that the folders of frozen files are relative to.
    """

    group: Group
    puts: Puts | None
    files: FileStore
    _checked: dict[str, bool] = field(default_factory=dict)
    """For each state that the executors were to work on, whether they reach it. A key is one state's thread's."""

    def __post_init__(self) -> None:
        self._question = cache(Question.of)

    # --- what enters later stages ------------------------------------------------------------------------------------

    def carry(self, output: Output, frozen: FrozenFiles) -> Emission | None:
        """Return what is carried to later stages, for the workers to read; None if the driver hands it on."""
        if self.puts is None or output.step in self._read_by_driver or not self.puts.sees_files():
            return None
        return carried(self.files, frozen, spark_schema(output.schema), output.step.step)

    def ask(self, step: StateQuery, frozen: FrozenFiles, store: Store | None, as_of: int) -> Emission | None:
        """Return the tuples of frozen files with the answers of a state as of a txid; None if the driver asks.

        The workers ask while the next stage runs, when the state holds this batch, too. It keeps what it held as of the
        txid until two further batches are written (docs/decisions/0035). Raises StateRecoveringError if the state is
        behind the txid.
        """
        state = step.updated.state.name
        if store is None or step in self._read_by_driver or not self._work_on(state, frozen, store):
            return None
        assert isinstance(store, Shared) and self.puts is not None
        snapshot = store.open_snapshot(as_of)
        if not self._reached(state, snapshot, self.puts):
            return None
        return answered(self.files, frozen, self._question(step), snapshot, step.schema)

    # --- writes ------------------------------------------------------------------------------------------------------

    def take(self, state: str, result: Result, store: Store) -> bool:
        """Return whether the executors write this result into the state; else the driver does."""
        return state in self._fit and self._work_on(state, result, store)

    def _work_on(self, state: str, result: Result, store: Store) -> bool:
        """Return whether executors are to work on a result, and on the state, as far as that is known by now."""
        if self.puts is None or not isinstance(result, FrozenFiles) or not isinstance(store, Shared):
            return False
        factory = self._factories[state]
        if getattr(factory, "writers", "driver") == "driver" or not getattr(factory, "sendable", False):
            return False
        # It keeps no txid: a doubled put would count, and there is nothing to read as of the batch before.
        if factory.kind is StateKind.NON_TRANSACTIONAL:
            return False
        return self._checked.get(state, True)

    def apply(self, store: Shared, state: str, lease: Lease, update: Update, frozen: FrozenFiles) -> Applied | None:
        """Let the executors apply frozen files; return None if they do not reach the state, and need not.

        `update` has no keys. Raises what `Store.apply` raises, or the error of Spark.
        """
        assert self.puts is not None
        batch = store.open_batch(lease, update)
        if not self._reached(state, batch, self.puts):
            return None
        puts = self.puts.put(frozen, batch)
        return store.commit_batch(batch, update, puts)

    def _reached(self, state: str, shared: SharedBatch | SharedSnapshot, puts: Puts) -> bool:
        """Return whether the workers reach the state; they are asked once. Raises StateError if they have to."""
        if state not in self._checked:
            try:
                puts.check_reached(shared)
            except StateUnavailableError:  # nobody may reach it just now
                raise
            except StateError as error:
                if getattr(self._factories[state], "writers", "") == "executors":
                    raise
                logger.warning("%s; so the driver writes and asks the state, whatever the size of a batch", error)
                self._checked[state] = False
            else:
                self._checked[state] = True
        return self._checked[state]

    @property
    def _factories(self) -> Mapping[str, StateFactory]:
        return {step.state.name: step.state.factory for step in self.group.states}

    @cached_property
    def _read_by_driver(self) -> set[Node]:
        return {node for stage in self.group.stages for node in stage.read_by_driver}

    @property
    def _fit(self) -> set[str]:
        return {output.name for output in _outputs(self.group.stages) if _misfit(self.group, output) is None}


def check_writers(program: Program, lasting: bool) -> None:
    """Raise TopologyError for a state that only executors are to write, and which they cannot.

    `lasting`: whether there is a place for the files that they put.
    """
    for group in program.groups:
        for output in _outputs(group.stages):
            state = getattr(output.step, "state", None)
            if state is None or getattr(state.factory, "writers", "driver") != "executors":
                continue
            why = _misfit(group, output)
            if not lasting:
                why = "there is no place for the files that they put; give a checkpointLocation or a filesLocation"
            if why is not None:
                raise TopologyError(
                    f"state {state.name!r} ({state.factory!r}) is to be written by executors: {why}; or declare it "
                    f"with writers='auto' or 'driver'"
                )


def _outputs(stages: Iterable[Stage]) -> list[Output]:
    return [output for stage in stages for output in stage.frozen]


def _misfit(group: Group, output: Output) -> str | None:
    """Return why the executors cannot write this output's state; None if they can."""
    if not isinstance(output.step, PersistentAggregate):
        return f"the driver computes its values ({output.step.step}); only persistentAggregate can be written by them"
    if any(output.step in stage.reads for stage in group.stages):
        return f"later steps read its new values ({output.step.step}), which come to the driver"
    return None
