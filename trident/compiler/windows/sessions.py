"""Sessions: tuples of a group that follow one another by less than a gap of event time.

The state holds a group's open sessions. What a batch brings is cut into stretches first, and these meet the open ones
and one another; a session leaves when the watermark has reached its end.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from trident.base.types import arrow_schema, select
from trident.base.values import to_python
from trident.compiler.aggregates.arrow_folds import fold_columns
from trident.compiler.aggregates.folds import FoldMember, FoldSpec
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.keys import KeyIndex
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import Combining, nullable, shape_of
from trident.compiler.states.updates import Updated
from trident.compiler.windows.calls import Results, made_column, presenting, where_of
from trident.compiler.windows.inputs import entering_window
from trident.compiler.windows.time import LAST, clock_of, held_by_any, latest_of
from trident.compiler.windows.tuple_lists import Held, Ids, flattened, moments, numbers, one
from trident.compiler.windows.types import RunWindow, WindowTurn
from trident.operations.tuples import tuple_type
from trident.operations.windows import SessionWindow
from trident.plan.nodes import Window
from trident.plan.window_schema import END, START
from trident_state.keys import decode_keys, encode_keys


def session_update(node: Window) -> RunWindow:
    """The update of a session window."""
    return _Sessions(node)


@dataclass(slots=True)
class Session:
    """One stretch of a group: from its first tuple to the gap after its last one, and what it holds: the places of
    tuples, or of one accumulator."""

    start: int
    end: int
    held: list[int]


def merged(sessions: Iterable[Session]) -> list[Session]:
    """Sessions of one group with those that overlap as one, in the order of their starts."""
    found: list[Session] = []
    for each in sorted(sessions, key=lambda session: session.start):
        if found and each.start < found[-1].end:
            last = found[-1]
            found[-1] = Session(last.start, max(last.end, each.end), last.held + each.held)
        else:
            found.append(each)
    return found


class _Sessions:
    """One window's state over its batches."""

    def __init__(self, node: Window) -> None:
        config, shape = node.windowing.config, shape_of(node)
        assert isinstance(config, SessionWindow)
        self._node, self._config, self._where, self._keys = node, config, where_of(node), shape.keys
        self._kind: pa.DataType = shape.value
        self._time: pa.DataType = shape.value.value_type.field("start").type
        self._came = arrow_schema(select(node.source.schema, entering_window(node)))
        held = shape.value.value_type.field("held").type
        inputs = arrow_schema(select(node.source.schema, node.inputs))
        self._content: _Content = (
            _Tuples(node, Held(held, inputs)) if node.windowing.aggregation is None else _Accumulators(node, held)
        )
        self._puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
        self._leaving = nullable(arrow_schema(node.outputs))
        self._due = Due(shape.keys)

    def __call__(self, table: pa.Table, stored: Stored, turn: WindowTurn) -> Updated:
        field = self._config.timestampField
        clock = clock_of(self._config, latest_of(table, field), turn)
        self._due.stand_at(turn.txid - 1, stored)
        self._due.void()
        table = table.filter(table.column(field).is_valid()) if table.num_rows else table
        times = numbers(table.column(field))
        table = table.filter(pa.array((times + self._config.gap > clock.before) & held_by_any(self._config, times)))
        tuples = Columns.of(table.select(self._came.names), self._came)
        index = KeyIndex(self._keys.types)
        places = index.places([tuples[name] for name in self._keys.names], tuples.rows)
        keys = Columns(
            dict(zip(self._keys.names, index.columns(), strict=True)) if self._keys.names else {}, len(index)
        )
        met = self._met(keys.table(self._keys), self._due.until(clock.after))
        sessions = self._content.took_in(stored.read(met), met.num_rows, tuples, places, self._config)
        closed = [(each, at) for at, own in enumerate(sessions) for each in own if each.end <= clock.after]
        left = [[each for each in own if each.end > clock.after] for own in sessions]
        closed.sort(key=lambda pair: (pair[0].end, pair[0].start))
        results = self._results(met, closed)
        puts = self._puts_of(met, left)
        self._due.set(met, [min((each.end for each in own), default=None) for own in left])
        self._due.stands_at(turn.txid)
        return Updated(puts, results)

    def _met(self, touched: pa.Table, due: pa.Table) -> pa.Table:
        """The touched keys, then those that are due besides."""
        known = set(encode_keys(touched).to_pylist())
        rows = [row for row, key in enumerate(encode_keys(due).to_pylist()) if key not in known]
        return pa.concat_tables([touched, due.take(pa.array(rows, pa.int64()))]).combine_chunks() if rows else touched

    def _results(self, keys: pa.Table, closed: Sequence[tuple[Session, int]]) -> pa.Table:
        given, origins = self._content.results([session for session, _ in closed])
        rows = pa.array([closed[at][1] for at in origins], pa.int64())
        start = moments([closed[at][0].start for at in origins], self._time)
        end = moments([closed[at][0].end for at in origins], self._time)
        columns = {START: start, END: end}
        columns |= {name: one(keys.column(name)).take(rows) for name in self._keys.names}
        columns |= {name: given[name].array() for name in given.names}
        return pa.Table.from_arrays([columns[name] for name in self._leaving.names], schema=self._leaving)

    def _puts_of(self, keys: pa.Table, left: Sequence[Sequence[Session]]) -> pa.Table:
        """Each key with its open sessions; nothing under a key without."""
        flat = [session for own in left for session in own]
        starts = moments([session.start for session in flat], self._time)
        ends = moments([session.end for session in flat], self._time)
        held = self._content.held([session.held for session in flat])
        structs = pa.StructArray.from_arrays([starts, ends, held], fields=list(self._kind.value_type))
        offsets = pa.array(np.concatenate([[0], np.cumsum([len(own) for own in left])]), pa.int32())
        mask = pa.array([not own for own in left], pa.bool_())
        lists = pa.ListArray.from_arrays(offsets, structs, type=self._kind, mask=mask)
        return keys.append_column(self._puts.field(len(self._keys)), lists)


