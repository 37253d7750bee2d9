"""Sessions: runs of a group's tuples in which each gap in event time is shorter than a limit.

The state holds a group's open sessions. A batch's tuples are first cut into runs without a gap; then runs and open
sessions that overlap are merged. A session is removed from the state when the watermark has reached its end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from trident.base.spark_types import arrow_schema, select
from trident.base.value_conversion import to_python
from trident.base.years import LAST
from trident.compiler.aggregates.column_combiners import Position
from trident.compiler.aggregates.folds import FoldSpec, fold_columns
from trident.compiler.columns.columns import Column, Columns, made_tuples
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.columns.operation_calls import output_column
from trident.compiler.states.due_times import first_ends
from trident.compiler.states.overlay import DueTimes, Stored
from trident.compiler.states.row_changes import NumberedRows, row_changes
from trident.compiler.states.shapes import Combining, nullable, shape_of
from trident.compiler.states.update_types import RunWindow, WindowBatch
from trident.compiler.states.updates import Updated
from trident.compiler.windows.aggregator_calls import Results, result_columns, row_schema, where_of
from trident.compiler.windows.due_keys import DueKeys
from trident.compiler.windows.time_windows import clock_of, held_by_any, latest_of
from trident.compiler.windows.tuple_lists import Ids, TupleLists, flattened, microseconds, timestamps
from trident.operations.tuples import tuple_type
from trident.operations.windows import SessionWindow
from trident.plan.nodes import Window
from trident.plan.window_inputs import entering_window
from trident.plan.window_schema import END, START
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys


def session_update(node: Window) -> RunWindow:
    """Return the function that updates a session window."""
    return _Sessions(node)


@dataclass(slots=True)
class Session:
    """One session of a group: from its first tuple to the end of the gap after its last tuple.

    `content` are the positions of the session's tuples or accumulators in the `_Content` of the batch. `former` are the
    numbers of the stored sessions that it contains.
    """

    start: int
    end: int
    content: list[int]
    former: tuple[int, ...] = ()


def merged(sessions: Iterable[Session]) -> list[Session]:
    """Merge the sessions of one group that overlap. Return them in the order of their starts."""
    joined: list[Session] = []
    for session in sorted(sessions, key=lambda s: s.start):
        if joined and session.start < joined[-1].end:
            last = joined[-1]
            content, former = last.content + session.content, last.former + session.former
            joined[-1] = Session(last.start, max(last.end, session.end), content, former)
        else:
            joined.append(session)
    return joined


class _Sessions:
    """The update of one session window's state, batch after batch.

    Some states know which keys have sessions to close (`DueTimes`). For other states the update keeps an index of them.
    """

    def __init__(self, node: Window) -> None:
        config, shape = node.windowing.config, shape_of(node)
        assert isinstance(config, SessionWindow)
        self._node, self._config, self._where, self._keys = node, config, where_of(node), shape.keys
        self._kind: pa.DataType = shape.value
        self._time: pa.DataType = shape.value.value_type.field("start").type
        self._entering = arrow_schema(select(node.source.schema, entering_window(node)))
        held = shape.value.value_type.field("held").type
        inputs = arrow_schema(select(node.source.schema, node.inputs))
        self._content: _Content = (
            _Tuples(node, TupleLists(held, inputs)) if node.windowing.aggregation is None else _Accumulators(node, held)
        )
        self._puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
        self._leaving, self._rows = nullable(arrow_schema(node.outputs)), row_schema(node)
        self._due = DueKeys(shape)

    def __call__(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        field = self._config.timestampField
        clock = clock_of(self._config, latest_of(table, field), batch)
        due = stored.due(clock.after) if isinstance(stored, DueTimes) else None
        in_process = due is None
        if due is None:
            self._due.begin(batch.txid, stored)
            due = self._due.until(clock.after)
        table = table.filter(table.column(field).is_valid()) if table.num_rows else table
        times = microseconds(table.column(field))
        open_ = (times + self._config.gap > clock.before) & held_by_any(self._config, times)
        table = table.filter(pa.array(open_))
        tuples = Columns.of(table.select(self._entering.names), self._entering)
        index = KeyNumbers(self._keys.types)
        numbers = index.numbers([tuples[name] for name in self._keys.names], tuples.rows)
        touched = index.named(self._keys.names).table(self._keys)
        changed = self._with_due(touched, due)
        sessions = self._content.joined_sessions(stored.read(changed), tuples, numbers, self._config, batch.txid)
        closed = [(session, at) for at, own in enumerate(sessions) for session in own if session.end <= clock.after]
        still_open = [[session for session in own if session.end > clock.after] for own in sessions]
        closed.sort(key=lambda pair: (pair[0].end, pair[0].start))
        early = self._node.windowing.early
        results = self._changes(changed, sessions) if early else self._results(changed, closed)[0]
        puts = self._puts_of(changed, still_open)
        if in_process:
            self._due.set(changed, first_ends(one_chunk(puts.column(puts.num_columns - 1))).to_pylist())
            self._due.end(batch.txid)
        due_next = clock.due(self._due.first()) if in_process else clock.wakes
        return Updated(puts, results, int((~open_).sum()), due_next)

    def _with_due(self, touched: pa.Table, due: pa.Table) -> pa.Table:
        """Return the touched keys, and after them other keys that have a session to close."""
        known = set(encode_keys(touched).to_pylist())
        rows = [row for row, key in enumerate(encode_keys(due).to_pylist()) if key not in known]
        return pa.concat_tables([touched, due.take(pa.array(rows, pa.int64()))]).combine_chunks() if rows else touched

    def _changes(self, keys: pa.Table, sessions: Sequence[Sequence[Session]]) -> pa.Table:
        """Return the changes of session results: a growing session is updated, one merged into another is deleted."""
        before, after = list[tuple[Session, int]](), list[tuple[Session, int]]()
        old, new, stored = list[int](), list[int](), self._content.stored
        for at, session in ((at, session) for at, own in enumerate(sessions) for session in own):
            former = [stored[number] for number in session.former]
            if former and session is former[0]:
                continue  # no tuple of the batch is in it
            # A deleted session comes before the one that it merged into, which may end at the same time.
            before += [(entering, at) for entering in [*former[1:], *former[:1]]]
            after.append((session, at))
            number = len(before) + len(after)
            old += range(number - len(former) + 1, number + 1)
            new.append(number)
        return row_changes(self._numbered(keys, before, old), self._numbered(keys, after, new), self._leaving)

    def _numbered(
        self, keys: pa.Table, sessions: Sequence[tuple[Session, int]], numbers: Sequence[int]
    ) -> NumberedRows:
        rows, origins = self._results(keys, sessions)
        return NumberedRows(rows, np.asarray(numbers, np.int64)[origins])

    def _results(self, keys: pa.Table, closed: Sequence[tuple[Session, int]]) -> tuple[pa.Table, list[int]]:
        """Return the results of sessions, each with the number of its session."""
        outputs, origins = self._content.results([session for session, _ in closed])
        rows = pa.array([closed[at][1] for at in origins], pa.int64())
        start = timestamps([closed[at][0].start for at in origins], self._time)
        end = timestamps([closed[at][0].end for at in origins], self._time)
        columns = {START: start, END: end}
        columns |= {name: one_chunk(keys.column(name)).take(rows) for name in self._keys.names}
        columns |= {name: outputs[name].array() for name in outputs.names}
        return pa.Table.from_arrays([columns[name] for name in self._rows.names], schema=self._rows), origins

    def _puts_of(self, keys: pa.Table, still_open: Sequence[Sequence[Session]]) -> pa.Table:
        """Return each key with its open sessions; null for a key without open sessions."""
        flat = [session for key_sessions in still_open for session in key_sessions]
        starts = timestamps([session.start for session in flat], self._time)
        ends = timestamps([session.end for session in flat], self._time)
        held = self._content.held([session.content for session in flat])
        structs = pa.StructArray.from_arrays([starts, ends, held], fields=list(self._kind.value_type))
        offsets = pa.array(
            np.concatenate([[0], np.cumsum([len(key_sessions) for key_sessions in still_open])]), pa.int32()
        )
        mask = pa.array([not key_sessions for key_sessions in still_open], pa.bool_())
        lists = pa.ListArray.from_arrays(offsets, structs, type=self._kind, mask=mask)
        return keys.append_column(self._puts.field(len(self._keys)), lists)


class _Content:
    """The content (tuples or accumulators) of the sessions in one batch: first the stored content, then the new."""

    stored: Sequence[Session] = ()
    """The stored sessions of all keys."""

    def joined_sessions(
        self, stored: pa.Array, tuples: Columns, key_numbers: list[int], config: SessionWindow, txid: int
    ) -> list[list[Session]]:
        """Return the sessions of each key: its stored sessions merged with the batch's runs of tuples without a gap."""
        lists, ends = flattened(stored)
        starts, closes = microseconds(lists.field("start")), microseconds(lists.field("end"))
        sessions: list[list[Session]] = [[] for _ in range(len(stored))]
        stored_content = self._stored(lists.field("held"))
        for key, key_sessions in enumerate(sessions):
            for at in range(ends[key], ends[key + 1]):
                key_sessions.append(Session(int(starts[at]), int(closes[at]), stored_content[at], (at,)))
        self.stored = [session for key_sessions in sessions for session in key_sessions]
        times = microseconds(tuples[config.timestampField].array())
        order = np.lexsort((times, np.asarray(key_numbers, np.int64)))
        cuts = runs_without_gap(times[order], np.asarray(key_numbers, np.int64)[order], config.gap)
        for number, rows in enumerate(cuts):
            first, last = int(order[rows.start]), int(order[rows.stop - 1])
            session = Session(int(times[first]), min(int(times[last]) + config.gap, LAST), [])
            session.content = self._brought(number, order[rows.start : rows.stop])
            sessions[key_numbers[first]].append(session)
        self._take(tuples, times, order, cuts, txid)
        return [merged(key_sessions) for key_sessions in sessions]

    def _stored(self, held: pa.Array) -> list[list[int]]:
        """Add the content of the stored sessions, and return the positions of each session's content."""
        raise NotImplementedError

    def _brought(self, number: int, rows: Ids) -> list[int]:
        """Return the positions that the content of a run of the batch's tuples will get."""
        raise NotImplementedError

    def _take(self, tuples: Columns, times: Ids, order: Ids, cuts: Sequence[range], txid: int) -> None:
        """Add the batch's own content, at the positions that `_brought` returned."""
        raise NotImplementedError

    def held(self, sessions: Sequence[list[int]]) -> pa.Array:
        """Return the content of each session, in the form in which the state stores it."""
        raise NotImplementedError

    def results(self, sessions: Sequence[Session]) -> tuple[Columns, list[int]]:
        """Return the results of the aggregator, each with the number of its session."""
        raise NotImplementedError


