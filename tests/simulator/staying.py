"""A schedule of a program that stays what it is: one of `flows.py`, with faults that change what is right."""

from collections.abc import Callable, Collection
from random import Random
from typing import Any

from tests.simulator.driver import Driver
from tests.simulator.fake_redis import INDEXES
from tests.simulator.faults import WEIGHTS, Faults
from tests.simulator.flows import FLOWS, Flow, flows_of
from tests.simulator.growing import Growth
from tests.simulator.history import Given, History
from tests.simulator.scheduler import Wrong
from tests.simulator.setting import Setting
from tests.simulator.spouts import sources_of
from tests.simulator.verdict import Verdict
from tests.simulator.world import World
from trident_state.redis.layout import LEGEND


class Staying(World):
    """A schedule. `flow`: how the name of its program begins; several with commas. `executors`: whether executors
    certainly write states."""

    def __init__(
        self, seed: int, trace: Callable[[str], None] | None = None, flow: str = "", executors: bool = False
    ) -> None:
        super().__init__(seed, trace)
        chance, able = self.chance, flows_of(flow)
        self.shape = self.flow = Flow.of(chance.choices(able, [FLOWS[name] for name in able])[0])
        self.group = self.flow.program.groups[0].name
        self.setting = Setting(self.scheduler, self.flow.states)
        # By draws of its own, so that the other schedules stay as they were.
        self.setting.draw_executors(Random(f"{seed}/executors"), executors)
        streams = self.flow.by_name()
        self.sources = sources_of(self.scheduler, {name: chance.choice("oatp") for name in streams}, late=0.3)
        numbers = sorted(number for source in self.sources.values() for number in source.there())
        self._poison = chance.choice(numbers) if chance.random() < 0.04 else None
        """The tuple that always fails."""
        self.scheduler.in_fibers = chance.choice((0.0, 0.02, 0.05, 0.1, 0.3))
        self.scheduler.pausing = chance.choice((0.2, 0.6))
        weights = [stays for stays, _ in WEIGHTS.values()]
        left = chance.choices([*WEIGHTS], weights, k=chance.choice((0, 1, 2, 3, 4, 6, 9)))
        self.growth = None if self.flow.former is None else Growth(self, self.flow, seed)
        if self.growth is not None:  # a copy of the log from before the new states knows nothing of them
            self.shape, self._poison, self.setting.copies = self.growth.next_shape(), None, False
            left = [kind for kind in left if kind not in ("log copied", "snapshot lost")]
        self.faults = Faults(self, left, (0.1, 1.0, 20.0), self.setting.copies)

    # --- a program that grows ------------------------------------------------------------------------------------

    def _next_start(self) -> None:
        if self.growth is not None:
            self.shape = self.growth.next_shape()
        super()._next_start()

    def founded(self, driver: Driver, states: Collection[str]) -> None:
        super().founded(driver, states)
        if self.growth is not None:
            self.growth.created({*states})

    def heard(self, driver: Driver, tell: Callable[[History], None]) -> None:
        before = len(self.history.batches)
        super().heard(driver, tell)
        if self.growth is not None and len(self.history.batches) > before:
            self.growth.froze(driver)

    def _why_right(self, driver: Driver, error: BaseException) -> Verdict:
        why = None if self.growth is None else self.growth.why_right(driver, error)
        return why or super()._why_right(driver, error)

    @property
    def _may_finish(self) -> bool:
        return super()._may_finish and (self.growth is None or self.growth.over)

    # --- the end -------------------------------------------------------------------------------------------------

    def poisons(self, given: Given) -> bool:
        return self._poison is not None and any(seq == self._poison for rows in given.values() for _, seq in rows)

    @property
    def missing(self) -> dict[str, list[int]]:
        """Also the number of timers that are to fire, once every tuple is in a batch."""
        missing = super().missing
        owed = 0 if missing else self.flow.owed(self.history.timed)
        return {"timers": [owed]} if owed else missing

    def check_end(self, found: dict[str, dict[Any, Any]]) -> None:
        """The server's own bookkeeping is right: markers, key counts, nothing left open."""
        last = str(len(self.history.batches)).encode()
        for state in [state for state, home in self.setting.homes.items() if home == "redis"]:
            ours = tuple(f"p:{{sim/{state}{end}".encode() for end in ("}", "/"))
            own = {name: h for name, h in self.server.data.items() if name.startswith(ours)}
            metas = [h for name, h in own.items() if name[-2:] == b":m"]
            keys = sum(int(meta[b"keys"]) for meta in metas)
            # Of a key that was removed a record stays until no read can ask for what it held.
            held = sum(field != LEGEND for name, h in own.items() if b":b:" in name for field in h)
            if len(metas) != self.setting.groups or any(m[b"marker"] != last or b"open" in m for m in metas):
                raise Wrong(f"state {state!r} ends with {metas}, the last batch is {last!r}")
            if keys != held or held < len(found[state]):
                raise Wrong(
                    f"state {state!r} counts {keys} keys, it has {held}, of which {len(found[state])} are shown"
                )
            timed = sum(len(h) for name, h in own.items() if name.endswith(INDEXES))
            due = self.flow.due(state, self.history.timed)
            ought = len(found[state]) if due is None else due
            if any(b"due" in meta for meta in metas) and timed != ought:
                raise Wrong(f"state {state!r} has {ought} keys that are due, and knows when {timed} are")
