"""The check at a start that executors can write the states that only they may write, and can get the user's code."""

from trident.base.errors import TopologyError
from trident.compiler.carrier_choice import CarrierPlan, check_sendable
from trident.compiler.program import Program
from trident.plan.nodes import StateUpdate


def check_writers(program: Program, lasting: bool) -> None:
    """Raise TopologyError for a state that only executors may write and that they cannot write.

    `lasting` says whether there is a checkpointLocation, where the executors' files are kept. Raises UserCodeError for
    an updater that cannot be sent to executors.
    """
    for group in program.groups:
        choices = CarrierPlan(group).by_state
        for step in group.states:
            choice = choices[step.state.name]
            if choice.wanted != "executors":
                continue
            why = choice.why_driver
            if not lasting:
                why = "there is no location for their files; give a checkpointLocation or a filesLocation"
            if why is not None:
                raise TopologyError(
                    f"state {step.state.name!r} ({step.state.factory!r}) cannot be written by executors: {why}; "
                    f"with writers='auto' or 'driver' the driver writes it [called at {step.site.location}]"
                )
            if isinstance(step, StateUpdate):
                check_sendable(step)
