"""How a run begins: the log is taken first, then every state, and only then is read what each of them holds.

Whatever does not fit is refused before anything is written to a store, with the way out. Who may refuse what:

- `membership`: streams, states and outputs that met, parted, were renamed or got another source;
- `program_check`: another program than the one that froze the batches which wait to be committed;
- this module: states that are another topology's or log's, lost, ahead of the log, or declared otherwise.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_fields

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.base.errors import (
    CodeChangedError,
    FencedError,
    LogError,
    LogMismatchError,
    StateAheadError,
    StateLostError,
    StateOwnedError,
)
from trident.compiler.program import Group, Program
from trident.log.history import AttemptRecord, History
from trident.log.protocol import Birth, TransactionLog
from trident.log.snapshot_home import SnapshotHome
from trident.plan.nodes import StateWriter
from trident.recovery.group_membership import Membership, join_log
from trident.recovery.incarnations import check_this_life, of_another_life
from trident.recovery.program_compatibility import Names, waiting_names
from trident.recovery.settings import Settings
from trident.recovery.state_compatibility import check_same_shape
from trident.recovery.takeover import explaining
from trident.user_calls.watched_calls import WatchedCalls
from trident.user_calls.watched_store import watched
from trident_state.messages import StoreReport
from trident_state.state_shape import StateIdentity
from trident_state.store import StateFactory, Store


@dataclass(frozen=True, slots=True)
class Begun:
    """What a run starts from: its program, whose groups have the log's names; its lease, its acquired states, how far
    each group came, and what the outputs of waiting batches are called in this program."""

    program: Program
    lease: Lease
    stores: dict[str, Store]
    births: dict[str, Birth]
    histories: dict[str, History]
    waiting: dict[str, dict[int, Names]]
    warnings: tuple[str, ...] = ()
    """What whoever starts it should know of its streams."""


def begin(program: Program, log: TransactionLog, settings: Settings) -> Begun:
    """Take the log, then the states. Raises FencedError, StateError and LogError as DESIGN's start rules say."""
    before, lease = log.lease(), None
    with explaining(log, before):
        joined = join_log(program, log, settings)
    stores = open_stores(joined.program, log, settings)
    try:
        with explaining(log, before):
            for name, store in stores.items():
                report = store.report()
                _check_ours(name, report, _step(joined.program, name), joined.program, log, settings)
                _check_our_drivers(name, report, before, log, settings)
            _check_waiting(joined, log, settings)
        lease = log.take()
        reach("start.log.taken")
        with explaining(log, lease):
            now = join_log(program, log, settings)  # where the streams stand now that nobody else moves them
            if [group.name for group in now.program.groups] != [group.name for group in joined.program.groups]:
                raise LogError(f"another driver changed the log {settings.log_at} during this start; start again")
            return _begun(now, log, settings, stores, lease, before)
    except BaseException as error:
        close_all(stores)
        if lease is not None and isinstance(error, Exception):
            with contextlib.suppress(FencedError, LogError):  # else it looks like a killed driver's
                log.give_back(lease)
        raise


@dataclass(frozen=True, slots=True)
class _Standing:
    """How far the groups of a program came, and when its states were born: `noted` is what the log says of all states,
    `births` has those of this program that were founded, and new ones."""

    histories: dict[str, History]
    noted: Mapping[str, Birth]
    births: dict[str, Birth]

    @classmethod
    def read(cls, joined: Membership, log: TransactionLog, epoch: int) -> "_Standing":
        there, begin_after = {*log.groups()}, joined.members.founded
        groups = joined.program.groups
        if any(group.name not in there and group.name not in begin_after for group in groups):
            raise LogError("another driver changed the log during this start; start again")
        histories = {g.name: log.history(g.name) if g.name in there else History(begin_after[g.name]) for g in groups}
        noted = log.births()
        births = dict[str, Birth]()
        for group in groups:
            for name in (step.state.name for step in group.states):
                birth, new = noted.get(name), Birth(group.name, histories[group.name].last_frozen, epoch)
                births[name] = birth if birth is not None and (birth.founded or birth == new) else new
        return cls(histories, noted, births)

    def waiting(self, program: Program, log: TransactionLog, settings: Settings) -> dict[str, dict[int, Names]]:
        """Refuse a program that cannot commit what waits."""
        _check_groups_known(program, log)
        founded = {name: birth for name, birth in self.noted.items() if birth.founded}
        return waiting_names(program, self.histories, log, founded | self.births, settings)


