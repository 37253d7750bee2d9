"""A schedule of a program that stays what it is: one of `flows.py`, with faults that change what is right."""

from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random
from typing import Any

from tests.simulator.driver import Driver
from tests.simulator.fake_delta import check_table
from tests.simulator.fake_log import LogDisk
from tests.simulator.fake_redis import INDEXES
from tests.simulator.faults import WEIGHTS, Faults
from tests.simulator.flows import FLOWS, Flow, flows_of
from tests.simulator.growing import Growth
from tests.simulator.history import Given, History
from tests.simulator.saving import SAVED, Saves
from tests.simulator.scheduler import Wrong
from tests.simulator.setting import Setting
from tests.simulator.spouts import sources_of
from tests.simulator.verdict import Verdict
from tests.simulator.world import World
from trident_state.redis.layout import LEGEND

_HANGS = (0.1, 1.0, 20.0)


class Staying(World):
    """A schedule. `flow`: how the name of its program begins; several with commas. `executors`: whether executors
    certainly write states. `savepoint`: whether a savepoint is certainly taken. `delta`: whether states certainly are
    Delta tables."""

    def __init__(
        self,
        seed: int,
        trace: Callable[[str], None] | None = None,
        flow: str = "",
        executors: bool = False,
        savepoint: bool = False,
        delta: bool = False,
    ) -> None:
        super().__init__(seed, trace)
        chance, able = self.chance, flows_of(flow)
        self.shape = self.flow = Flow.of(chance.choices(able, [FLOWS[name] for name in able])[0])
        self.group = self.flow.program.groups[0].name
        self.setting = Setting(self.scheduler, self.flow.states)
        # By draws of its own, so that the other schedules stay as they were.
        self.setting.draw_delta(Random(f"{seed}/delta"), delta)
        self.setting.draw_executors(Random(f"{seed}/executors"), executors)
        streams = self.flow.by_name()
        self.sources = sources_of(self.scheduler, {name: chance.choice("oatp") for name in streams}, late=0.3)
        numbers = sorted(number for source in self.sources.values() for number in source.there())
        self._poison = chance.choice(numbers) if chance.random() < 0.04 else None
        """The tuple that always fails."""
        in_fibers = chance.choice((0.0, 0.02, 0.05, 0.1, 0.3))
        self.scheduler.in_fibers = max(in_fibers, self.scheduler.in_fibers)
        self.scheduler.pausing = chance.choice((0.2, 0.6))
        weights = [stays for stays, _ in WEIGHTS.values()]
        left = chance.choices([*WEIGHTS], weights, k=chance.choice((0, 1, 2, 3, 4, 6, 9)))
        self.growth = None if self.flow.former is None else Growth(self, self.flow, seed)
        if self.growth is not None:  # a copy of the log from before the new states knows nothing of them
            self.shape, self._poison, self.setting.copies = self.growth.next_shape(), None, False
            self.scheduler.in_fibers = max(self.scheduler.in_fibers, 0.3)  # a start waits for runs of its own
            left = [kind for kind in left if kind not in ("log copied", "snapshot lost")]
        self.faults = Faults(self, left, _HANGS, self.setting.copies)
        if self.growth is None and (savepoint or Random(f"saves {seed}").random() < SAVED):
            self.saves = Saves(self, seed)

    # --- a fork --------------------------------------------------------------------------------------------------

    def begin_fork(self, history: History, disk: LogDisk) -> None:
        """The first topology has ended: from here on, everything is the fork's."""
        self.disk, self.setting.topology = disk, "fork"
        self.settings = replace(self.settings, name="fork")
        self.begin_again(history)

    def begin_again(self, history: History) -> None:
        """Everything of a life of the topology is there, and another life begins with this history."""
        self.history, self.answers = history, {}
        self.lives += 1
        self.lost_writes, self.files_lost = 0, False
        self._finished_at, self._satisfied = None, None
        weights = {kind: stays for kind, (stays, _) in WEIGHTS.items() if kind != "log copied"}
        left = self.chance.choices([*weights], [*weights.values()], k=self.chance.choice((0, 1, 2, 4)))
        self.faults = Faults(self, left, _HANGS)

    def _last(self) -> None:
        if self.saves is not None and self.saves.ready:
            self.saves.fork()
        else:
            super()._last()

    # --- a program that grows ------------------------------------------------------------------------------------

    def _next_start(self) -> None:
        if self.saves is not None and self.saves.waits:
            return
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
        why: Verdict = None if self.growth is None else self.growth.why_right(driver, error)
        if self.saves is not None and self.saves.why_right(error):
            why = "again"
        return why or super()._why_right(driver, error)

    @property
    def _may_finish(self) -> bool:
        return super()._may_finish and self._fork_has_begun and (self.growth is None or self.growth.over)

    @property
    def _fork_has_begun(self) -> bool:
        """Whether some start of the fork, if there is one, came to its end; a later one may have failed."""
        if self.saves is None or not self.saves.forked:
            return True
        return any(driver.life == self.lives and driver.run is not None for driver in self.drivers)

    def _wait_for_programs(self) -> bool:
        return self.growth is not None and self.growth.stop_former()

    # --- the end -------------------------------------------------------------------------------------------------

    def _read_if_quiet(self) -> None:
        """Also stop a former program that slept in its start, and took the log when the new states were there."""
        growth = self.growth
        former = [d for d in self._at_work if growth is not None and growth.founded and d.shape != self.flow]
        for driver in former:
            if driver.asked_at is None:
                driver.stop()
        if not former:
            super()._read_if_quiet()

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
        if self.saves is not None:
            self.saves.check_first()
        for state in [state for state, home in self.setting.homes.items() if home == "delta"]:
            check_table(self.bucket, f"sim://states/{self.setting.topology}/{state}", self.history.last)
        last = str(self.history.last).encode()
        for state in [state for state, home in self.setting.homes.items() if home == "redis"]:
            ours = tuple(f"p:{{{self.setting.topology}/{state}{end}".encode() for end in ("}", "/"))
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