class _Content:
    """What sessions hold, over one batch."""

    def took_in(
        self, stored: pa.Array, keys: int, tuples: Columns, places: list[int], config: SessionWindow
    ) -> list[list[Session]]:
        """The sessions of each key: those that were stored and the batch's, met."""
        lists, ends = flattened(stored)
        starts, closes = numbers(lists.field("start")), numbers(lists.field("end"))
        found: list[list[Session]] = [[] for _ in range(keys)]
        before = self._stored(lists.field("held"))
        for key, own in enumerate(found):
            for at in range(ends[key], ends[key + 1]):
                own.append(Session(int(starts[at]), int(closes[at]), before[at]))
        times = numbers(tuples[config.timestampField].array())
        order = np.lexsort((times, np.asarray(places, np.int64)))
        cuts = stretches(times[order], np.asarray(places, np.int64)[order], config.gap)
        for number, rows in enumerate(cuts):
            first, last = int(order[rows.start]), int(order[rows.stop - 1])
            session = Session(int(times[first]), min(int(times[last]) + config.gap, LAST), [])
            session.held = self._brought(number, order[rows.start : rows.stop])
            found[places[first]].append(session)
        self._take(tuples, times, order, cuts)
        return [merged(own) for own in found]

    def _stored(self, held: pa.Array) -> list[list[int]]:
        """What each stored session holds, as places."""
        raise NotImplementedError

    def _brought(self, number: int, rows: Ids) -> list[int]:
        """What a stretch of the batch holds, as places."""
        raise NotImplementedError

    def _take(self, tuples: Columns, times: Ids, order: Ids, cuts: Sequence[range]) -> None:
        """Keep the batch's own, whose places are known."""
        raise NotImplementedError

    def held(self, sessions: Sequence[list[int]]) -> pa.Array:
        """What sessions hold, for the state."""
        raise NotImplementedError

    def results(self, sessions: Sequence[Session]) -> tuple[Columns, list[int]]:
        """What the aggregator gives for them, and for each result whose it is."""
        raise NotImplementedError


class _Accumulators(_Content):
    """One accumulator a session, more where sessions met."""

    def __init__(self, node: Window, kind: pa.DataType) -> None:
        aggregation = node.windowing.aggregation
        assert aggregation is not None
        self._where, self._kind, self._windowing = where_of(node), kind, node.windowing
        self._combine = Combining(aggregation, self._where)
        self._spec = FoldSpec.of(
            pa.schema([pa.field("__trident_stretch", pa.int64())]), FoldMember(self._where, aggregation)
        )
        self._leaving = nullable(arrow_schema(node.windowing.outputs))
        self._values: list[Any] = []

    def _stored(self, held: pa.Array) -> list[list[int]]:
        self._values = to_python(held)
        return [[at] for at in range(len(held))]

    def _brought(self, number: int, rows: Ids) -> list[int]:
        return [len(self._values) + number]

    def _take(self, tuples: Columns, times: Ids, order: Ids, cuts: Sequence[range]) -> None:
        numbered = np.repeat(np.arange(len(cuts)), [len(rows) for rows in cuts])
        taken = tuples.take(order.tolist()).plus(
            {self._spec.keys.names[0]: Column(pa.int64(), pa.array(numbered), None)}
        )
        folded = fold_columns(self._spec, [taken])
        by_number = dict(zip(*folded.lists(folded.names), strict=True))
        self._values = self._values + [by_number[number] for number in range(len(cuts))]

    def _one(self, held: list[int]) -> Any:
        value = None
        for at in held:
            value = self._values[at] if value is None else self._combine(value, self._values[at])
        return value

    def held(self, sessions: Sequence[list[int]]) -> pa.Array:
        field = pa.field(self._spec.members[0].output, self._kind)
        return made_column(self._where, [self._one(held) for held in sessions], field).array()

    def results(self, sessions: Sequence[Session]) -> tuple[Columns, list[int]]:
        present, field = presenting(self._windowing), self._leaving.field(0)
        found = [(self._one(session.held), at) for at, session in enumerate(sessions)]
        there = [(value, at) for value, at in found if value is not None]  # null is nothing, as in a state
        values = [value if present is None else present(value) for value, _ in there]
        return Columns({field.name: made_column(self._where, values, field)}, len(values)), [at for _, at in there]


