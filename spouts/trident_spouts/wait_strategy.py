"""The time that a topology waits before it polls its spouts again."""

import math
from abc import ABC, abstractmethod

from trident.base.errors import SpoutContractError, TopologyError
from trident.base.short_texts import typed_brief
from trident_spouts.user_calls import call_function

LEAST_SECONDS = 0.001
"""The shortest wait, so that a strategy cannot keep the processor busy."""


class WaitStrategy(ABC):
    """Decides how long a batch group waits before it polls its spouts again. Extend it for ``start(waitStrategy=)``.

    All batch groups call the same object, each from a separate thread, so it should keep no state.

    Examples
    --------
    >>> class EverySecond(WaitStrategy):
    ...     def emptyEmit(self, streak):
    ...         return 0.01 if streak < 10 else 1.0
    >>> EverySecond().emptyEmit(3)
    0.01

    Notes
    -----
    Meaning: Storm's ``ISpoutWaitStrategy``. In Storm the strategy sleeps; here it returns the time, and the group
    continues its commits meanwhile.
    """

    @abstractmethod
    def emptyEmit(self, streak: int) -> float:
        """Return the seconds to wait before the next poll; less than 0.001 counts as 0.001.

        Called when the spouts had no rows, and while `maxSpoutPending` batches are under way. `streak` is the number of
        such calls in a row, from 1 on; a planned batch ends the streak. A spout that wakes the group by itself, a
        commit that makes room, and ``processAllAvailable`` end the wait early. This method must not wait itself.
        """


def check_wait_strategy(strategy: object) -> WaitStrategy | None:
    """Return the option's value if it is a strategy or None; otherwise raise an error.

    >>> check_wait_strategy(1)
    Traceback (most recent call last):
    trident_client.errors.TopologyError: waitStrategy=1: \
expected an object that extends WaitStrategy (of trident.spouts)
    """
    if strategy is None or isinstance(strategy, WaitStrategy):
        return strategy
    raise TopologyError(f"waitStrategy={strategy!r}: expected an object that extends WaitStrategy (of trident.spouts)")


def wait_of(strategy: WaitStrategy, streak: int) -> float:
    """Return the seconds that a strategy returns. Raises SpoutContractError if it returns something else."""
    seconds = call_function(f"wait strategy {type(strategy).__name__}", strategy.emptyEmit, streak)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise SpoutContractError(
            f"{type(strategy).__name__}.emptyEmit({streak}) returned {typed_brief(seconds)}; expected the seconds to "
            "wait, a number of at least 0"
        )
    return max(LEAST_SECONDS, float(seconds))
