"""The two families of schedules: a program that stays what it is, and one that changes between its starts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from tests.simulator import patches
from tests.simulator.changing import core
from tests.simulator.changing.world import World as Changing
from tests.simulator.world import World

EVERY = 4
"""Every so many schedules one is of a program that changes."""
LOOSE = "loose query"
EXECUTORS = "executors"


def world_of(
    seed: int, every: int = EVERY, trace: Callable[[str], None] | None = None, flow: str = ""
) -> World | Changing:
    """The schedule of a seed. `every`: 0 for none of a program that changes. `flow`: how the names of the topologies
    begin that do not change; LOOSE: a program that changes, with a loose query of another group's state.
    EXECUTORS, alone or before other names: executors write and ask states."""
    first, _, others = flow.partition(",")
    if first == EXECUTORS:
        return World(seed, trace, others, executors=True)
    if flow == LOOSE:
        return Changing(seed, trace, loose=True)
    return Changing(seed, trace) if every and seed % every == every - 1 else World(seed, trace, flow)


@contextmanager
def machine() -> Iterator[None]:
    """What stands in the place of the machine, for both."""
    with patches.machine(), ExitStack() as stack:
        for module, name, thing in _PUT:
            stack.enter_context(patch.object(module, name, thing))
        yield


_PUT = core.patched()
