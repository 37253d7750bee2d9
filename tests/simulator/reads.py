"""Reads while faults go on, and the last one, of everything: each must show exactly what was after one batch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.simulator import flows
from tests.simulator.fake_redis import INDEXES
from tests.simulator.oracle import Wrong
from tests.simulator.scheduler import Crashed, Pool
from trident.base.errors import (
    FencedError,
    SnapshotMovedError,
    StateFullError,
    StateRecoveringError,
    StateUnavailableError,
)
from trident.base.values import to_python
from trident.reads.committed_reads import read_committed, read_consistently
from trident_state.redis.layout import LEGEND

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

_PASSING = (StateRecoveringError, StateUnavailableError, SnapshotMovedError)
_REFUSED = (*_PASSING, StateFullError, FencedError)
"""What a read may meet while faults go on."""

Found = dict[str, dict[Any, Any]]
"""By state."""


class Reads:
    """The reads of a schedule."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.refusal: BaseException | None = None
        """Why everything could not be read the last time."""

    def begin(self) -> None:
        """Begin a read under some driver."""
        world = self._world
        able = [d for d in world.drivers if d.process.alive and d.read_source is not None and not d.ended]
        if able:
            driver = world.chance.choice(able)
            self._submit(driver, "reader", lambda: self._read(driver))

    def begin_all(self, driver: "Driver") -> None:
        """Begin to read everything, which must be there."""
        self._submit(driver, "final", lambda: self._read_all(driver))

    def _submit(self, driver: "Driver", name: str, work: Callable[[], None]) -> None:
        for pool in driver.process.pools:
            if pool.name == name:
                break
        else:
            pool = Pool(self._world.scheduler, driver.process, name, 1)
        if not pool.work and not pool.running:
            pool.submit(work)

    # --- while faults go on --------------------------------------------------------------------------------------

    def _read(self, driver: "Driver") -> None:
        """A committed read of one state or more."""
        world = self._world
        chance, floor = world.chance, driver.read
        states = [s for s in world.setting.states if chance.random() < 0.7] or [world.setting.states[0]]
        countable = all(flows.keys_of(world.setting.flow, state) is not None for state in states)
        read = self._looks_up if chance.random() >= 0.2 and countable else self._scans
        try:
            txids, found = read(driver, states)
        except Crashed:
            raise
        except _REFUSED as error:
            world.result.refused += 1
            world.say("%s: a read was refused: %s: %s", driver.name, type(error).__name__, error)
            return
        except BaseException as error:
            world.fail(error)
            return
        world.result.reads += 1
        world.say("%s: read %s as of %s", driver.name, found, txids)
        try:
            self._check(driver, found, txids, floor)
        except Wrong as error:
            world.fail(error)

    def _scans(self, driver: "Driver", states: list[str]) -> tuple[set[int], Found]:
        assert driver.read_source is not None
        group = self._world.setting.group
        txid, found = read_consistently(
            driver.read_source,
            states,
            lambda snapshot: (snapshot.asOf[group], {s: self._scanned(snapshot, s) for s in states}),
            large=True,
        )
        return {txid}, found

    def _looks_up(self, driver: "Driver", states: list[str]) -> tuple[set[int], Found]:
        assert driver.read_source is not None
        asked = {s: flows.keys_of(self._world.setting.flow, s) for s in states}
        read = read_committed(driver.read_source, asked)
        found = {state: self._found_of(state, asked[state], answer.values) for state, answer in read.items()}
        return {answer.asOf for answer in read.values()}, found

    def _check(self, driver: "Driver", found: Found, txids: set[int], floor: int) -> None:
        world = self._world
        if len(txids) != 1:
            raise Wrong(f"one read as of several txids: {txids}")
        txid = min(txids)
        if txid < floor:
            raise Wrong(f"{driver.name} read as of txid {txid} after a read as of {floor}")
        driver.read = max(driver.read, txid)
        if txid < len(world.oracle.after) or not world.seen.copied:
            for state, values in found.items():
                world.oracle.check(state, values, txid, driver.name)

    # --- at the end ----------------------------------------------------------------------------------------------

    def _read_all(self, driver: "Driver") -> None:
        world, states = self._world, self._world.setting.states
        assert driver.read_source is not None
        try:
            found = read_consistently(
                driver.read_source, states, lambda snapshot: {s: self._scanned(snapshot, s) for s in states}
            )
        except Crashed:
            raise
        except _PASSING as error:
            self.refusal = error
            return
        except BaseException as error:
            world.fail(error)
            return
        try:
            world.oracle.check_all(found)
            self._check_clean(found)
        except Wrong as error:
            world.fail(error)
            return
        world.satisfied_by(driver)

    def _check_clean(self, found: Found) -> None:
        """The server's own bookkeeping is right: markers, key counts, nothing left open."""
        world = self._world
        last = str(len(world.oracle.batches)).encode()
        for state, home in world.setting.homes.items():
            if home == "memory":
                continue
            ours = tuple(f"p:{{sim/{state}{end}".encode() for end in ("}", "/"))
            own = {name: h for name, h in world.server.data.items() if name.startswith(ours)}
            metas = [h for name, h in own.items() if name[-2:] == b":m"]
            keys = sum(int(meta[b"keys"]) for meta in metas)
            # Of a key that was removed a record stays until no read can ask for what it held.
            held = sum(field != LEGEND for name, h in own.items() if b":b:" in name for field in h)
            if len(metas) != world.setting.groups or any(m[b"marker"] != last or b"open" in m for m in metas):
                raise Wrong(f"state {state!r} ends with {metas}, the last batch is {last!r}")
            if keys != held or held < len(found[state]):
                raise Wrong(
                    f"state {state!r} counts {keys} keys, it has {held}, of which {len(found[state])} are shown"
                )
            timed = sum(len(h) for name, h in own.items() if name.endswith(INDEXES))
            if any(b"due" in meta for meta in metas) and timed != len(found[state]):
                raise Wrong(f"state {state!r} shows {len(found[state])} keys, and knows when {timed} are due")

    # --- what is found -------------------------------------------------------------------------------------------

    def _scanned(self, snapshot: Any, state: str) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for page in snapshot.scan(state):
            rows = self._found_of(state, page.drop_columns(page.column_names[-1]), page.column(page.num_columns - 1))
            if set(rows) & set(found):
                raise Wrong(f"a scan of {state!r} shows a key twice")
            found |= rows
        return found

    def _found_of(self, state: str, keys: pa.Table, values: pa.Array) -> dict[Any, Any]:
        """What a read found, as users see it; nulls are nothing."""
        shown = flows.presenting(self._world.setting.flow, state)
        columns = [column.to_pylist() for column in keys.columns]
        rows = columns[0] if len(columns) == 1 else [*zip(*columns, strict=True)] if columns else [()] * len(values)
        pairs = zip(rows, to_python(values), strict=True)
        return {key: shown(value) for key, value in pairs if value is not None}
