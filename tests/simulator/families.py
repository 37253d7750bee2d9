"""Which schedule a seed is: of a program that stays what it is, or of one that changes between its starts."""

from collections.abc import Callable

from tests.simulator.changing import Changing
from tests.simulator.flows import flows_of
from tests.simulator.staying import Staying
from tests.simulator.world import World

EVERY = 4
"""Every so many schedules one is of a program that changes."""
LOOSE = "loose query"
EVOLVING = "evolving"
EXECUTORS = "executors"
SAVEPOINTS = "savepoints"


def check(flow: str) -> None:
    """Raise ValueError for a name of no program."""
    first, _, others = flow.partition(",")
    if flow not in (LOOSE, EVOLVING):
        try:
            flows_of(others if first in (EXECUTORS, SAVEPOINTS) else flow)
        except ValueError as error:
            raise ValueError(
                f"{error}; or {LOOSE!r}; or {EVOLVING!r}; or {EXECUTORS!r} or {SAVEPOINTS!r}, alone or before other "
                f"names"
            ) from None


def world_of(seed: int, every: int = EVERY, trace: Callable[[str], None] | None = None, flow: str = "") -> World:
    """The schedule of a seed. `every`: 0 for none of a program that changes. `flow`: how the names of the programs
    begin that do not change; LOOSE: a program that changes, with a loose query of another group's state.
    EXECUTORS, alone or before other names: executors write and ask states. SAVEPOINTS, in the same way: a savepoint is
    taken, and the schedule goes on with a fork."""
    first, _, others = flow.partition(",")
    if first == EXECUTORS:
        return Staying(seed, trace, others, executors=True)
    if first == SAVEPOINTS:
        return Staying(seed, trace, others, savepoint=True)
    if flow == LOOSE:
        return Changing(seed, trace, loose=True)
    if flow == EVOLVING:
        return Changing(seed, trace, evolving=True)
    return Changing(seed, trace) if every and seed % every == every - 1 else Staying(seed, trace, flow)
