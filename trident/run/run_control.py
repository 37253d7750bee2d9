"""The switches of a run: active or inactive, and the numbers of partitions. Only one caller at a time changes them."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from trident.base.errors import TopologyConditionError
from trident.batches.group_run import GroupRun
from trident.display.display import Condition
from trident.plan.parallelism_hints import named_hints


class RunControl:
    """The condition of a run (whether it plans new batches), and its numbers of partitions."""

    def __init__(
        self,
        name: str,
        runs: Mapping[str, GroupRun],
        active: bool,
        own_hints: Mapping[str, int],
        hints: Mapping[str, int],
        over: Callable[[], str | None],
    ) -> None:
        """Create the switches of the topology `name`.

        `own_hints` are the numbers of partitions in the program, and `hints` replace some of them. `over` returns the
        condition of a run that has ended or was asked to end, and None for any other run.
        """
        self._name, self._runs, self._over = name, runs, over
        self._active = active
        self._under_way = ""
        """The verb of a long change that is under way: "rebalance", "savepoint"; "" if there is none."""
        self._own_hints, self._hints = own_hints, dict(hints)
        self._switching = threading.Lock()

    @property
    def condition(self) -> Condition:
        """The condition of a run that has not ended."""
        if self._under_way == "rebalance":
            return "REBALANCING"
        return "ACTIVE" if self._active else "INACTIVE"

    @property
    def hints(self) -> dict[str, int]:
        """The numbers of partitions that differ from the program's."""
        return self._hints

    @property
    def all_hints(self) -> dict[str, int]:
        """The present number of partitions of each `parallelismHint`."""
        return {**self._own_hints, **self._hints}

    def deactivate(self, limit: float | None) -> bool:
        """Plan no new batch. Return whether all planned batches are committed within `limit` seconds."""
        with self._switch("deactivate"):
            self._active = False
            for run in self._runs.values():
                run.deactivate()
        return self._quiet(limit)

    def activate(self) -> None:
        """Plan new batches again."""
        with self._switch("activate"):
            self._active = True
            for run in self._runs.values():
                run.activate()

    def rebalance(self, hints: Mapping[str, int], limit: float | None) -> None:
        """Change numbers of partitions between two batches. Wait for planned batches, at most `limit` seconds."""
        hints = {**self._hints, **named_hints("parallelismHints", hints, self._own_hints)}
        with self.paused("rebalance", limit, "it continues with the previous numbers of partitions"):
            for run in self._runs.values():
                run.rebalance(hints)
            self._hints = hints

    @contextlib.contextmanager
    def paused(self, verb: str, limit: float | None, otherwise: str) -> Iterator[None]:
        """Run the block while no batch is in flight and none is planned.

        Raises TimeoutError, with the text `otherwise`, if planned batches are not committed within `limit` seconds.
        """
        with self._switch(verb):
            try:
                for run in self._runs.values():
                    run.pause()
                if not self._quiet(limit):
                    raise TimeoutError(
                        f"topology {self._name!r} did not commit its planned batches within {limit:g} s; "
                        f"{otherwise}{self._held_up()}"
                    )
                self._check_not_over(verb)
                yield
            finally:
                for run in self._runs.values() if self._active else ():
                    run.activate()

    @contextlib.contextmanager
    def _switch(self, verb: str) -> Iterator[None]:
        """Change the condition, one caller at a time. Raises TopologyConditionError if it cannot be changed.

        Other callers do not wait for a rebalance or a savepoint, which may take long; they get that error.
        """
        with self._switching:
            self._check_not_over(verb)
            if self._under_way:
                doing = "is REBALANCING" if self._under_way == "rebalance" else "takes a savepoint"
                raise TopologyConditionError(
                    f"topology {self._name!r} {doing}: {verb}() has to wait until {self._under_way}() returns"
                )
            if verb not in ("rebalance", "savepoint"):
                yield
                return
            self._under_way = verb
        try:
            yield
        finally:
            self._under_way = ""

    def _check_not_over(self, verb: str) -> None:
        condition = self._over()
        if condition is not None:
            raise TopologyConditionError(f"cannot {verb} topology {self._name!r}: it is {condition}; start it first")

    def _quiet(self, limit: float | None) -> bool:
        """Wait until no group has anything in flight. Return False after `limit` seconds."""
        deadline = None if limit is None else time.monotonic() + limit
        runs = self._runs.values()
        return all(run.quiet(None if deadline is None else max(0.0, deadline - time.monotonic())) for run in runs)

    def _held_up(self) -> str:
        waits = [run.waits_for for run in self._runs.values() if run.waits_for]
        return f"; it waits for: {', '.join(waits)}" if waits else ""
