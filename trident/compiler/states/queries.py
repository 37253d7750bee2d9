"""State queries over columns: each tuple with a state's answer. A step reads the state once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import FailedException, StateError
from trident.base.short_texts import raised
from trident.base.spark_types import arrow_schema, arrow_type
from trident.base.value_conversion import exact_type
from trident.compiler.columns.columns import Column, Columns, are_few, made_tuples
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.columns.operation_calls import ListCollector, not_emitted, tuple_column
from trident.compiler.columns.user_keys import key_columns
from trident.compiler.states.query_ranges import key_range
from trident.compiler.states.shapes import shape_of
from trident.operations.functions import Query
from trident.operations.tuples import tuple_type
from trident.plan.nodes import HeldState, StateReader
from trident.plan.state_schema import function_of, parts_of, present_of, queried_parts, shown_type
from trident_state.few_keys import Key
from trident_state.key_order import KeyRange, collect_ranges

Read = Callable[[HeldState, pa.Table], pa.Array]
"""A function that reads a state. Its argument is a table of key fields (no key twice; one row without columns for a
global value). It returns one stored accumulator for each row, null if there is none."""


def _by_table(state: HeldState, keys: Sequence[Key]) -> None: ...


def _by_scan(state: HeldState, entries: pa.Schema, ranges: Sequence[KeyRange], most: int | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Reads:
    """A `Read` that can also list a state: `scan` yields tables of entries, the key fields first, then the value.

    `few` reads a few keys, each a tuple of values, and returns Python values; None if only `read` can read the state.
    `ranges` reads ranges of keys, each in order and at most `most` entries; None if the state must be scanned.
    """

    read: Read
    scan: Callable[[HeldState], Iterator[pa.Table]]
    few: Callable[[HeldState, Sequence[Key]], list[Any] | None] = _by_table
    ranges: Callable[[HeldState, pa.Schema, Sequence[KeyRange], int | None], list[pa.Table] | None] = _by_scan

    def __call__(self, node: HeldState, keys: pa.Table) -> pa.Array:
        return self.read(node, keys)


Answer = Callable[[Columns, Read], Columns]


@dataclass(frozen=True, slots=True)
class Question:
    """A state query, separated from its plan. A `detached` question can be sent to a worker."""

    step: str
    query: Query
    inputs: tuple[str, ...]
    outputs: pa.Schema
    entering: pa.Schema
    leaving: pa.Schema
    parts: Sequence[str] | None
    """The fields of the state's value that MapGet or SnapshotGet returns; None for the whole value."""
    lookup: "Lookup"

    @classmethod
    def of(cls, step: StateReader) -> "Question":
        """Return the question of a step."""
        outputs = arrow_schema(step.outputs)
        parts = queried_parts(step.updated, outputs.names) if step.query.get else None
        entering, leaving = arrow_schema(step.source.schema), arrow_schema(step.schema)
        return cls(step.step, step.query, step.inputs, outputs, entering, leaving, parts, Lookup.of(step))

    def detached(self) -> "Question":
        """Return the question without the node of its state, because the whole plan can be reached from that node."""
        return replace(self, lookup=replace(self.lookup, state=None))


def compile_query(step: StateReader) -> Callable[[pa.Table, Read], pa.Table]:
    """Return a function from the input tuples of a state query to its output tuples."""
    return compile_question(Question.of(step))


def compile_question(question: Question) -> Callable[[pa.Table, Read], pa.Table]:
    """Return the function over tables that answers a question."""
    answer = _answer(question)
    return lambda table, read: answer(Columns.of(table, question.entering), read).table(question.leaving)


def compile_answer(step: StateReader) -> Answer:
    """Return the function over columns that answers a state query. Hidden fields pass through it."""
    return _answer(Question.of(step))


def _answer(question: Question) -> Answer:
    if question.query.joining:
        return _joining(question)
    return _get(question) if question.query.get else _query(question)


def _joining(asked: Question) -> Answer:
    """Return the function of a join with a state, over whole columns. It adds the value's fields to each tuple."""
    lookup, fields = asked.lookup, asked.outputs

    def answer(columns: Columns, read: Read) -> Columns:
        if not columns.rows:
            return columns.plus({field.name: Column.made([], field.type) for field in fields})
        values = lookup.columns([columns[name] for name in asked.inputs], columns.rows, read).array()
        parts = values.flatten() if kinds.is_struct(values.type) else [values]
        pairs = zip(fields, parts, strict=True)
        joined = columns.plus({field.name: Column.of(part).cast(field.type) for field, part in pairs})
        return joined.keep(values.is_valid().to_pylist()) if asked.query.joining == "inner" else joined

    return answer


