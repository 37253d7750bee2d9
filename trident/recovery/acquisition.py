"""The start of a run: take the log, check the states, then create and acquire every state.

A start refuses an unsuitable log or state before it writes to a store, and its error gives advice. Five modules
refuse:

- `group_membership`: streams, states and outputs that were connected, separated or renamed, or whose source changed;
- `program_compatibility`: a program that differs from the program that froze the waiting batches;
- `readers_of_changes`: a state that is built on the changes of an older state, or of a dropped one;
- `changed_steps`: a state that retracts rows, after steps that have changed;
- this module: states of another topology or log, states that are lost, ahead of the log, or declared otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from msgspec.structs import replace as replace_fields

from trident.base.attempt import Holder, Lease
from trident.base.crash_points import reach
from trident.base.errors import (
    CodeChangedError,
    LogError,
    LogMismatchError,
    StateAheadError,
    StateError,
    StateLostError,
    StateOwnedError,
    StateUnavailableError,
)
from trident.compiler.program import Group, Program
from trident.configuration.settings import Settings
from trident.log.group_records import AttemptRecord, History
from trident.log.protocol import NO_LEASE, Birth, TransactionLog
from trident.log.returned_lease import give_back
from trident.log.snapshot_home import SnapshotHome
from trident.plan.nodes import StateWriter, Watermark
from trident.plan.watermark_names import dropped_by
from trident.recovery.backfills import (
    Fill,
    Pending,
    check_backfills,
    check_beside,
    no_fill,
    pending_backfills,
    unused_beginning,
    writers_of,
)
from trident.recovery.change_readers import check_readers
from trident.recovery.changed_steps import check_steps
from trident.recovery.first_content import FirstContents
from trident.recovery.folder_owner import take_objects
from trident.recovery.fork_origin import check_fork
from trident.recovery.group_membership import Membership, join_log
from trident.recovery.incarnations import of_another_life, of_earlier_life
from trident.recovery.index_filling import NewIndex, check_no_waiting, content_of_index, new_indexes
from trident.recovery.initial_content import as_earlier_tuples, content_of
from trident.recovery.other_copies import not_issued
from trident.recovery.program_compatibility import Names, match_waiting_batches
from trident.recovery.state_compatibility import check_same_shape
from trident.recovery.state_evolution import evolve_stores
from trident.recovery.takeover import OvertakenError, explaining, overtaken
from trident.user_calls.watched_calls import WatchedCalls
from trident.user_calls.watched_store import watched
from trident_state.state_shape import StateIdentity
from trident_state.store import Store
from trident_state.store_messages import StoreReport


@dataclass(frozen=True, slots=True)
class Begun:
    """The data of a run when it begins: its log, lease and states, and the progress of each group.

    The groups of `program` have the log's names. `stores` are acquired under `lease`. `waiting` holds, for each
    group and each waiting batch, the names that the batch's outputs have in this program.
    """

    program: Program
    lease: Lease
    stores: dict[str, Store]
    births: dict[str, Birth]
    histories: dict[str, History]
    waiting: dict[str, dict[int, Names]]
    warnings: tuple[str, ...] = ()
    """Warnings for the user that concern the streams."""
    died: bool = False
    """True if the previous driver did not release the log."""
    holder: Holder | None = None
    """This driver's record in the log, which other drivers can read."""


