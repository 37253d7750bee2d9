"""The states that a query names, read as of one txid of each batch group."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from trident.base.errors import SqlError, SqlLimitError
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.committed_reads import ReadSource, Snapshot, checked_by, read_consistently
from trident.reads.indexes import Index
from trident.reads.key_tables import key_table
from trident.reads.state_view import StateView
from trident.reads.txid_reads import read_as_of
from trident.sql.point_reads import Key


@dataclass(frozen=True, slots=True)
class Wanted:
    """A state that a query reads. `keys` are the only keys that it needs; None means all.

    `index` is an index of the state, with the only field values that the query needs.
    """

    view: StateView
    keys: Sequence[Key] | None
    index: tuple[Index, Sequence[Key]] | None = None

    @property
    def states(self) -> list[str]:
        """The states that are read."""
        return [self.view.name] if self.index is None else [self.index[0].name, self.view.name]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The tables of the states, by name, and the txid of each batch group that they show."""

    tables: dict[str, pa.Table]
    txids: dict[str, int]


def gather(source: ReadSource, wanted: Mapping[str, Wanted], most: int, check: Callable[[], None]) -> Gathered:
    """Read states as of one committed txid of each batch group.

    Commits may be held back only while the states are read. Then they continue: aggregators present their values, and
    the query runs. Raises SqlLimitError if the states have more than `most` bytes, and the errors of `check`, which is
    called at each page.
    """
    if not wanted:
        return Gathered({}, {})

    def read(snapshot: Snapshot) -> tuple[dict[str, pa.Table], dict[str, int]]:
        size = _Size(most)
        stored = {name: _stored(snapshot, each, size) for name, each in wanted.items()}
        txids = [(name, snapshot.txid(name)) for name in wanted]
        return stored, {source.group_of(name): txid for name, txid in txids if txid is not None}

    large = any(each.keys is None and each.index is None for each in wanted.values())
    states = [name for each in wanted.values() for name in each.states]
    with checked_by(check):
        stored, txids = read_consistently(source, states, read, large=large, reads=len(states))
    return Gathered(_presented(wanted, stored, check), txids)


def gather_past(
    source: ReadSource, wanted: Mapping[str, Wanted], asOf: AsOfBatch, most: int, check: Callable[[], None]
) -> Gathered:
    """Read states as of an earlier txid of each batch group; otherwise like `gather`.

    Raises SqlError for a txid if the states belong to several groups, and the errors of ``StateView.asOf``.
    """
    txids = _txids_of(source, {name: each.view for name, each in wanted.items()}, asOf)
    size, stored = _Size(most), dict[str, pa.Table]()
    with checked_by(check):
        for name, each in wanted.items():
            read = partial(_stored, wanted=each, size=size)
            stored[name] = read_as_of(source, list(each.states), txids[source.group_of(name)], read)
    return Gathered(_presented(wanted, stored, check), txids)


def _txids_of(source: ReadSource, views: Mapping[str, StateView], asOf: AsOfBatch) -> dict[str, int]:
    """Return the txid of each batch group as of which a query reads. The first state of a group decides."""
    txids = dict[str, int]()
    for name, view in views.items():
        past = view.asOf(asOf)
        if source.group_of(name) not in txids and (txid := past.asOfTxid) is not None:
            txids[source.group_of(name)] = txid
    if len(txids) > 1 and isinstance(asOf, int):
        raise SqlError(
            f"asOf={asOf}: the query reads states of the batch groups {', '.join(sorted(txids))}, each of which counts "
            f"its own txids; give a time, such as asOf='2026-11-26 09:00'"
        )
    return txids


def _presented(
    wanted: Mapping[str, Wanted], stored: Mapping[str, pa.Table], check: Callable[[], None]
) -> dict[str, pa.Table]:
    tables = dict[str, pa.Table]()
    for name, entries in stored.items():
        check()
        tables[name] = wanted[name].view.presented(entries)
    return tables


def _stored(snapshot: Snapshot, wanted: Wanted, size: "_Size") -> pa.Table:
    view = wanted.view
    if wanted.keys is not None:
        table = key_table(view.name, view.keyFields, _plain(wanted.keys))
        values = snapshot.read(view.name, table).values
        return view.stored(size.counted(view.name, iter([table.append_column("value", values)])))
    if wanted.index is not None:
        index, found = wanted.index
        keys = index.keys_with(snapshot, index.values(view.name, _plain(found)))
        return view.stored(size.counted(view.name, iter([index.entries_of(snapshot, view.name, keys)])))
    return view.stored(size.counted(view.name, snapshot.scan(view.name)))


def _plain(keys: Sequence[Key]) -> list[Any]:
    """Return keys in the form that a view takes: the value itself for a single field."""
    return [key[0] if len(key) == 1 else key for key in keys]


class _Size:
    """The bytes that were read so far."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0

    def counted(self, state: str, pages: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for page in pages:
            self._bytes += page.nbytes
            if self._bytes > self._most:
                raise SqlLimitError(
                    f"the query reads more than {self._most} bytes of states, up to state {state!r}: name fewer "
                    "states, compare the whole key with constants (WHERE key = ...), or raise the limit with "
                    "maxBytes="
                )
            yield page
