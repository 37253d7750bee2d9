"""The outputs that Spark's executors always write into files, because only executors work on them afterwards."""

from trident.compiler.keyed_updates import why_not_by_key
from trident.compiler.program import Group, Stage
from trident.plan.nodes import (
    HeldState,
    LateTuples,
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


def has_late_reader(group: Group, step: StateUpdate) -> bool:
    """Return whether somebody reads the late tuples of a window. The driver looks for them."""
    outputs = [output.step for stage in group.stages for output in stage.frozen]
    return any(isinstance(late, LateTuples) and late.window is step for late in outputs)


def chosen_writers(group: Group, step: StateWriter) -> str:
    """Return who works on the state of a step; "driver" also where "auto" leaves it to the driver always."""
    writers = writers_of_step(step)
    if writers == "auto" and isinstance(step, StateUpdate):
        return "driver" if why_not_by_key(step) is not None or has_late_reader(group, step) else writers
    return writers


def always_in_files(group: Group, stage: Stage) -> frozenset[str]:
    """Return the outputs that executors put, use to query a state, or use to update a state, whatever their size."""
    updates = [step for step in group.states if isinstance(step, StateUpdate) and why_not_by_key(step) is None]
    entering = {source for step in updates if writers_of(step.state) == "executors" for source in sources_of(step)}

    def by_executors(step: object) -> bool:
        if isinstance(step, PersistentAggregate | StateQuery):
            spec = step.state if isinstance(step, PersistentAggregate) else step.updated.state
            return writers_of(spec) == "executors"
        return step in entering

    return frozenset(output.name for output in stage.outputs if by_executors(output.step))