def begin(
    program: Program,
    log: TransactionLog,
    settings: Settings,
    after: Lease | None = None,
    taken: Callable[[Lease], object] = lambda lease: None,
    fill: Fill = no_fill,
) -> Begun:
    """Take the log, then the states; docs/protocol.md, "A start", lists the steps.

    The checks run twice. They run before the log is taken, so that a refused start fences no driver out, and again
    after the log is taken, because another driver may have committed batches in between. A start that fails releases
    the log.

    `after`: take the log only if this is still its lease; raise OvertakenError if another driver has taken the log
    since. `taken` is called with the new lease. `fill` returns the contents of states that begin with earlier tuples.

    Raises FencedError, StateError or LogError if the log, a state or the program does not fit.
    """
    before, lease = log.lease(), None
    if after is not None and after != (before or NO_LEASE):
        raise OvertakenError(f"another driver took the log {settings.log_at} before this one; nothing was written")
    holder = Holder.here(settings.clock.time(), settings.leaseSecs)
    with overtaken(after), explaining(log, before):
        check_fork(program, log, settings)
        joined = join_log(program, log, settings)
        stores = open_stores(joined.program, log, settings)
    try:
        with overtaken(after), explaining(log, before):
            _check_before(joined, stores, before, log, settings)
            _check_waiting(joined, log, settings)
        with overtaken(after):
            lease = log.take(holder, after)
        taken(lease)
        take_objects(settings, log, lease)
        reach("start.log.taken")
        with explaining(log, lease):
            check_fork(program, log, settings)  # again: the fork may have begun since
            final = join_log(program, log, settings)  # again, now that no other driver can move the streams
            if [group.name for group in final.program.groups] != [group.name for group in joined.program.groups]:
                raise LogError(f"another driver changed the log {settings.log_at} during this start; start again")
            begun = _take_states(final, log, settings, stores, lease, before, fill)
            return replace(begun, holder=replace_fields(holder, epoch=lease.epoch))
    except BaseException as error:
        close_all(stores)
        # After an interrupt (Ctrl-C, a notebook's Stop) or an exit the process continues to run, as after an error.
        if lease is not None and isinstance(error, Exception | KeyboardInterrupt | SystemExit):
            give_back(log, lease)  # an unreleased lease would count as a death
        raise


def check_start(program: Program, former: Program, log: TransactionLog, settings: Settings) -> None:
    """Make the checks that `begin` makes before it takes the log, and write nothing.

    `former` is the part of the program that commits the waiting batches first. Raises CodeChangedError also if a driver
    is running with batches in flight that this program could not commit; FencedError if a check failed because another
    driver took the log meanwhile.
    """
    before = log.lease()
    with explaining(log, before):
        check_fork(program, log, settings)
        joined = join_log(program, log, settings)
        stores = open_stores(joined.program, log, settings)
        try:
            _check_before(joined, stores, before, log, settings)
        finally:
            close_all(stores)
        joined = join_log(former, log, settings)
        progress = _Progress.read(joined, log, 0)
        check_beside(joined.program, progress.histories, log, progress.known, settings)
        _check_waiting(joined, log, settings)


def _check_before(
    joined: Membership, stores: Mapping[str, Store], before: Lease | None, log: TransactionLog, settings: Settings
) -> None:
    """Refuse states that do not fit, before the log is taken."""
    # Errors about owners say more than errors about watermarks.
    for node in sorted(writers_of(joined.program), key=lambda node: isinstance(node, Watermark)):
        name = node.state.name
        report = stores[name].report()
        _check_ours(name, report, node, joined.program, log, settings)
        _check_our_drivers(name, report, before, log, settings)
    check_backfills(joined.program, pending_backfills(joined.program, joined.members, log))


