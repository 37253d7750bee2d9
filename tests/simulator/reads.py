"""Reads while faults go on, and the last one, of everything: each must show exactly what was after one batch."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.simulator import core, flows
from tests.simulator.scheduler import Crashed, Pool, Wrong
from trident.base import errors
from trident.base.value_conversion import to_python
from trident.reads.committed_reads import read_committed, read_consistently

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

_REFUSED = (
    errors.StateRecoveringError,
    errors.StateUnavailableError,
    errors.SnapshotMovedError,
    errors.StateFullError,
    errors.FencedError,
)
"""What a read may meet while faults go on."""

Found = dict[str, dict[Any, Any]]
"""By state."""
Shown = Callable[[Any], Any]
"""Makes of a stored value the one that users see."""


class Reads:
    """The reads of a schedule."""

    def __init__(self, world: "World") -> None:
        self._world: Any = world
        self.refusal: BaseException | None = None
        """Why everything could not be read the last time."""

    def begin(self) -> None:
        """Begin a read under some driver."""
        world = self._world
        able = [d for d in world.drivers if d.process.alive and d.run is not None and not d.ended]
        if able:
            driver = world.chance.choice(able)
            self._submit(driver, "reader", lambda: self._read(driver))

    def begin_all(self, driver: "Driver") -> None:
        """Begin to read everything, which must be there."""
        self._submit(driver, "final", lambda: self._read_all(driver))

    def _submit(self, driver: "Driver", name: str, work: Callable[[], None]) -> None:
        pool = next((pool for pool in driver.process.pools if pool.name == name), None)
        pool = pool or Pool(self._world.scheduler, driver.process, name, 1)
        if not pool.work and not pool.running:
            pool.submit(work)

    # --- while faults go on --------------------------------------------------------------------------------------

    def _read(self, driver: "Driver") -> None:
        """A committed read of one state or more."""
        world = self._world
        chance, floor = world.chance, driver.read
        states = [s for s in driver.shape.states if chance.random() < 0.7] or [driver.shape.states[0]]
        countable = all(flows.keys_of(driver.shape.name, state) is not None for state in states)
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
        assert driver.run is not None
        group, shown = self._world.group, driver.shape.shown
        txid, found = read_consistently(
            driver.run.read_source,
            states,
            lambda snapshot: (snapshot.asOf[group], {s: scanned(snapshot.scan(s), shown(s)) for s in states}),
            large=True,
        )
        return {txid}, found

    def _looks_up(self, driver: "Driver", states: list[str]) -> tuple[set[int], Found]:
        assert driver.run is not None
        asked = {s: flows.keys_of(driver.shape.name, s) for s in states}
        read = read_committed(driver.run.read_source, asked)
        found = {
            state: found_of(asked[state], answer.values, driver.shape.shown(state)) for state, answer in read.items()
        }
        return {answer.asOf for answer in read.values()}, found

    def _check(self, driver: "Driver", found: Found, txids: set[int], floor: int) -> None:
        world = self._world
        if driver.life != world.lives:
            return  # of the topology from which this one was forked
        if len(txids) != 1:
            raise Wrong(f"one read as of several txids: {txids}")
        txid = min(txids)
        if txid < floor:
            raise Wrong(f"{driver.name} read as of txid {txid} after a read as of {floor}")
        driver.read = max(driver.read, txid)
        if (world.group, txid) not in world.history.batches and txid not in (0, world.history.restored):
            if world.history.forgot:
                return
            raise Wrong(f"{driver.name} read as of txid {txid}, frozen are {[*world.history.batches]}")
        for state, values in found.items():
            world.history.check(state, values, txid, driver.name)

    # --- at the end ----------------------------------------------------------------------------------------------

    def _read_all(self, driver: "Driver") -> None:
        """Everything that the states hold; each group's states at once."""
        world, found, shown = self._world, Found(), driver.shape.shown
        try:
            assert driver.run is not None
            for states in filter(None, ([s.state.name for s in run.group.states] for run in driver.run.runs.values())):
                found |= read_consistently(
                    driver.run.read_source,
                    states,
                    lambda snapshot, states=states: {s: scanned(snapshot.scan(s), shown(s)) for s in states},  # type: ignore[misc]
                )
            for state, values in found.items():
                world.history.check(state, values, None, driver.name)
            world.result.reads += 1
            world.read_under(driver, found)
        except Crashed:
            raise
        except core.PASSING as error:
            self.refusal = error
            world.read_under(driver, None)
        except BaseException as error:
            world.fail(error)


def scanned(pages: Iterable[pa.Table], shown: Shown) -> dict[Any, Any]:
    """What the pages of a scan show."""
    found: dict[Any, Any] = {}
    for page in pages:
        rows = found_of(page.drop_columns(page.column_names[-1]), page.column(page.num_columns - 1), shown)
        if set(rows) & set(found):
            raise Wrong(f"a scan shows a key twice: {found} and {rows}")
        found |= rows
    return found


def found_of(keys: pa.Table, values: pa.Array, shown: Shown) -> dict[Any, Any]:
    """What a read found, as users see it; nulls are nothing."""
    columns = [column.to_pylist() for column in keys.columns]
    rows = columns[0] if len(columns) == 1 else [*zip(*columns, strict=True)] if columns else [()] * len(values)
    pairs = zip(rows, to_python(values), strict=True)
    return {key: shown(value) for key, value in pairs if value is not None}
