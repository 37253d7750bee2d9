"""Random fault schedules: that they come out right, that a seed tells everything, and that they find what is broken."""

import os
import subprocess
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulator import fake_log, planted, records
from tests.simulator.driver import Driver
from tests.simulator.fake_log import Group, LogDisk, State
from tests.simulator.fake_redis import FakeRedis
from tests.simulator.families import EVERY, EXECUTORS, SAVEPOINTS, world_of
from tests.simulator.fleet import some
from tests.simulator.history import Frozen
from tests.simulator.logs import LogNetwork
from tests.simulator.patches import machine
from tests.simulator.scheduler import Process, Scheduler
from tests.simulator.side_runs import SideRun
from tests.simulator.verdict import _lost
from tests.simulator.workers import TROUBLES
from tests.support.soak import Soak
from trident.base.errors import SparkFailedError
from trident.batches import coordinator, log_retention
from trident.batches.coordinator import Coordinator, Status
from trident.commits import store_writes
from trident.log.group_records import History
from trident.log.log_server import CREATE, TAKE
from trident.log.protocol import Birth

ROOT = Path(__file__).parents[2]
MILLION = 1_000_000


def simulator(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "state", "spouts"))
    command = [sys.executable, "-m", "tests.simulator", *map(str, args)]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths, **env}, capture_output=True, text=True
    )


def test_random_fault_schedules_lose_nothing_double_nothing_and_show_no_half_batch() -> None:
    done = simulator("--schedules", 200, "--minutes", 0.5)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_more_random_fault_schedules() -> None:
    done = simulator("--seed", 200, "--schedules", 600, "--minutes", 0.5)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.soak(weight=3)