@dataclass(frozen=True, slots=True)
class _Progress:
    """The progress of a program's groups in the log, and the births of its states.

    `noted`: all births in the log. `births`: one for each state of this program. It is the birth in the log if that
    birth is founded (for a watermark, the owner's birth must be founded, too) or equals the one that this start would
    record. Otherwise it is a new birth. `pending`: the states that begin with the earlier tuples of their streams.
    """

    histories: dict[str, History]
    noted: Mapping[str, Birth]
    births: dict[str, Birth]
    pending: Pending
    indexes: tuple[NewIndex, ...]
    """The new indexes of states that have rows."""

    @property
    def known(self) -> dict[str, Birth]:
        """The births that this start finds or would record, also of states that the program lacks."""
        return _founded(self.noted) | self.births

    @classmethod
    def read(cls, joined: Membership, log: TransactionLog, epoch: int) -> "_Progress":
        known, begin_after = {*log.groups()}, joined.members.founded
        groups = joined.program.groups
        if any(group.name not in known and group.name not in begin_after for group in groups):
            raise LogError("another driver changed the log during this start; start again")
        histories = {g.name: log.history(g.name) if g.name in known else History(begin_after[g.name]) for g in groups}
        noted = log.births()
        pending = pending_backfills(joined.program, joined.members, log)
        births, indexes = dict[str, Birth](), list[NewIndex]()
        for group in groups:
            last, known_states = histories[group.name].last_frozen, _founded(noted)
            filling = [*new_indexes(joined.program, group, known_states, last)]
            indexes += filling
            with_rows = {*pending, *(index.node.state.name for index in filling)}
            for node in group.states:
                name, birth = node.state.name, noted.get(node.state.name)
                begins_filled = node.state.initial is not None or name in with_rows
                filled = joined.program.shapes[name].fingerprint if begins_filled else ""
                new = Birth(group.name, last, epoch, filled=filled)
                # A content that no store has yet is read again, because a store may have refused it.
                goes_on = name in known_states or (birth == new and not filled)
                births[name] = birth if birth is not None and goes_on else new
        return cls(histories, noted, births, pending, tuple(indexes))

    def waiting(self, program: Program, log: TransactionLog, settings: Settings) -> dict[str, dict[int, Names]]:
        """Return the names of outputs by group and waiting batch, as `match_waiting_batches` does.

        Raises CodeChangedError if this program cannot commit the waiting batches, or a state would lack changes.
        """
        _check_groups_known(program, log)
        check_readers(program, self.births, log, settings)
        for index in self.indexes:
            check_no_waiting(index, self.histories[self.births[index.node.state.name].group])
        check_steps(program, self.births, self.histories, log, settings)
        return match_waiting_batches(program, self.histories, log, self.known, settings)


def _founded(births: Mapping[str, Birth]) -> dict[str, Birth]:
    return {name: birth for name, birth in births.items() if birth.founded}


def _check_waiting(joined: Membership, log: TransactionLog, settings: Settings) -> None:
    """Raise CodeChangedError for a program that cannot commit the waiting batches.

    This happens before the start fences out a driver that could commit them.

    A driver may still be running, and the log may change between two reads here. Therefore a refusal counts only if the
    log did not change meanwhile; otherwise the check after the log is taken decides.
    """
    before = log.lease(), _Progress.read(joined, log, 0)
    try:
        before[1].waiting(joined.program, log, settings)
    except (CodeChangedError, LogError):
        if (log.lease(), _Progress.read(joined, log, 0)) == before:
            raise


def _take_states(
    joined: Membership,
    log: TransactionLog,
    settings: Settings,
    stores: dict[str, Store],
    lease: Lease,
    before: Lease | None,
    fill: Fill,
) -> Begun:
    """Acquire every state, after the log was taken. All checks come before the first write."""
    program = joined.program
    progress = _Progress.read(joined, log, lease.epoch)
    histories, births = progress.histories, progress.births
    waiting = progress.waiting(program, log, settings)
    for group in program.groups:
        _check_states(group, stores, histories[group.name], log, progress.noted, settings)
    _begin_again(births, lease)
    first = FirstContents(log, settings, births)
    contents = _initial_contents(program, births)
    contents += evolve_stores(program, stores, histories, progress.noted, first, lease)
    contents += [(each.node, content_of_index(each, program, stores[each.state])) for each in progress.indexes]
    contents += _backfilled(program, progress.pending, fill)
    if joined.changed:
        log.enroll(lease, joined.members)
        reach("start.enrolled")
    for node, content in contents:
        name = node.state.name
        first.record(node, program.shapes[name], lease, births[name], content)
        reach("start.state.born")
    _acquire(stores, births, log, lease)
    for group in program.groups:
        histories[group.name] = _with_attempts(log.history(group.name), log.attempts(group.name), before)
    reach("start.done")
    died = before is not None and before.token != ""
    return Begun(program, lease, stores, births, histories, waiting, joined.warnings, died)


def _begin_again(births: dict[str, Birth], lease: Lease) -> None:
    """Recreate each state whose creation an earlier start began and did not complete.

    No batch was written to it. The program of that start may have had another shape or kind: if the state kept its
    record, the values of this program would count as values in a former shape. And that start may still be at work.
    """
    for name, birth in births.items():
        if not (birth.founded or birth.filled):
            births[name] = replace(birth, epoch=lease.epoch)


