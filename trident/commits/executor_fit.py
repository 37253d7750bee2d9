"""What Spark's executors can do for a state in a commit turn.

A state that only they may write, and cannot, is refused.
"""

from collections.abc import Iterable

from trident.base.errors import TopologyError, UserCodeError
from trident.compiler.columns.function_errors import Where
from trident.compiler.executor_files import has_late_reader, writers_of, writers_of_step
from trident.compiler.keyed_updates import KeyedUpdate, why_not_by_key
from trident.compiler.layout import check_pickles
from trident.compiler.program import Group, Output, Program, Stage
from trident.compiler.states.queries import Question
from trident.plan.nodes import (
    CommittedQuery,
    Emitted,
    LateTuples,
    LettersOf,
    Node,
    PersistentAggregate,
    StateQuery,
    StateUpdate,
    StateWriter,
    sources_of,
)
from trident.plan.state_schema import function_of


def check_writers(program: Program, lasting: bool) -> None:
    """Raise TopologyError for a state that only executors may write and that they cannot write.

    `lasting`: whether there is a checkpointLocation, for the files that they put. Raises UserCodeError for an updater
    that cannot be sent to them.
    """
    for group in program.groups:
        for output in outputs_of(group.stages):
            step = output.step
            if not isinstance(step, StateWriter) or writers_of_step(step) != "executors":
                continue
            why = misfit(group, output)
            if not lasting:
                why = "there is no place for the files that they put; give a checkpointLocation or a filesLocation"
            if why is not None:
                raise TopologyError(
                    f"state {step.state.name!r} ({step.state.factory!r}) is to be written by executors: {why}; with "
                    f"writers='auto' or 'driver' the driver writes it [called at {step.site.location}]"
                )
            if isinstance(step, StateUpdate):
                check_sendable(step)


def check_sendable(step: StateUpdate | StateQuery) -> None:
    """Raise UserCodeError if the user's code of an update by key, or of a query, cannot be sent to Spark's workers."""
    if isinstance(step, StateQuery):
        check_pickles(Where(step.step, step.query.site, step.inputs), Question.of(step).detached())
    else:
        check_pickles(Where(step.step, function_of(step)), KeyedUpdate.of(step))


def is_sendable(step: StateUpdate | StateQuery) -> bool:
    """Return whether the user's code of a step can be sent to Spark's workers."""
    try:
        check_sendable(step)
    except UserCodeError:
        return False
    return True


def outputs_of(stages: Iterable[Stage]) -> list[Output]:
    """Return all outputs of these stages that the log freezes."""
    return [output for stage in stages for output in stage.frozen]


def misfit(group: Group, output: Output) -> str | None:
    """Return why the executors cannot write this output's state; None if they can write it."""
    step = output.step
    if isinstance(step, StateUpdate):
        reasons = [why_not_by_key(step), _why_late(group, step), *map(_from_driver, sources_of(step))]
        why = next((reason for reason in reasons if reason is not None), None)
        return None if why is None else f"the driver computes its values ({step.step}): {why}"
    if not isinstance(step, PersistentAggregate):
        return f"it is no state ({step.step})"
    if any(step in stage.reads for stage in group.stages):
        return f"later steps read its new values ({step.step}), which come to the driver"
    return None


def _why_late(group: Group, step: StateUpdate) -> str | None:
    """Return why the tuples of an update come to the driver if somebody reads its late ones."""
    if not has_late_reader(group, step):
        return None
    return "its late() is read, and the driver looks for late tuples; leave late() out"


def _from_driver(node: Node) -> str | None:
    """Return why the tuples that leave this node are in the driver and not in files; None if they are in files."""
    match node:
        case Emitted(source=updated) | StateQuery(updated=updated):
            by_executors = writers_of(updated.state) == "executors"
        case PersistentAggregate() | CommittedQuery() | LateTuples() | LettersOf():
            by_executors = False
        case _:
            by_executors = not isinstance(node, StateWriter) or writers_of(node.state) == "executors"
    return None if by_executors else f"its tuples come from {node.step}, and so to the driver"
