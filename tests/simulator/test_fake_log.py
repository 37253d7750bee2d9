"""The simulated log against the SQLite log: any calls in any order, the same refusals and the same contents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulator.fake_log import FakeLog, LogDisk
from tests.simulator.scheduler import Scheduler
from trident.base.attempt import Lease
from trident.base.errors import TridentError
from trident.frozen.results import FrozenFile, FrozenFiles
from trident.log.frozen_results import freeze
from trident.log.group_records import AttemptRecord
from trident.log.protocol import BatchRecord, Birth, Members, StreamRecord
from trident.log.sqlite_log import SqliteLog

Call = Callable[[Any, list[Lease]], Any]
"""What is called on a log, given the leases that it gave out so far (their tokens are random)."""

TABLES = [pa.table({"word": [f"word {n}" for n in range(rows)], "count": list(range(rows))}) for rows in (1, 400)]
SMALL, LARGE = map(freeze, TABLES)
FILES = [
    freeze(FrozenFiles(f"frozen/log/g/1-{number}-0-1", (FrozenFile("part.arrow", 100, 5, 7),), TABLES[0].schema))
    for number in range(2)
]
"""Large results, by reference."""


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Call]:
    """A call and how it is shown."""
    kind = draw(
        st.sampled_from(
            "take follow renew give_back enroll attempted attempted freeze freeze freeze freeze_stage "
            "committed committed born forget publish trim sync".split()
        )
    )
    which, txid, number = draw(st.sampled_from([-1, -1, -1, -2])), draw(st.integers(1, 4)), draw(st.integers(0, 2))
    plan, outline = {"s": draw(st.integers(0, 2))}, draw(st.sampled_from(["", "program"]))
    streams = {"s": StreamRecord(draw(st.sampled_from(["g", "h"])), number, "", draw(st.booleans()))}
    members = Members(streams, {"alerts": "g"}, draw(st.sampled_from([{}, {"g": 1}, {"h": 0}])))
    record = AttemptRecord(number, txid, number, {"s": outline})
    output = draw(st.sampled_from([SMALL, LARGE, *FILES]))
    keep = draw(st.integers(0, 3)), draw(st.sampled_from([0, SMALL.size, 3 * SMALL.size, 1 << 30]))

    def lease(leases: list[Lease]) -> Lease:
        return leases[which] if len(leases) >= -which else Lease(7, "never given")

    made: dict[str, Call] = {
        "take": lambda log, leases: leases.append(log.take()),
        "follow": lambda log, leases: leases.append(log.take(after=lease(leases))),
        "renew": lambda log, leases: log.renew(lease(leases)),
        "give_back": lambda log, leases: log.give_back(lease(leases)),
        "enroll": lambda log, leases: log.enroll(lease(leases), members),
        "attempted": lambda log, leases: log.attempted(lease(leases), "g", txid, record),
        "freeze": lambda log, leases: log.freeze(
            lease(leases), "g", txid, BatchRecord(plan, 0.5, outline), plan, {"counts": output}
        ),
        "freeze_stage": lambda log, leases: log.freeze_stage(lease(leases), "g", txid, 2, {"totals": output}),
        "committed": lambda log, leases: log.committed(lease(leases), "g", txid),
        "born": lambda log, leases: log.born(lease(leases), "counts", Birth("g", 0)),
        "forget": lambda log, leases: log.forget(lease(leases), "counts"),
        "publish": lambda log, leases: log.publish(lease(leases), "counts", b"%d" % txid),
        "trim": lambda log, leases: set(log.trim(lease(leases), "g", min(txid, log.history("g").committed), *keep)),
        "sync": lambda log, leases: log.sync(lease(leases)),
    }
    return f"{kind}({which}, {txid}, {record}, {plan}, {members}, {keep})", made[kind]


def outcome(log: Any, call: Call, leases: list[Lease]) -> Any:
    try:
        return call(log, leases)
    except TridentError as error:
        return type(error)


def contents(log: Any) -> dict[str, Any]:
    """Everything that a log tells; of what is frozen: how much, and which stage of which batch."""
    lease = log.lease()
    return {
        "lease": None if lease is None else (lease.epoch, bool(lease.token)),
        "groups": log.groups(),
        "history": outcome(log, lambda log, _: log.history("g"), []),
        "members": log.members(),
        "attempts": log.attempts("g"),
        "batches": [log.batch("g", txid) for txid in range(1, 6)],
        "frozen": {
            (txid, stage): {name: (output.rows, output.size) for name, output in found.items()}
            for txid in range(1, 6)
            for stage in (1, 2)
            if (found := log.frozen("g", txid, stage)) is not None
        },
        "births": log.births(),
        "manifest": log.manifest("counts"),
        "kept": log.kept_since("g"),
        "folders": log.folders("g"),
    }


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(calls(), min_size=5, max_size=25))
def test_any_calls_have_the_same_outcome_and_leave_the_same_log(
    tmp_path_factory: Any, given_calls: list[tuple[str, Call]]
) -> None:
    folder: Path = tmp_path_factory.mktemp("log")
    real, fake = SqliteLog(folder / "log.sqlite", "sim"), FakeLog(LogDisk(), Scheduler(0), lambda what: None)
    logs: tuple[SqliteLog | FakeLog, ...] = (real, fake)
    leases: tuple[list[Lease], list[Lease]] = ([], [])
    for log, mine in zip(logs, leases, strict=True):
        mine.append(log.take())
        log.enroll(mine[0], Members({"s": StreamRecord("g")}, {}, {"g": 0}))
    try:
        for shown, call in given_calls:
            assert outcome(fake, call, leases[1]) == outcome(real, call, leases[0]), shown
            assert contents(fake) == contents(real), shown
    finally:
        real.close()


def test_a_power_loss_takes_back_what_no_fsync_followed() -> None:
    disk = LogDisk()
    log = FakeLog(disk, Scheduler(0), lambda what: None)
    lease = log.take()
    log.enroll(lease, Members({"s": StreamRecord("g")}, {}, {"g": 0}))
    for txid in (1, 2):
        log.freeze(lease, "g", txid, BatchRecord({"s": txid}, 0.5), {"s": txid}, {"counts": SMALL})
    log.attempted(lease, "g", 3, AttemptRecord(0, 1))
    log.committed(lease, "g", 1)
    log.committed(lease, "g", 2)
    disk.lose(1)
    assert log.attempts("g") == {3: AttemptRecord(0, 1)}
    assert log.history("g").committed == 1 and log.history("g").frozen == (2,)
    log.committed(lease, "g", 2)
    log.sync(lease)
    disk.lose(5)
    assert log.history("g").committed == 2