def _with_attempts(history: History, attempts: Mapping[int, AttemptRecord], before: Lease | None) -> History:
    """Return a history with the attempts of earlier drivers added.

    If the last driver gave the log back, it did not die: then only the numbers of its attempts count. Otherwise it
    died, and each batch that it attempted counts one more death.
    """
    if before is None or not before.token:
        records = {txid: AttemptRecord(last.number) for txid, last in attempts.items()}
    else:
        deaths = {txid: last.deaths + int(last.epoch == before.epoch) for txid, last in attempts.items()}
        records = {txid: replace_fields(last, deaths=deaths[txid]) for txid, last in attempts.items()}
    return replace(history, attempts=records)


def open_stores(program: Program, log: TransactionLog, settings: Settings) -> dict[str, Store]:
    """Open the store of every state of the topology, and return them by name."""
    stores: dict[str, Store] = {}
    try:
        for group in program.groups:
            for node in group.states:
                name = node.state.name
                identity = StateIdentity(settings.name, name, log.uuid, group.name)
                home = SnapshotHome(log, name, settings.snapshots(name))
                store = node.state.factory.open(identity, program.shapes[name], home)
                calls = WatchedCalls(group.name, settings.clock, settings.messageTimeoutSecs, topology=settings.name)
                stores[name] = watched(store, name, node.state.factory, calls)
    except BaseException:
        close_all(stores)
        raise
    return stores


def close_all(stores: Mapping[str, Store]) -> None:
    for store in stores.values():
        store.close()


def _check_our_drivers(
    name: str, report: StoreReport, last: Lease | None, log: TransactionLog, settings: Settings
) -> None:
    """Raise StateAheadError if a driver that this log did not start held the state.

    `last` is the last lease of this log.

    Such a driver had a copy of the log. Its batches have the same txids as those of this log, and other contents.
    """
    last = last or NO_LEASE
    held = not_issued(report, log, last)
    if held is None:
        return
    birth = log.births().get(name)
    if birth is not None:  # if the state is ahead of the log, that error is easier to understand
        history = log.history(birth.group)
        _check_not_ahead(name, report, history.last_frozen, settings)
    raise StateAheadError(
        f"state {name!r} was held by a driver of epoch {held.epoch} that this log, {settings.log_at}, did not "
        f"start (its own epochs go up to {last.epoch}): this log is an old copy, or a copy of it was started "
        f"elsewhere. Start with the newest log, or {settings.way_out}, with force=True"
    )


def _check_ours(
    name: str,
    report: StoreReport,
    node: StateWriter,
    program: Program,
    log: TransactionLog,
    settings: Settings,
) -> None:
    """Raise an error unless a store holds this topology's state, of this log and in this shape.

    A state whose creation was interrupted may have any shape: no batch was written to it, and it is created again.
    """
    stored, birth = report.identity, log.births().get(name)
    if stored is None:
        # The store may get its first content only now, from the log.
        if birth is not None and birth.founded and birth.filled:
            check_same_shape(node, report, program.shapes[name], log, settings)
        return
    if (stored.topology, stored.name) != (settings.name, name):
        raise StateOwnedError(
            f"the store of state {name!r} holds the state {stored.name!r} of topology {stored.topology!r}; "
            f"give this state another name or its store another prefix"
        )
    if stored.log != log.uuid:
        raise LogMismatchError(
            f"state {name!r} belongs to another log (uuid {stored.log}), not to the one {settings.log_at} (uuid "
            f"{log.uuid}): the checkpoint was removed, moved or mixed up. Start with the checkpointLocation (or log=) "
            f"that belongs to it; or, only if that log is permanently lost, {settings.way_out}, with force=True"
        )
    if birth is not None and not birth.founded and report.reached <= birth.txid:
        return
    check_same_shape(node, report, program.shapes[name], log, settings)


