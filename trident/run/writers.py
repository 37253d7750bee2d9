"""Who writes a batch into a state, and asks it: the driver, or Spark's executors where they have the frozen files.

A state names its writers (`RedisMapState.opaque(url, writers=...)`). The executors put what they wrote into frozen
files before; a result that came to the driver is written by the driver. Both send the same scripts, so that either may
repeat, after any failure, what the other has begun.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from trident.base.attempt import Lease
from trident.base.errors import StateError, StateUnavailableError, TopologyError
from trident.compiler.program import Group, Output, Program, Stage
from trident.compiler.results import FrozenFiles, Result
from trident.compiler.spark.state_puts import Puts
from trident.plan.nodes import Node, PersistentAggregate, StateQuery
from trident_state.messages import Applied, Update
from trident_state.store import Shared, SharedBatch, SharedSnapshot, Store

logger = logging.getLogger(__name__)


@dataclass
class Writers:
    """The executors of one run as writers of the states of one group. Threads of different states may call at once."""

    group: Group
    puts: Puts | None
    _checked: dict[str, bool] = field(default_factory=dict)
    """For each state that the executors were to write, whether they reach it. A key is one state's thread's."""

    def executors_take(self, state: str, result: Result, store: Store) -> bool:
        """Return whether the executors write this result into the state; else the driver does."""
        return state in self._fit and self._executors_reach(state, result, store)

    def executors_read(self, node: Node, result: Result) -> bool:
        """Return whether a result that is carried to later stages goes there by reference; else the driver hands it on.

        `node`: the step whose tuples the later stages read.
        """
        if self.puts is None or not isinstance(result, FrozenFiles):
            return False
        return node not in self._read_by_driver and self.puts.sees_files()

    def executors_ask(self, step: StateQuery, result: Result, store: Store) -> bool:
        """Return whether the executors ask the state for the tuples of a result; else the driver does."""
        state = step.updated.state.name
        return step not in self._read_by_driver and self._executors_reach(state, result, store)

    def snapshot(self, store: Shared, state: str, as_of: int) -> SharedSnapshot | None:
        """Return a state as of a txid, for the executors to ask; None if they do not reach it, and need not.

        Raises StateRecoveringError if the state is behind the txid.
        """
        assert self.puts is not None
        snapshot = store.open_snapshot(as_of)
        return snapshot if self._reached(state, snapshot, self.puts) else None

    def _executors_reach(self, state: str, result: Result, store: Store) -> bool:
        """Return whether executors are to work on a result, and on the state, as far as that is known by now."""
        if self.puts is None or not isinstance(result, FrozenFiles) or not isinstance(store, Shared):
            return False
        factory = self._factories[state]
        if getattr(factory, "writers", "driver") == "driver" or not getattr(factory, "sendable", False):
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
                logger.warning("%s; so the driver writes the state, whatever the size of a batch", error)
                self._checked[state] = False
            else:
                self._checked[state] = True
        return self._checked[state]

    @property
    def _factories(self) -> Mapping[str, object]:
        return {step.state.name: step.state.factory for step in self.group.states}

    @cached_property
    def _read_by_driver(self) -> set[Node]:
        return {node for stage in self.group.stages for node in stage.read_by_driver}

    @property
    def _fit(self) -> set[str]:
        return {output.name for output in _outputs(self.group.stages) if _misfit(self.group, output) is None}


def check_writers(program: Program, lasting: bool) -> None:
    """Raise TopologyError for a state that only executors are to write, and which they cannot.

    `lasting`: whether there is a checkpointLocation, for the files that they put.
    """
    for group in program.groups:
        for output in _outputs(group.stages):
            state = getattr(output.step, "state", None)
            if state is None or getattr(state.factory, "writers", "driver") != "executors":
                continue
            why = _misfit(group, output)
            if not lasting:
                why = "without a checkpointLocation there is no folder for the frozen files that they put; name one"
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
