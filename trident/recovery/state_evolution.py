"""States whose stored shape is a former one: the choice of those that a start evolves, and the checks before it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.errors import StateShapeError
from trident.compiler.program import Group, Program
from trident.compiler.states.former_shapes import former_shape, read_only_shape
from trident.frozen.files import read_whole
from trident.log.frozen_results import shape_of_result, thaw
from trident.log.group_records import History
from trident.log.protocol import Birth, LogReading
from trident.log.snapshot_home import SnapshotHome
from trident.plan.evolutions import Former, formers_of
from trident.plan.nodes import StateWriter
from trident.recovery.evolving_store import EvolvingStore, SharedEvolvingStore
from trident.recovery.first_content import FirstContents
from trident.recovery.incarnations import of_another_life
from trident.user_calls.watched_store import WatchedStore
from trident_state.binary_arrays import one_chunk
from trident_state.state_shape import StateIdentity, StateShape
from trident_state.store import Shared, Store
from trident_state.store_messages import StoreReport


def stored_fingerprint(report: StoreReport, birth: Birth | None) -> str | None:
    """Return the fingerprint of a state: that of its last content in the log, if the store does not have it yet."""
    return birth.filled if birth is not None and birth.founded and birth.filled else report.fingerprint


def declared_former(node: StateWriter, fingerprint: str) -> Former | None:
    """Return the former shape with this fingerprint, if the program declares it."""
    return next((former for former in formers_of(node) if former.fingerprint == fingerprint), None)


def evolve_stores(
    program: Program,
    stores: dict[str, Store],
    histories: Mapping[str, History],
    noted: Mapping[str, Birth],
    contents: FirstContents,
    lease: Lease,
) -> list[tuple[StateWriter, pa.Table]]:
    """Replace the store of each state in a former shape by an EvolvingStore, after all checks. Writes nothing.

    A state that no store has yet, because it was forked or restored, needs no EvolvingStore: its content in the present
    shape is returned, and its birth in `contents` gets this shape.

    Raises StateShapeError if batches of the former program must be committed first, and the errors of
    `Former.changed` if a stored value cannot become a present value.
    """
    unborn = list[tuple[StateWriter, pa.Table]]()
    for group in program.groups:
        for node in [node for node in group.states if node.state.evolve]:
            name, shape = node.state.name, program.shapes[node.state.name]
            report, birth = stores[name].report(), noted.get(name)
            fingerprint = stored_fingerprint(report, birth)
            if birth is None or not birth.founded or fingerprint is None or fingerprint == shape.fingerprint:
                continue
            former = declared_former(node, fingerprint)
            assert former is not None, "check_same_shape has refused this"
            history = histories[group.name]
            content = _unborn(node, report, birth, history, contents)
            if content is not None:
                unborn.append((node, _changed(content, former)))
                contents.births[name] = replace(birth, epoch=lease.epoch, filled=shape.fingerprint)
                continue
            waiting = tuple(txid for txid in history.frozen if txid > birth.txid)
            _check_committed(node, group, waiting, contents.log, shape.fingerprint)
            # Batches that the state never gets may still wait: they were frozen before it was dropped and created anew.
            # The first content, which takes the place of the batch at the birth, has the former shape, too.
            last = max(history.committed, birth.txid)
            if former_shape(node, former) is None:
                _check_complete(node, report, last)
            stores[name] = _evolving(node, group, former, stores[name], last, contents, shape)
            _check_values(stores[name])
    return unborn


def _unborn(
    node: StateWriter, report: StoreReport, birth: Birth, history: History, contents: FirstContents
) -> pa.Table | None:
    """Return the content of a forked or restored state that has no store and no batch after its birth; else None.

    The store of a restored state has the values from before the restore; a restored state in memory has no store. If an
    external store lost its content, the former program restores it: a start of this program would change the log, and
    so lock the former program out before a batch is frozen.
    """
    name, missing = node.state.name, report.identity is None
    only_in_log = missing and (contents.log.origin() is not None or node.state.factory.survives != "server")
    if not only_in_log and not of_another_life(report, birth):
        return None
    content = contents.log.content(name, birth.txid)
    if content is None or history.last_frozen > birth.txid:
        return None
    return read_whole(contents.settings.place, thaw(content, f"the content of state {name!r}"))


def _changed(content: pa.Table, former: Former) -> pa.Table:
    """Return a content in the present shape."""
    values = former.changed(one_chunk(content.column("value")))
    content = content.set_column(content.num_columns - 1, "value", values)
    return content.filter(values.is_valid()) if values.null_count else content


def _evolving(
    node: StateWriter, group: Group, former: Former, present: Store, last: int, contents: FirstContents, now: StateShape
) -> Store:
    """Return the store of a state in a former shape, whose last batch is `last`. It wraps the given store."""
    name, log, settings = node.state.name, contents.log, contents.settings
    shape = former_shape(node, former)
    identity = StateIdentity(settings.name, name, log.uuid, group.name)
    home = SnapshotHome(log, name, settings.snapshots(name))
    own = present.unwatched if isinstance(present, WatchedStore) else present
    check_drop = getattr(own, "check_drop", None)
    if check_drop is not None:  # the store is emptied before it gets the values in their present shape
        check_drop()
    store = (SharedEvolvingStore if isinstance(own, Shared) else EvolvingStore)(
        node.state.factory.open(identity, shape or read_only_shape(former), home),
        own,
        former,
        Birth(group.name, last, founded=True, filled=now.fingerprint),
        partial(contents.record, node, now),
        f"state {name!r}",
        shape is not None,
    )
    if isinstance(present, WatchedStore):
        present.unwatched = store
        return present
    return store


def _check_committed(node: StateWriter, group: Group, waiting: tuple[int, ...], log: LogReading, now: str) -> None:
    """Raise StateShapeError if a waiting batch has values of the state in a former shape."""
    name = node.state.name
    for txid in waiting:
        for stage in group.stages:
            frozen = (log.frozen(group.name, txid, stage.number) or {}).get(name)
            if frozen is not None and shape_of_result(thaw(frozen, f"batch {txid}")) != now:
                raise StateShapeError(
                    f"state {name!r} has a former shape, and batch {txid} of group {group.name!r} is frozen in it but "
                    f"not committed. Start the previous program once, which commits the batch, then this one. Nothing "
                    f"was written"
                )


def _check_complete(node: StateWriter, report: StoreReport, last: int) -> None:
    """Raise StateShapeError if a store lacks batches of the former program, which this program cannot combine."""
    lacking = [group for group in report.groups if group.marker is None or group.marker < last]
    if lacking:
        raise StateShapeError(
            f"state {node.state.name!r} has a former shape and lacks batches up to {last}, which only the "
            f"former aggregator can apply. Start the previous program once and stop it, which completes the state, "
            f"then this one. Nothing was written"
        )


def _check_values(store: Store) -> None:
    """Read all values of a state in the present shape, so that a value that cannot change refuses the start."""
    for _ in store.scan(None):
        pass