def _check_states(
    group: Group,
    stores: Mapping[str, Store],
    history: History,
    log: TransactionLog,
    known: Mapping[str, Birth],
    settings: Settings,
) -> None:
    """Raise StateLostError or StateAheadError for states that are lost or ahead of the log. Writes nothing.

    A state whose creation was interrupted is neither: no batch was written to it, and it is created again.
    """
    frozen, furthest = history.last_frozen, _furthest(group, history, log)
    for node in group.states:
        name, drop = node.state.name, dropped_by(node)
        report, birth = stores[name].report(), known.get(name)
        _check_begins(node, birth, settings)
        _check_watermark(node, known, settings)
        if birth is None or not birth.founded:
            if birth is not None and report.reached <= birth.txid:
                continue
            if report.identity is not None:
                raise StateAheadError(
                    f"state {name!r} exists, but the log {settings.log_at} has no record of it: the log is an old "
                    f"copy. Restore the newest log. If this is already the newest log, the state was dropped, and then "
                    f"an earlier driver created it again: {settings.drop(drop, node.state.factory.survives)} drops it "
                    f"once more; or {settings.way_out}"
                )
        if birth is not None and frozen > birth.txid and not _is_filled_now(name, birth, history, log):
            if any(group.marker is None for group in report.groups):
                raise _lost(node, frozen, birth, bool(log.manifest(name)), settings)
            if of_another_life(report, birth) and not _is_in_log(name, birth, group, log):
                raise of_earlier_life(node, birth, log.kept_since(group.name), settings)
        _check_not_ahead(name, report, frozen, settings)
        if birth is not None:
            _check_no_later_stage(name, report, furthest, birth, settings)


def _check_watermark(node: StateWriter, known: Mapping[str, Birth], settings: Settings) -> None:
    name, drop = node.state.name, dropped_by(node)
    if name not in (founded := _founded(known)) and drop in founded:
        raise StateLostError(
            f"state {name!r} is the watermark of state {drop!r} and was dropped without it, so closed windows would "
            f"open again: {settings.drop(drop, node.state.factory.survives)} drops both, which then start empty with "
            f"the next batch; or {settings.way_out}"
        )


def _initial_contents(program: Program, births: Mapping[str, Birth]) -> list[tuple[StateWriter, pa.Table]]:
    """Return the contents of the states that begin now with one."""
    writers = [node for group in program.groups for node in group.states if node.state.initial is not None]
    new = [node for node in writers if not births[node.state.name].founded]
    return [(node, content_of(node, program.shapes[node.state.name])) for node in new]


def _backfilled(program: Program, pending: Pending, fill: Fill) -> list[tuple[StateWriter, pa.Table]]:
    """Return the contents of the states that begin with the earlier tuples of their streams."""
    if not pending:
        return []
    contents = fill(pending)
    reach("start.backfilled")
    writers = [node for node in writers_of(program) if node.state.name in pending]
    return [(node, as_earlier_tuples(node, contents[node.state.name])) for node in writers]


def _is_filled_now(name: str, birth: Birth, history: History, log: TransactionLog) -> bool:
    """Return whether a state was born with a content and its store may lack it: no batch after it is committed."""
    return bool(birth.filled) and history.committed <= birth.txid and log.content(name, birth.txid) is not None


def _is_in_log(name: str, birth: Birth, group: Group, log: TransactionLog) -> bool:
    """Return whether the log has everything that was written to a state since its birth, so that nothing is lost."""
    if group.name not in log.groups() or log.kept_since(group.name) > birth.txid:
        return False
    return not birth.filled or log.content(name, birth.txid) is not None


def _check_begins(node: StateWriter, birth: Birth | None, settings: Settings) -> None:
    """Raise StateError if the program has `initialState=` or `backfill=True` for a state that began otherwise."""
    name, option = node.state.name, unused_beginning(node.state, birth)
    if option is not None:
        assert birth is not None
        begins = "the earlier tuples" if node.state.backfill else "this content and the next batch"
        raise StateError(
            f"{node.step} ({node.site.location}): state {name!r} exists since txid {birth.txid}, so {option} "
            f"would never be used. Remove it; or drop the state with "
            f"{settings.drop(name, node.state.factory.survives)}, so that it begins with {begins}, "
            f"and loses its values; or give it another name. Nothing was written"
        )