class _Accumulators(_Content):
    """One accumulator for each session. A session that was merged from several has several until they are combined."""

    def __init__(self, node: Window, kind: pa.DataType) -> None:
        aggregation = node.windowing.aggregation
        assert aggregation is not None
        self._where, self._kind, self._windowing = where_of(node), kind, node.windowing
        self._combine = Combining(aggregation, self._where)
        stretch = pa.schema([pa.field("__trident_stretch", pa.int64())])
        self._spec = FoldSpec.of_state(stretch, self._where, aggregation)
        self._output = aggregation.output
        self._leaving = nullable(arrow_schema(node.windowing.outputs))
        self._values: list[Any] = []

    def _stored(self, held: pa.Array) -> list[list[int]]:
        self._values = to_python(held)
        return [[at] for at in range(len(held))]

    def _brought(self, number: int, rows: Ids) -> list[int]:
        return [len(self._values) + number]

    def _take(self, tuples: Columns, times: Ids, order: Ids, cuts: Sequence[range], txid: int) -> None:
        # The tuples stay in the order in which they came, which counts for First, Last and the like.
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.repeat(np.arange(len(cuts)), [len(rows) for rows in cuts])
        stretched = tuples.plus({self._spec.keys.names[0]: Column(pa.int64(), pa.array(numbers), None)})
        folded = self._spec.presented(fold_columns(self._spec, [stretched], Position(txid)))
        by_number = dict(zip(*folded.lists(folded.names), strict=True))
        self._values = self._values + [by_number[number] for number in range(len(cuts))]

    def _one(self, held: list[int]) -> Any:
        value = None
        for at in held:
            value = self._values[at] if value is None else self._combine(value, self._values[at])
        return value

    def held(self, sessions: Sequence[list[int]]) -> pa.Array:
        field = pa.field(self._output, self._kind)
        return output_column(self._where, [self._one(held) for held in sessions], field).array()

    def results(self, sessions: Sequence[Session]) -> tuple[Columns, list[int]]:
        results = [(self._one(session.content), at) for at, session in enumerate(sessions)]
        known = [(value, at) for value, at in results if value is not None]  # null means no value, as in a state
        values = result_columns(self._windowing, self._where, [value for value, _ in known], self._leaving)
        return Columns(values, len(known)), [at for _, at in known]


