"""The record of which files and servers of states Spark's workers can reach in a run."""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from trident.base.errors import StateError, StateUnavailableError
from trident.commits.carrier import LeftToDriver
from trident.compiler.carrier_choice import Choice
from trident.compiler.engine import Puts
from trident_state.store import Readable, SharedBatch, SharedSnapshot

logger = logging.getLogger(__name__)

_Opened = TypeVar("_Opened", SharedBatch, SharedSnapshot)


class ReachableStores:
    """Records which servers of states and which files the workers of one run can reach, for one group.

    A state passes to the driver at most once. `stores` are the stores of all states that executors may access. Threads
    of different states may call at once.
    """

    def __init__(self, puts: Puts, stores: Mapping[str, object]) -> None:
        self._puts, self._stores = puts, stores
        self._found: dict[str, bool] = {}
        """For each state that executors have tried to access, whether they reach it. Only the thread that writes the
        state uses its entry."""
        self._left = set[Choice]()
        """The updates that, as this run has found, only the driver can compute.

        Only the commit thread uses this set.
        """

    def allows(self, choice: Choice) -> bool:
        """Return whether executors may do a piece of work that the plan gives them, as far as is known now."""
        if choice.wanted != "executors" and not self._puts.ready:
            return False
        here = choice.state is None or (self._is_readable(choice.state) and self._found.get(choice.state, True))
        return choice.divides and here and choice not in self._left and all(map(self.allows, choice.readers))

    def _is_readable(self, state: str) -> bool:
        store = self._stores.get(state)
        return isinstance(store, Readable) and bool(getattr(store, "shareable", True))

    def sees_files(self, needed: bool = False) -> bool:
        """Return whether the workers reach the frozen files, as far as is known now; see `Puts.sees_files`."""
        return self._puts.sees_files(needed)

    def opened(self, choice: Choice, opens: Callable[[], _Opened]) -> _Opened:
        """Call `opens`, which opens the state for the workers, and return its result if the workers reach the state.

        The workers are tested once, and again if the driver has missed a file of theirs since. Raises LeftToDriver if
        they do not reach a state that the driver may work on, StateError if they must reach it, and the errors of
        `opens`.
        """
        shared, state = opens(), choice.state
        assert state is not None
        if self._found.get(state) and not self.sees_files():  # the driver has missed a file of theirs since
            if choice.wanted == "executors":
                del self._found[state]
            else:
                self._found[state] = False
        if state not in self._found:
            try:
                self._puts.check_reached(shared)
            except StateUnavailableError:  # perhaps no process reaches it just now
                raise
            except StateError as error:
                # To the workers, a server that just lost its last writes looks like another server. The following read
                # then raises an error, the state is healed, and the workers are tested again.
                opens()
                if choice.wanted == "executors":
                    raise
                logger.warning("%s; so the driver reads and writes the state, even for large batches", error)
                self._found[state] = False
            else:
                self._found[state] = True
        if not self._found[state]:
            raise LeftToDriver
        return shared

    def leave(self, choice: Choice, error: BaseException) -> None:
        """Give an update to the driver for the rest of the run, because of the keys that the user's code reads."""
        logger.warning("%s; so the driver computes this update, even for large batches", error)
        self._left.add(choice)