def _check_no_later_stage(name: str, report: StoreReport, furthest: int, birth: Birth, settings: Settings) -> None:
    """Raise StateAheadError if a state has a batch, but the log lacks the stage of the batch that writes the state."""
    if report.reached > max(furthest, birth.txid):  # a state that was created after that batch has no batch yet
        raise StateAheadError(
            f"state {name!r} is at txid {report.reached}, but the log {settings.log_at} lacks a later stage of "
            f"batch {furthest}: the log is an old copy, or this topology added that stage. Restore the newest log, "
            f"or start the previous code once, or {settings.way_out}"
        )


def _furthest(group: Group, history: History, log: TransactionLog) -> int:
    """Return the last batch that a state of the group can have.

    No batch is written to a state before all stages of the previous batch are frozen.
    """
    for txid in history.frozen:
        if any(log.frozen(group.name, txid, stage.number) is None for stage in group.stages):
            return txid
    return history.last_frozen


def _lost(node: StateWriter, frozen: int, birth: Birth, in_memory: bool, settings: Settings) -> StateLostError:
    """Return the error for a lost state.

    `in_memory`: the log has snapshots of the state, even if another store is declared now.
    """
    drop = dropped_by(node)
    way = settings.drop(drop, "checkpoint") if in_memory else f"{settings.drop(drop, 'server')} and force=True"
    return StateLostError(
        f"state {node.state.name!r} is missing in {node.state.factory!r}, completely or in part, although the log "
        f"at txid {frozen} says that it was created at {birth.txid}. If it is elsewhere (another server, database, "
        f"prefix, kind of store), declare that; otherwise restore the store from a copy; or drop it with {way}, so "
        f"that it starts empty with the next batch; or {settings.way_out}"
    )


def _acquire(stores: Mapping[str, Store], births: Mapping[str, Birth], log: TransactionLog, lease: Lease) -> None:
    """Create the stores of new states, and acquire all states.

    The log records a birth before the store is created, and marks all births as founded after all stores are created.
    So an interrupted creation can be recognised: if a birth is not founded, no batch was ever written to the state.
    """
    new = [name for name in stores if not births[name].founded]
    for name, store in stores.items():
        # otherwise the birth is older, or is completed now, or its content is recorded already
        if births[name].epoch == lease.epoch and not births[name].filled:
            log.born(lease, name, births[name])
            reach("start.state.born")
        try:
            _create(name, store, births[name], log, lease)
        except (StateOwnedError, StateUnavailableError):
            # A driver that has lost the log meanwhile may have completed its creation of the state just now. That state
            # is of another life.
            _create(name, store, births[name], log, lease)
        store.acquire(lease)
        reach("start.state.acquired")
    if new:
        log.founded(lease, new)
        reach("start.states.founded")


def _create(name: str, store: Store, birth: Birth, log: TransactionLog, lease: Lease) -> None:
    """Create the store of a state, if there is none of this life. Raises StateOwnedError if another topology has it."""
    report = store.report()
    if report.identity is not None and report.identity.log != log.uuid:
        raise StateOwnedError(
            f"the store of state {name!r} got a state of topology {report.identity.topology!r} (log "
            f"{report.identity.log}) during this start; start again, with another store for one of the two"
        )
    if of_another_life(report, birth):  # `_check_states` has allowed this: the log has each batch since the birth
        store.drop(lease)
        report = store.report()
    if any(group.marker is None for group in report.groups):
        store.create(lease, birth.created_at)
        reach("start.state.created")


def _check_not_ahead(name: str, report: StoreReport, frozen: int, settings: Settings) -> None:
    if report.reached > frozen:
        raise StateAheadError(
            f"state {name!r} is at txid {report.reached}, but the log {settings.log_at} has only the batches up to "
            f"{frozen}: the log is an old copy. Restore the newest log, or {settings.way_out}, with force=True"
        )


def _check_groups_known(program: Program, log: TransactionLog) -> None:
    """Raise CodeChangedError if a group of the log has waiting batches and the program does not have the group."""
    ours = {group.name for group in program.groups}
    for name in log.groups():
        waiting = log.history(name).frozen
        if name not in ours and waiting:
            raise CodeChangedError(
                f"batch {waiting[0]} of the batch group {name!r} is frozen but not committed, and this topology has "
                f"no such group (it has {', '.join(sorted(ours))}); start the previous program once, which commits "
                f"the batch. "
                f"Nothing was written"
            )