class _Tuples(_Content):
    """All tuples of a session, in the order in which they arrived.

    Tuples of a batch have greater positions than stored ones, so sorted positions give this order, whichever sessions
    are merged.
    """

    def __init__(self, node: Window, held: TupleLists) -> None:
        self._node, self._format, self._where = node, held, where_of(node)
        self._elements = pa.array([], held.kind.value_type)
        self._make = tuple_type(node.inputs)

    def _stored(self, held: pa.Array) -> list[list[int]]:
        self._elements, ends = flattened(held)
        return [list(range(ends[at], ends[at + 1])) for at in range(len(held))]

    def _brought(self, number: int, rows: Ids) -> list[int]:
        positions: list[int] = (rows + len(self._elements)).tolist()
        return positions

    def _take(self, tuples: Columns, times: Ids, order: Ids, cuts: Sequence[range], txid: int) -> None:
        kind = self._format.kind.value_type.field("time").type
        self._elements = pa.concat_arrays([self._elements, self._format.elements(tuples, timestamps(times, kind))])

    def held(self, sessions: Sequence[list[int]]) -> pa.Array:
        ends = np.concatenate([[0], np.cumsum([len(held) for held in sessions])])
        return self._format.lists(self._elements, [at for held in sessions for at in sorted(held)], ends)

    def results(self, sessions: Sequence[Session]) -> tuple[Columns, list[int]]:
        results, times = Results(self._node.windowing, self._where), self._format.times(self._elements)
        for number, session in enumerate(sessions):
            held = np.asarray(sorted(session.content), np.int64)  # the order in which the tuples came
            held = held[np.argsort(times[held], kind="stable")]
            tuples = self._format.tuples(self._elements.take(pa.array(held)))
            lists = tuples.lists(tuples.names)
            rows = list(made_tuples(self._make, lists, len(held)))
            results.add(rows, session.start // 1000, number)
        return results.columns(), results.origins


def runs_without_gap(times: Ids, key_numbers: Ids, gap: int) -> list[range]:
    """Split the rows of each key into runs in which each gap between times is shorter than `gap`.

    The rows are sorted by key and time.
    """
    if not len(times):
        return []
    apart = (np.diff(key_numbers) != 0) | (np.diff(times) >= gap)
    cuts = [0, *(np.flatnonzero(apart) + 1).tolist(), len(times)]
    return [range(first, last) for first, last in zip(cuts, cuts[1:], strict=False)]