def _check_waiting(joined: Membership, log: TransactionLog, settings: Settings) -> None:
    """Refuse a program that cannot commit what waits, before its start fences out a driver that can.

    Beside a driver that runs on, what is read here is of several moments: a refusal counts only where the log stood
    still meanwhile, and whoever takes the log checks again.
    """
    before = log.lease(), _Standing.read(joined, log, 0)
    try:
        before[1].waiting(joined.program, log, settings)
    except (CodeChangedError, LogError):
        if (log.lease(), _Standing.read(joined, log, 0)) == before:
            raise


def _begun(
    joined: Membership,
    log: TransactionLog,
    settings: Settings,
    stores: dict[str, Store],
    lease: Lease,
    before: Lease | None,
) -> Begun:
    """Take every state, now that the log is ours."""
    program = joined.program
    standing = _Standing.read(joined, log, lease.epoch)
    histories, births = standing.histories, standing.births
    waiting = standing.waiting(program, log, settings)
    for group in program.groups:
        _check_states(group, stores, histories[group.name], log, standing.noted, settings)
    if joined.changed:
        log.enroll(lease, joined.members)
        reach("start.enrolled")
    _acquire(stores, births, log, lease)
    for group in program.groups:
        histories[group.name] = _with_attempts(log.history(group.name), log.attempts(group.name), before)
    reach("start.done")
    return Begun(program, lease, stores, births, histories, waiting, joined.warnings)


def _with_attempts(history: History, attempts: Mapping[int, AttemptRecord], before: Lease | None) -> History:
    """Add what earlier drivers attempted. Where the last one gave the log back, it did not die: of what was attempted
    only the numbers count then."""
    if before is None or not before.token:
        records = {txid: AttemptRecord(last.number) for txid, last in attempts.items()}
    else:
        deaths = {txid: last.deaths + int(last.epoch == before.epoch) for txid, last in attempts.items()}
        records = {txid: replace_fields(last, deaths=deaths[txid]) for txid, last in attempts.items()}
    return replace(history, attempts=records)


def open_stores(program: Program, log: TransactionLog, settings: Settings) -> dict[str, Store]:
    """Connect to every state of the topology."""
    stores: dict[str, Store] = {}
    try:
        for group in program.groups:
            for step in group.states:
                name = step.state.name
                identity = StateIdentity(settings.name, name, log.uuid, group.name)
                folder = settings.folder / "states" / name if settings.lasting else None
                store = step.state.factory.open(identity, program.shapes[name], SnapshotHome(log, name, folder))
                calls = WatchedCalls(group.name, settings.clock, settings.messageTimeoutSecs)
                stores[name] = watched(store, name, step.state.factory, calls)
    except BaseException:
        close_all(stores)
        raise
    return stores


def close_all(stores: Mapping[str, Store]) -> None:
    for store in stores.values():
        store.close()


def _step(program: Program, state: str) -> StateWriter:
    return next(s for g in program.groups for s in g.states if s.state.name == state)


def _check_our_drivers(
    name: str, report: StoreReport, last: Lease | None, log: TransactionLog, settings: Settings
) -> None:
    """No driver may have held the state that this log did not start: it had a copy of the log, and its batches are not
    this log's, though their txids are. `last`: the lease that the log gave last."""
    given = 0 if last is None else last.epoch
    foreign = [held for held in report.leases if held.epoch > given or not log.issued(held)]
    if not foreign:
        return
    birth = log.births().get(name)
    if birth is not None:  # the txids say it more plainly, where they do
        history = log.history(birth.group)
        _check_not_ahead(name, report, history.last_frozen, settings)
    raise StateAheadError(
        f"state {name!r} was held by a driver of epoch {foreign[0].epoch} that this log, {settings.log_at}, did not "
        f"start (its own epochs go up to {given}): it is an old copy, or a copy of it was started elsewhere. Start "
        f"with the newest log, or {settings.way_out}"
    )


def _check_ours(
    name: str,
    report: StoreReport,
    step: StateWriter,
    program: Program,
    log: TransactionLog,
    settings: Settings,
) -> None:
    """The place must be empty or hold this very state."""
    found = report.identity
    if found is None:
        return
    if (found.topology, found.name) != (settings.name, name):
        raise StateOwnedError(
            f"the place of state {name!r} holds the state {found.name!r} of topology {found.topology!r}; "
            f"give this state another name or its store another prefix"
        )
    if found.log != log.uuid:
        raise LogMismatchError(
            f"state {name!r} was written under another log (uuid {found.log}) than the one {settings.log_at} "
            f"(uuid {log.uuid}): the checkpoint was removed, moved or mixed up. "
            f"Start with the checkpointLocation (or log=) that belongs to it; or, only where that log is gone for "
            f"good, {settings.way_out}, with force=True"
        )
    check_same_shape(name, report, program.shapes[name], step.state.factory, log, settings)


