"""The carriers of a group's states in a commit turn: the driver or Spark's executors, decided once from the program.

A state's factory names its writers: "driver", "executors", or "auto" for whichever of them has the tuples. The program
may leave the work to the driver all the same, and then there is one reason, which `explain` and errors print. During a
run only two things remain open: where a result is, and whether the executors reach the state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from trident.compiler.keyed_updates import why_not_by_key
from trident.compiler.program import Group, Output, Stage
from trident.plan.nodes import (
    CommittedQuery,
    Emitted,
    HeldState,
    LateTuples,
    LettersOf,
    Node,
    PersistentAggregate,
    StateQuery,
    StateSpec,
    StateUpdate,
    StateWriter,
    Watermark,
    sources_of,
)


def writers_of(state: StateSpec) -> str:
    """Return who must work on a state in a commit turn, as its factory says: "driver", "executors" or "auto"."""
    return str(getattr(state.factory, "writers", "driver"))


def writers_of_step(step: HeldState) -> str:
    """Return who must work on the state of a step: as `writers_of`, but a watermark is one value, and the driver's."""
    return "driver" if isinstance(step, Watermark) else writers_of(step.state)


@dataclass(frozen=True, slots=True)
class Choice:
    """The carrier of one state. `wanted`: its writers, as `writers_of_step`. `why_driver`: None if executors can."""

    wanted: str
    why_driver: str | None

    @property
    def writers(self) -> str:
        """The writers: "driver", "executors" or "auto". If "auto" always comes to the driver, it is "driver"."""
        return "driver" if self.wanted == "auto" and self.why_driver is not None else self.wanted

    @property
    def by_executors(self) -> bool:
        """True if only executors work on the state, whatever the size of a batch."""
        return self.wanted == "executors" and self.why_driver is None


@dataclass(frozen=True)
class Carriers:
    """The carriers of a group's states."""

    group: Group

    @cached_property
    def by_state(self) -> Mapping[str, Choice]:
        """The choice for each state that the group writes, by the state's name."""
        frozen = [output for stage in self.group.stages for output in stage.frozen]
        return {
            output.step.state.name: Choice(writers_of_step(output.step), self._why_driver(output))
            for output in frozen
            if isinstance(output.step, StateWriter)
        }

    def in_files(self, stage: Stage) -> frozenset[str]:
        """Return the outputs of a stage that executors write into files, whatever their size.

        Only executors work on them afterwards: they put them, use them to query a state, or to update one.
        """
        updates = [step for step in self.group.states if isinstance(step, StateUpdate)]
        by_choice = [step for step in updates if self.by_state[step.state.name].by_executors]
        entering = {source for step in by_choice for source in sources_of(step)}

        def by_executors(step: object) -> bool:
            if isinstance(step, PersistentAggregate | StateQuery):
                spec = step.state if isinstance(step, PersistentAggregate) else step.updated.state
                return writers_of(spec) == "executors"
            return step in entering

        return frozenset(output.name for output in stage.outputs if by_executors(output.step))

    def _why_driver(self, output: Output) -> str | None:
        """Return why the executors cannot write this output's state; None if they can write it."""
        step = output.step
        if isinstance(step, StateUpdate):
            reasons = [why_not_by_key(step), self._why_late(step), *map(_why_in_driver, sources_of(step))]
            why = next((reason for reason in reasons if reason is not None), None)
            return None if why is None else f"the driver computes its values ({step.step}): {why}"
        if any(step in stage.reads for stage in self.group.stages):
            return f"later steps read its new values ({step.step}), which come to the driver"
        return None

    def _why_late(self, step: StateUpdate) -> str | None:
        """Return why the tuples of an update come to the driver if a step reads its late ones."""
        outputs = [output.step for stage in self.group.stages for output in stage.frozen]
        if any(isinstance(late, LateTuples) and late.window is step for late in outputs):
            return "its late() is read, and the driver looks for late tuples; leave late() out"
        return None


def _why_in_driver(node: Node) -> str | None:
    """Return why the tuples that leave this node are in the driver and not in files; None if they are in files."""
    match node:
        case Emitted(source=updated) | StateQuery(updated=updated):
            by_executors = writers_of(updated.state) == "executors"
        case PersistentAggregate() | CommittedQuery() | LateTuples() | LettersOf():
            by_executors = False
        case _:
            by_executors = not isinstance(node, StateWriter) or writers_of(node.state) == "executors"
    return None if by_executors else f"its tuples come from {node.step}, and so to the driver"
