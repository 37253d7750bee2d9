"""Which schedule a seed is: of a program that stays what it is, or of one that changes between its starts."""

from collections.abc import Callable
from itertools import takewhile

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
DELTA = "delta"
DELTA_CHANGING = "delta changing"
_CHANGING = {LOOSE: "loose", EVOLVING: "evolving", DELTA_CHANGING: "delta"}
"""The families of programs that change, each with the argument that asks for it."""
_STAYING = {EXECUTORS: "executors", SAVEPOINTS: "savepoint", DELTA: "delta"}
"""Words for families of programs that do not change. They come before the names of programs."""


def check(flow: str) -> None:
    """Raise ValueError for a name of no program."""
    if flow not in _CHANGING:
        try:
            flows_of(_parted(flow)[1])
        except ValueError as error:
            raise ValueError(
                f"{error}; or one of {', '.join(map(repr, _CHANGING))}; or some of {', '.join(map(repr, _STAYING))}, "
                f"alone or before other names"
            ) from None


def world_of(seed: int, every: int = EVERY, trace: Callable[[str], None] | None = None, flow: str = "") -> World:
    """The schedule of a seed. `every`: 0 for none of a program that changes. `flow`: how the names of the programs
    begin that do not change; LOOSE: a program that changes, with a loose query of another group's state.
    EXECUTORS, alone or before other names: executors write and ask states. SAVEPOINTS, in the same way: a savepoint is
    taken, and the schedule goes on with a fork. DELTA, in the same way, and DELTA_CHANGING: states are Delta tables."""
    if flow in _CHANGING:
        return Changing(seed, trace, **{_CHANGING[flow]: True})
    asked, names = _parted(flow)
    staying = asked or names or not every or seed % every != every - 1
    return Staying(seed, trace, names, **asked) if staying else Changing(seed, trace)


def _parted(flow: str) -> tuple[dict[str, bool], str]:
    """The families that are asked for, and the names of programs behind them."""
    words = flow.split(",")
    families = [*takewhile(lambda word: word in _STAYING, words)]
    return {_STAYING[word]: True for word in families}, ",".join(words[len(families) :])