def _get(asked: Question) -> Answer:
    """Return the function of a MapGet or SnapshotGet. It works on whole columns and creates no tuple objects."""
    lookup, outputs, parts = asked.lookup, asked.outputs, asked.parts

    def answer(columns: Columns, read: Read) -> Columns:
        if not columns.rows:
            return columns.plus({field.name: Column.made([], field.type) for field in outputs})
        values = lookup.columns([columns[name] for name in asked.inputs], columns.rows, read)
        answers = [values] if parts is None else _fields(values, parts)
        return columns.plus(
            {field.name: answer.cast(field.type) for field, answer in zip(outputs, answers, strict=True)}
        )

    return answer


def _fields(values: Column, names: Sequence[str]) -> list[Column]:
    """Return the named fields of a column of structs. The fields of a null struct are null."""
    array = values.array()
    fields = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    return [Column.of(fields[name]) for name in names]


def _query(asked: Question) -> Answer:
    """Return the function of a user's QueryFunction: one batchRetrieve for all tuples, then execute for each."""
    lookup, outputs = asked.lookup, asked.outputs
    where = Where(asked.step, asked.query.site, asked.inputs)
    maker = tuple_type(asked.inputs)
    function = asked.query.function

    def answer(columns: Columns, read: Read) -> Columns:
        if not columns.rows:
            return columns.plus({field.name: Column.made([], field.type) for field in outputs})
        lists = columns.lists(asked.inputs)
        tuples = list(made_tuples(maker, lists, columns.rows))
        results = _retrieved(where, function, ReadOnlyState(lookup, read), tuples)
        emitted: list[tuple[Any, ...]] = []
        origins: list[int] = []
        row, names = 0, outputs.names
        execute: Callable[..., object] = function.execute
        with where.calling_rows(lists, lambda: row):
            for row, (values, result) in enumerate(zip(tuples, results, strict=True)):  # noqa: B007
                collector = ListCollector(names)
                if (returned := execute(values, result, collector)) is not None:
                    raise not_emitted(returned)
                answers = collector.close()
                emitted += answers
                origins += [row] * len(answers)
        added = {
            field.name: tuple_column(where, [values[at] for values in emitted], field, lists, origins.__getitem__)
            for at, field in enumerate(outputs)
        }
        return columns.take(origins).plus(added)

    return answer


def _retrieved(where: Where, function: Any, state: "ReadOnlyState", tuples: Sequence[Any]) -> Sequence[Any]:
    try:
        results = list(function.batchRetrieve(state, tuples))
    except (FailedException, StateError):
        if state.failure is None:
            raise
    except (Exception, SystemExit) as cause:
        if state.failure is None:
            raise where.error(f"{raised(cause)} in batchRetrieve", cause) from cause
    if state.failure is not None:  # the state could not be read, even if the function swallowed the error
        raise state.failure
    if len(results) != len(tuples):
        raise where.error(
            f"returned {len(results)} results for {len(tuples)} tuples; batchRetrieve must return one for each"
        )
    return results


class ReadOnlyState:
    """A state in the form in which a QueryFunction reads it.

    Meaning: ``org.apache.storm.trident.state.map.ReadOnlyMapState``,
    ``org.apache.storm.trident.state.snapshot.ReadOnlySnapshottable``, ``ITupleCollection``.
    """

    __slots__ = ("_lookup", "_read", "failure")

    def __init__(self, lookup: "Lookup", read: Read) -> None:
        self._lookup, self._read = lookup, read
        self.failure: BaseException | None = None
        """The error of a failed read of the state; None if no read failed."""

    def multiGet(self, keys: Sequence[Any]) -> list[Any]:
        """Return one value for each key; None if nothing is stored.

        A key is a tuple or list of the key fields' values, or the value itself if there is one field.
        """
        columns = key_columns(keys, self._lookup.keys, self._lookup.subject)
        return self._guarded(lambda: self._lookup.values(columns, self._read))

    def get(self) -> Any:
        """Return the value of a state without key fields."""
        return self.multiGet([()])[0]

    def getTuples(self) -> Iterator[tuple[Any, ...]]:
        """Return all entries, in no particular order. Each is the values of the key fields, then the value.

        This reads the whole state.
        """
        return iter(self._guarded(lambda: self._lookup.entries(self._read)))

    def multiRange(self, ranges: Sequence[tuple[Any, ...]], limit: int | None = None) -> list[list[tuple[Any, ...]]]:
        """Return for each range of keys its entries in the order of the keys: the first `limit` of them, or all.

        A range is (low, high), or (low, high, inclusive) with the words of `RangeGet`. An end is a tuple of values of
        the first key fields, or None. An entry is the values of the key fields, then the value.
        """
        lookup = self._lookup
        read = [key_range(each, lookup.keys, lookup.subject) for each in ranges]
        return self._guarded(lambda: lookup.ranges(read, limit, self._read))

    def _guarded(self, question: Callable[[], list[Any]]) -> list[Any]:
        try:
            return question()
        except BaseException as error:
            self.failure = error
            raise