def test_other_fault_schedules_come_out_right_too(soak: Soak) -> None:
    minutes = [] if soak.seconds == inf else ["--minutes", soak.seconds / 60]
    done = simulator("--seed", soak.seed * MILLION, "--schedules", 100_000 if not minutes else MILLION, *minutes)
    soak.tell(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_tries_of_tasks_meet_everything_that_can_happen_to_them() -> None:
    """As long as one of these never happens, executors are not what the simulator says that they are."""
    tally = some(range(100), flow=EXECUTORS)
    assert not tally.wrong
    assert {f"task {kind}" for kind in TROUBLES} <= set(tally.faults)


@pytest.mark.parametrize("flow", ["windows", "executors,windows"])
def test_a_flow_that_there_is_not_is_refused_with_those_that_there_are(
    flow: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.simulator import __main__ as command

    monkeypatch.setattr(sys, "argv", ["tests.simulator", "--flow", flow])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "no flow's name begins with 'windows'; there are one, two, stages, query" in capsys.readouterr().err


# --- a seed tells everything -----------------------------------------------------------------------------------------


def trace_of(seed: int) -> list[str]:
    lines = list[str]()
    with machine():
        world_of(seed, EVERY, lines.append).run()
    return lines


def test_the_same_seed_gives_the_same_trace_and_another_one_another() -> None:
    first = [trace_of(seed) for seed in range(12)]
    assert [trace_of(seed) for seed in range(12)] == first
    assert len({tuple(lines) for lines in first}) == 12


def test_another_process_with_other_hashes_replays_the_same_trace() -> None:
    found = {simulator("--seed", 3, "--trace", PYTHONHASHSEED=hashes).stdout for hashes in ("1", "2")}
    assert len(found) == 1 and "fault: " in found.pop()


def test_a_fault_is_told_with_its_seed_and_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.simulator import __main__ as command

    frozen_again(monkeypatch)
    monkeypatch.setattr(
        command, "everything", lambda seed, schedules, minutes, every, flow: some(range(seed, seed + schedules))
    )
    assert command.many(BREAKS[frozen_again], 8, None) == 1
    told = capsys.readouterr().out
    seed = told.partition("WRONG with seed ")[2].partition(":")[0]
    assert f"python -m tests.simulator --seed {seed} --trace" in told
    assert command.traced(int(seed)) == 1


def test_a_fork_has_begun_once_one_of_its_starts_came_to_its_end() -> None:
    """A driver that slept may go on alone after the starts of later ones have failed."""
    with machine():
        world: Any = world_of(1, flow=SAVEPOINTS)
        world.saves.forked, world.lives = True, 2
        for life, runs, begun in ((1, True, False), (2, False, False), (2, True, True), (2, False, True)):
            world.drivers.append(SimpleNamespace(life=life, run=object() if runs else None))
            assert world._fork_has_begun is begun


def test_a_power_loss_before_a_fork_is_made_leaves_the_batches_of_its_savepoint_committed() -> None:
    """The fork's log has no group yet, and nobody commits these batches in it."""
    with machine():
        world: Any = world_of(1, flow=SAVEPOINTS)
        frozen = Frozen({}, {}, {}, committed=True)
        world.history.batches = {(world.group, 1): frozen, (world.group, 2): frozen}
        world.begin_fork(world.history.up_to(1), LogDisk(uuid="fork"))
        world.lose_unsynced(0)
        assert world.history.batches and not world.history.waiting


def test_a_savepoint_that_ends_beside_the_fork_is_compared_with_its_own_topology() -> None:
    """A driver slept in it while another savepoint was taken, from which the fork is made."""
    with machine():
        world: Any = world_of(1, flow=SAVEPOINTS)
        first, saves = world.history, world.saves
        first.batches = {(world.group, txid): Frozen({}, {}, {}, committed=True) for txid in (1, 2)}
        slept: Any = Driver(world, "driver 1", world.shape)
        assert saves._history_of(slept) is first
        saves._history = first.up_to(1)
        saves.fork()
        assert saves._history_of(slept) is first
        assert saves._history_of(Driver(world, "driver 2", world.shape)) is world.history is not first


def test_the_command_that_creates_a_log_does_not_arrive_twice() -> None:
    """A network repeats nothing by itself, and a driver sends this command once."""
    network = LogNetwork(Scheduler(1), FakeRedis())
    for script, fault in ((CREATE, None), (TAKE, "twice")):
        network.fault = "twice"
        assert network.take_fault([[b"EVALSHA", script.sha]]) == fault


def test_a_run_beside_a_driver_is_watched() -> None:
    """Else it does not hear that another driver took the log, and the start that waits for it has no end."""
    scheduler, process, looks = Scheduler(1), Process("driver 1"), list[float]()
    scheduler.processes.append(process)
    watch = SimpleNamespace(look=lambda: looks.append(scheduler.now))
    driver: Any = SimpleNamespace(world=SimpleNamespace(scheduler=scheduler), process=process)
    started: Any = SimpleNamespace(watch=watch, runs={}, read_source=None)
    SideRun(driver, started)
    scheduler.sleep(2.5)
    assert looks == [1.0, 2.0]


def test_a_changed_program_may_stop_because_spark_failed() -> None:
    """As often as a batch may be tried, with one reason after another."""
    with machine():
        world: Any = world_of(3)
        driver = Driver(world, "driver 1", world.shape)
        world._accepted.append(world.shape)
        assert world._why_right(driver, SparkFailedError("Spark lost its workers")) == "again"


@pytest.mark.parametrize(("epoch", "kept", "lost"), [(b"3", 6, True), (b"3", 5, False), (b"4", 5, False)])
def test_a_state_of_which_only_an_interrupted_creation_is_left_is_lost_unless_the_log_has_all_batches(
    epoch: bytes, kept: int, lost: bool
) -> None:
    """The server lost the creation after it, and so the state, as if it had nothing left."""
    with machine():
        world: Any = world_of(1)
        world.setting.homes, world.lost_writes = {"counts": "redis"}, 1
        world.disk.states["counts"] = State(Birth(world.group, 5, epoch=4, founded=True))
        world.disk.groups[world.group] = Group(kept=kept)
        for tag in world.setting.tags("counts"):
            world.server.data[b"p:{%b}:m" % tag] = {b"marker": b"9", b"epoch": epoch}
        assert _lost(world) is lost


def test_not_everything_is_read_under_a_former_program_that_slept() -> None:
    """It lacks the new states; once it has stopped, the next start has them."""
    with machine():
        world: Any = world_of(1, flow="backfill")
        assert not world._wait_for_programs()
        slept = Driver(world, "driver 1", world.flow.former)
        world.drivers.append(slept)
        assert world._wait_for_programs()
        slept.ended = True
        assert not world._wait_for_programs()


# --- it finds what is broken -----------------------------------------------------------------------------------------

Break = Callable[[pytest.MonkeyPatch], None]


def plans_stay(patch: pytest.MonkeyPatch) -> None:
    """Batches go on that were planned from where another plan would have ended."""
    patch.setattr(Coordinator, "_discard_after", lambda self, txid: None)


def any_attempt_counts(patch: pytest.MonkeyPatch) -> None:
    """A message of an attempt that is over counts for the one that lives."""

    def current(self: Coordinator, attempt: Any, status: Status) -> Any:
        batch = self._batches.get(attempt.txid)
        return batch if batch is not None and batch.status is status else None

    patch.setattr(coordinator.Coordinator, "_current", current)


def nothing_heals(patch: pytest.MonkeyPatch) -> None:
    """A store that lost its last writes goes on without them."""
    patch.setattr(store_writes.StoreWrites, "heal", lambda self, state, upto: None)


def trims_too_much(patch: pytest.MonkeyPatch) -> None:
    """The log lets go of batches that a state in memory has not secured."""
    patch.setattr(log_retention.Trimming, "secured", lambda self, committed: committed)


def frozen_again(patch: pytest.MonkeyPatch) -> None:
    """A batch that is frozen, and was perhaps written in parts, is computed anew (Storm's rule for opaque spouts)."""
    history = fake_log.FakeLog.history

    def forgetful(self: fake_log.FakeLog, group: str) -> History:
        found = history(self, group)
        return History(found.committed, found.positions, ())

    patch.setattr(fake_log.FakeLog, "history", forgetful)


def nobody_is_fenced(patch: pytest.MonkeyPatch) -> None:
    """A driver that was taken over goes on writing the log."""
    write = fake_log.FakeLog._write

    def unasked(self: fake_log.FakeLog, lease: Any, *rest: Any, **how: Any) -> None:
        write(self, None, *rest, **how)

    patch.setattr(fake_log.FakeLog, "_write", unasked)


def a_resend_counts(patch: pytest.MonkeyPatch) -> None:
    """A chunk that is sent again after a lost reply counts twice."""
    record = records.Merging.record

    def always(self: records.Merging, j: int, stored: bytes | None) -> Any:
        if stored is not None and len(stored) == 25:
            stored = stored[:1] + bytes(8) + stored[9:]  # of a batch long ago
        return record(self, j, stored)

    patch.setattr(records.Merging, "record", always)


BREAKS = {
    plans_stay: 260,
    any_attempt_counts: 580,
    nothing_heals: 40,
    trims_too_much: 260,
    frozen_again: 10,  # schedule 5 takes 20,001 turns
    nobody_is_fenced: 0,
    a_resend_counts: 0,
}
"""With the seed to begin at: a schedule behind it was wrong when the simulator last drew other schedules."""


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_a_library_without_one_of_its_guards_is_found_out(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    for first in range(BREAKS[broken], BREAKS[broken] + 3000, 20):
        if some(range(first, first + 20)).wrong:
            return
    pytest.fail(f"3,000 schedules did not notice: {broken.__doc__}")


def test_the_words_by_which_the_oracle_tells_errors_apart_stand_in_the_sources() -> None:
    """Else a reworded message makes an oracle that lets everything pass."""
    for file, words in (
        ("trident/recovery/group_membership.py", "the same txids again"),
        ("trident/outputs/parquet_outlet.py", "restored from an older copy"),
        ("trident/outputs/parquet_outlet.py", "did not have this output"),
        ("trident/outputs/parquet_folder.py", "was published after batch"),
    ):
        assert words in (ROOT / file).read_text(), (file, words)


def test_the_planted_faults_have_their_places_in_the_sources_and_are_python() -> None:
    for fault in [*planted.FAULTS, *planted.OVER_TIME, *planted.BY_EXECUTORS, *planted.IN_TABLES]:
        for file, text, instead in fault.places:
            source = (ROOT / file).read_text()
            assert source.count(text) == 1, f"{fault.name}: {file}"
            compile(source.replace(text, instead), file, "exec")