class _Tuples(_Content):
    """All tuples of a session, in the order in which they came: those of a batch have greater places than what was
    stored, whichever sessions met."""

    def __init__(self, node: Window, held: Held) -> None:
        self._node, self._format, self._where = node, held, where_of(node)
        self._elements = pa.array([], held.kind.value_type)
        self._made = tuple_type(node.inputs)

    def _stored(self, held: pa.Array) -> list[list[int]]:
        self._elements, ends = flattened(held)
        return [list(range(ends[at], ends[at + 1])) for at in range(len(held))]

    def _brought(self, number: int, rows: Ids) -> list[int]:
        found: list[int] = (rows + len(self._elements)).tolist()
        return found

    def _take(self, tuples: Columns, times: Ids, order: Ids, cuts: Sequence[range]) -> None:
        kind = self._format.kind.value_type.field("time").type
        self._elements = pa.concat_arrays([self._elements, self._format.elements(tuples, moments(times, kind))])

    def held(self, sessions: Sequence[list[int]]) -> pa.Array:
        ends = np.concatenate([[0], np.cumsum([len(held) for held in sessions])])
        return self._format.lists(self._elements, [at for held in sessions for at in sorted(held)], ends)

    def results(self, sessions: Sequence[Session]) -> tuple[Columns, list[int]]:
        results, times = Results(self._node.windowing, self._where), self._format.times(self._elements)
        for number, session in enumerate(sessions):
            held = np.asarray(sorted(session.held), np.int64)  # as they came
            held = held[np.argsort(times[held], kind="stable")]
            taken = self._format.tuples(self._elements.take(pa.array(held)))
            lists = taken.lists(taken.names)
            rows = [self._made(row) for row in zip(*lists, strict=True)] if lists else [self._made(())] * len(held)
            results.add(rows, session.start // 1000, number)
        return results.columns(), results.origins


def stretches(times: Ids, places: Ids, gap: int) -> list[range]:
    """Runs of rows of one place whose times follow one another by less than the gap; sorted by place and time."""
    if not len(times):
        return []
    apart = (np.diff(places) != 0) | (np.diff(times) >= gap)
    cuts = [0, *(np.flatnonzero(apart) + 1).tolist(), len(times)]
    return [range(first, last) for first, last in zip(cuts, cuts[1:], strict=False)]


class Due:
    """When each key's first open session ends: for this process only, and read anew from the state after a restart or
    where a batch is computed once more."""

    def __init__(self, keys: pa.Schema) -> None:
        self._keys = keys
        self._ends: dict[bytes, int] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._txid: int | None = None

    def stand_at(self, txid: int, stored: Stored) -> None:
        """Bring it to how batch `txid` left the state."""
        if self._txid == txid:
            return
        self._ends, self._heap = {}, []
        for page in stored.scan():
            values = one(page.column(page.num_columns - 1))
            lists, cuts = flattened(values)
            ends = numbers(lists.field("end"))
            firsts = [int(ends[a:b].min()) if b > a else None for a, b in zip(cuts, cuts[1:], strict=False)]
            self.set(page.select(self._keys.names), firsts)
        self._txid = txid

    def stands_at(self, txid: int) -> None:
        """What was set since is batch `txid`."""
        self._txid = txid

    def void(self) -> None:
        """A batch is being taken in: until it is, this stands nowhere."""
        self._txid = None

    def set(self, keys: pa.Table, ends: Sequence[int | None]) -> None:
        """When the first session of each of these keys ends; None where it has none."""
        for key, end in zip(encode_keys(keys).to_pylist(), ends, strict=True):
            if end is None:
                self._ends.pop(key, None)
            elif self._ends.get(key) != end:
                self._ends[key] = end
                heapq.heappush(self._heap, (end, key))

    def until(self, time: int) -> pa.Table:
        """The keys with a session that ends by this time."""
        found: dict[bytes, None] = {}
        while self._heap and self._heap[0][0] <= time:
            end, key = heapq.heappop(self._heap)
            if self._ends.get(key) == end:
                found[key] = None
        return decode_keys(pa.array(list(found), pa.binary()), self._keys)
