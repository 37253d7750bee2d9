"""The check at a start that executors can write the states which only they may write, and can get the user's code."""

from trident.base.errors import TopologyError, UserCodeError
from trident.compiler.carriers import Carriers
from trident.compiler.columns.function_errors import Where
from trident.compiler.keyed_updates import KeyedUpdate
from trident.compiler.layout import check_pickles
from trident.compiler.program import Program
from trident.compiler.states.queries import Question
from trident.plan.nodes import StateQuery, StateUpdate
from trident.plan.state_schema import function_of


def check_writers(program: Program, lasting: bool) -> None:
    """Raise TopologyError for a state that only executors may write and that they cannot write.

    `lasting`: whether there is a checkpointLocation, for the files that they put. Raises UserCodeError for an updater
    that cannot be sent to them.
    """
    for group in program.groups:
        choices = Carriers(group).by_state
        for step in group.states:
            choice = choices[step.state.name]
            if choice.wanted != "executors":
                continue
            why = choice.why_driver
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