def _shown_kind(step: StateReader) -> pa.DataType:
    """Return the type of the value that a MapGet or SnapshotGet reads.

    It is the whole value if the query names fields of the value.
    """
    outputs = arrow_schema(step.outputs)
    whole = shown_type(step.updated) if queried_parts(step.updated, outputs.names) is not None else None
    return outputs.field(0).type if whole is None else arrow_type(whole)


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether all values that are stored with this type become immutable Python values."""
    return exact_type(kind) in (str, int, float, bool, bytes) or kinds.is_floating(kind) or kinds.is_decimal(kind)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A function that reads one state for a step.

    It reads each key once, and applies `present` to stored accumulators.
    """

    state: Any
    """The node of the state, by which a `Read` identifies it; None in a detached question, which has one state."""
    keys: pa.Schema
    stored: pa.DataType
    """The type of the stored values."""
    present: Callable[[Any], Any] | None
    where: Where
    kind: pa.DataType | None
    bundled: bool
    """True if a value combines the values of several aggregators."""
    subject: str

    @classmethod
    def of(cls, step: StateReader) -> "Lookup":
        """Return the lookup of a query."""
        return cls.of_state(step.updated, f"{step.step}: {step.query.site}", _kind(step))

    @classmethod
    def of_state(cls, state: HeldState, subject: str, kind: pa.DataType | None) -> "Lookup":
        """Return the lookup of a state for the step `subject`. `kind` is the type of the values that the step gets."""
        shape = shape_of(state)
        return cls(
            state,
            shape.keys,
            shape.value,
            present_of(state),
            Where(state.step, function_of(state)),
            kind,
            parts_of(state) is not None,
            f"{subject}: state {state.state.name!r}",
        )

    def values(self, columns: Columns, read: Read) -> list[Any]:
        return self.columns([columns[name] for name in columns.names], columns.rows, read).values()

    def entries(self, read: Read) -> list[tuple[Any, ...]]:
        if not isinstance(read, Reads):
            raise TypeError(f"{self.subject}: this reader cannot list a state")
        return [entry for page in read.scan(self.state) for entry in self._listed(page)]

    def ranges(self, ranges: Sequence[KeyRange], most: int | None, read: Read) -> list[list[tuple[Any, ...]]]:
        """Return the entries of each range, in the order of their keys."""
        if not isinstance(read, Reads):
            raise TypeError(f"{self.subject}: this reader cannot list a state")
        columns = self.keys.append(pa.field("", self.stored))
        tables = read.ranges(self.state, columns, ranges, most)
        if tables is None:
            tables = collect_ranges(read.scan(self.state), columns, ranges, most)
        return [self._listed(table) for table in tables]

    def _listed(self, page: pa.Table) -> list[tuple[Any, ...]]:
        """Return the entries of a table that have a value, as a query sees them."""
        *keys, values = [Column.of(column) for column in page.columns]
        presented = self.presented(values).values()
        entries: list[tuple[Any, ...]] = list(zip(*[key.values() for key in keys], presented, strict=True))
        entries = [entry for entry in entries if entry[-1] is not None]
        # the values of several aggregators are Rows, which are tuples
        return [(*entry[:-1], *entry[-1]) for entry in entries] if self.bundled else entries

    def columns(self, columns: Sequence[Column], rows: int, read: Read) -> Column:
        """Return the state's value for each row. `columns` are the key fields of the rows."""
        index = KeyNumbers(self.keys.types)
        numbers = index.numbers(
            [column.cast(field.type) for column, field in zip(columns, self.keys, strict=True)], rows
        )
        values = self.presented(self._read(index, read))
        return values if len(index) == rows and len(self.keys) else values.take(numbers)

    def _read(self, index: KeyNumbers, read: Read) -> Column:
        """Return the stored value under each key of the index."""
        if isinstance(read, Reads) and are_few(len(index)) and _is_plain(self.stored):
            values = read.few(self.state, index.tuples())
            if values is not None:
                return Column(self.stored, None, values)
        keys = (index.named(self.keys.names) if len(self.keys) else Columns({}, 1)).table(self.keys)
        return Column.of(read(self.state, keys))

    def presented(self, stored: Column) -> Column:
        """Return the values that queries see, for stored ones."""
        present = self.present
        if present is None:
            return stored
        with self.where.calling("present()"):
            presented = [None if value is None else present(value) for value in stored.values()]
        return Column.made(presented, self.kind) if self.kind is not None else Column(stored.kind, None, presented)


def _kind(step: StateReader) -> pa.DataType | None:
    """Return the type of the values that a query sees; None for a user's function, which gets them unconverted."""
    if step.query.joining:
        shown = shown_type(step.updated)
        return None if shown is None else arrow_type(shown)
    return _shown_kind(step) if step.query.get else None