def _check_states(
    group: Group,
    stores: Mapping[str, Store],
    history: History,
    log: TransactionLog,
    known: Mapping[str, Birth],
    settings: Settings,
) -> None:
    """Refuse states that are lost, or that the log is behind of. Writes nothing. One whose founding was interrupted is
    neither: no batch came to it, and it begins anew."""
    frozen, furthest = history.last_frozen, _furthest(group, history, log)
    for step in group.states:
        name = step.state.name
        report, birth = stores[name].report(), known.get(name)
        if birth is not None and not birth.founded and report.reached <= birth.txid:
            continue
        if report.identity is not None and (birth is None or not birth.founded):
            raise StateAheadError(
                f"state {name!r} exists, but the log {settings.log_at} does not know it: the log is an old "
                f"copy. Restore the newest log. If this is the newest, a driver that was overtaken founded the state "
                f"behind a drop: {settings.drop(name, step.state.factory.survives)} drops it; or {settings.way_out}"
            )
        if birth is not None and frozen > birth.txid and any(g.marker is None for g in report.groups):
            raise _lost(name, frozen, birth, step.state.factory, bool(log.manifest(name)), settings)
        if birth is not None and frozen > birth.txid:
            check_this_life(name, report, birth, settings)
        _check_not_ahead(name, report, frozen, settings)
        if birth is not None and report.reached > max(furthest, birth.txid):  # one founded since is at its birth
            raise StateAheadError(
                f"state {name!r} stands at txid {report.reached}, but the log {settings.log_at} lacks a later "
                f"stage of batch {furthest}: it is an old copy, or that stage is new in this topology. Restore the "
                f"newest log, or start the former code once, or {settings.way_out}"
            )


def _furthest(group: Group, history: History, log: TransactionLog) -> int:
    """Return the last batch that a state of the group can have reached: none is written before all stages of the batch
    before are frozen."""
    for txid in history.frozen:
        if any(log.frozen(group.name, txid, stage.number) is None for stage in group.stages):
            return txid
    return history.last_frozen


def _lost(
    name: str, frozen: int, birth: Birth, factory: StateFactory, in_memory: bool, settings: Settings
) -> StateLostError:
    """`in_memory`: whether the log knows snapshots of it; what is declared now may be another place."""
    way = settings.drop(name, "checkpoint") if in_memory else f"{settings.drop(name, 'server')} and force=True"
    return StateLostError(
        f"state {name!r} is gone or in parts gone from {factory!r}, and the log at txid {frozen} knows that it was "
        f"born at {birth.txid}. If it lies elsewhere (another server, database, prefix, kind of store), declare it so; "
        f"else restore the store from a copy; or let it begin anew from the next batch with "
        f"{way}; or {settings.way_out}"
    )


def _acquire(stores: Mapping[str, Store], births: Mapping[str, Birth], log: TransactionLog, lease: Lease) -> None:
    """Found the states that are not there yet, and take all of them."""
    new = [name for name in stores if not births[name].founded]
    for name, store in stores.items():
        if births[name].epoch == lease.epoch:  # else the founding of an earlier driver goes on
            log.born(lease, name, births[name])
            reach("start.state.born")
        report = store.report()
        if of_another_life(report, births[name]):  # and no batch since: nothing is lost with it
            store.drop(lease)
            report = store.report()
        if any(group.marker is None for group in report.groups):
            store.create(lease, births[name].txid)
            reach("start.state.created")
        store.acquire(lease)
        reach("start.state.acquired")
    if new:
        log.founded(lease, new)
        reach("start.states.founded")


def _check_not_ahead(name: str, report: StoreReport, frozen: int, settings: Settings) -> None:
    if report.reached > frozen:
        raise StateAheadError(
            f"state {name!r} stands at txid {report.reached}, but the log {settings.log_at} froze only up to {frozen}: "
            f"the log is an old copy. Restore the newest log, or {settings.way_out}"
        )


def _check_groups_known(program: Program, log: TransactionLog) -> None:
    """A group that this topology lacks must not wait with a frozen batch."""
    ours = {group.name for group in program.groups}
    for name in log.groups():
        waiting = log.history(name).frozen
        if name not in ours and waiting:
            raise CodeChangedError(
                f"batch {waiting[0]} of the batch group {name!r} is frozen and not committed, and this topology has no "
                f"such group (it has {', '.join(sorted(ours))}); start the former program once, so that it commits. "
                f"Nothing was written"
            )
