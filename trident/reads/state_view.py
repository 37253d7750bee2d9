"""The view of a state for its readers: ``running.state("counts")["dog"]``."""

import datetime
import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.argument_checks import check_whole_number
from trident.base.errors import (
    SnapshotMovedError,
    StateError,
    StateKeyError,
    StateKeyNotFoundError,
    StateValueError,
    TridentError,
)
from trident.base.html_table import html_table
from trident.base.names import FieldsLike, field_names, quote
from trident.base.short_texts import short_repr
from trident.base.value_conversion import OutsideYears, to_python, type_name
from trident.base.years import OUTSIDE_YEARS, entry_text
from trident.compiler.columns.columns import are_few
from trident.operations.query_functions import Inclusive
from trident.reads.as_of_argument import AsOfBatch, read_as_of_batch
from trident.reads.committed_reads import Isolation, ReadSource, Snapshot, read_consistently
from trident.reads.expression_listing import MISSING, calling_frame
from trident.reads.flat_tables import spread_structs, to_frame
from trident.reads.indexes import Index, no_index
from trident.reads.key_ranges import cursor_at, cursor_of, place_of, range_between, range_of_prefix
from trident.reads.key_tables import fields_text, key_table, tuples_of
from trident.reads.presented_values import PresentedValues
from trident.reads.previous_reads import read_previous, txid_before
from trident.reads.ranking import field_of, top_of_columns, top_of_values
from trident.reads.state_description import StateDescription
from trident.reads.state_mapping import StateMapping
from trident.reads.state_range import StateRange
from trident.reads.tags import TagName, txid_of_tag
from trident.reads.time_reads import Moment, txid_at
from trident.reads.txid_reads import kept_txids, read_as_of
from trident_state.key_order import KeyRange
from trident_state.state_shape import StateKind

if TYPE_CHECKING:
    import pandas as pd

_T = TypeVar("_T")

_SHOWN_ROWS = 10


class StateView(StateMapping):
    """Reads one state of a running topology: committed values as of one txid, unless the latest values are requested.

    It is a ``collections.abc.Mapping``. A key is the plain value of the state's key field, or a tuple of several
    fields' values in their order. A value is the result of the aggregator's `present`, or the stored value. As in
    Trident (``ReadOnlyMapState``), a stored null counts as nothing stored. A loop, ``len``, ``dict`` and every method
    are one read each.

    Examples
    --------
    >>> from trident import Count, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> from trident.testing.local import start_local
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",), ("cat",)], [("dog",)]]))
    >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> with start_local(topology, name="view") as running:
    ...     running.processAllAvailable()
    ...     counts = running.state("counts")
    ...     print(counts["dog"], counts.get("unicorn", 0), "cat" in counts, counts.multiGet(["cat", "unicorn"]))
    ...     print(sorted(dict(counts).items()), len(counts), counts.top(1))
    ...     print(dict(running.state("counts", asOf="previous")) == {"dog": 1, "cat": 1})
    2 0 True [1, None]
    [('cat', 1), ('dog', 2)] 2 [('dog', 2)]
    True
    """

    def __init__(
        self,
        source: ReadSource,
        state: StateDescription,
        isolation: str = "committed",
        asOf: AsOfBatch | None = None,
    ) -> None:
        super().__init__()
        if isolation not in get_args(Isolation):
            raise ValueError(f"isolation={isolation!r}: expected {' or '.join(map(repr, get_args(Isolation)))}")
        self._source = source
        self._description = state
        self._shape = state.shape
        self._present = state.present
        self._output = state.output
        self._parts = state.parts
        self._values = PresentedValues(state)
        self.name = state.name
        self.kind = state.kind
        # A non-transactional state keeps no previous values, so it cannot answer as of a txid.
        latest = isolation == "latest" or self.kind is StateKind.NON_TRANSACTIONAL
        self.isolation: Isolation = "latest" if latest else "committed"
        self._batch = read_as_of_batch(self.name, self.kind, asOf, isolation)

    @property
    def keyFields(self) -> pa.Schema:
        """The key fields with their Arrow types; no field for a state of one value."""
        return self._shape.keys

    @property
    def valueType(self) -> pa.DataType:
        """The Arrow type of the stored value. Readers may see another type if the aggregator has a ``present``."""
        return self._shape.value

    # --- by key ----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """Return the value of one key.

        Raises
        ------
        StateKeyNotFoundError
            Nothing is stored under the key. This is a KeyError, too.
        StateKeyError
            The key is not of the state's key types.
        """
        value = self._listings.of_expression.value(calling_frame(), key)
        if value is MISSING:
            value = self._stored(key)
        if value is MISSING:
            # `_as_of` is called after the read, so it may return a later txid than that of the read.
            raise StateKeyNotFoundError(
                f"state {self.name!r} has no value for the key {short_repr(key)}{self._as_of()}"
            )
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of one key; the default if nothing is stored."""
        value = self._stored(key)
        return default if value is MISSING else value

    def __contains__(self, key: Any) -> bool:
        return self._stored(key) is not MISSING

    def multiGet(self, keys: Iterable[Any]) -> list[Any]:
        """Return one value for each key, in the order of the keys; None if nothing is stored. All are as of one txid.

        Source of the meaning: ``org.apache.storm.trident.state.map.ReadOnlyMapState.multiGet``.
        """
        # These types are iterable, too, so the letters of a word would be treated as keys.
        if isinstance(keys, str | bytes | dict):
            raise StateKeyError(
                f"state {self.name!r}: multiGet takes a list of keys, not the {type(keys).__name__} {short_repr(keys)}"
            )
        return self._read(list(keys))

    def multiGetWithTxid(self, keys: Iterable[Any]) -> tuple[list[Any], int | None]:
        """Return the values as `multiGet` does, and the txid as of which they were read; None for the latest values."""
        return self._read_as_of(list(keys))

    def getPromptly(self, key: Any) -> tuple[Any, int | None] | None:
        """Return the value of one key and its txid as `multiGetWithTxid` does; None if the read may have to wait.

        It does not wait if the state is in memory, its values are shown as stored, and no commit must be held back. A
        server answers such a read in the thread of its event loop.
        """
        if self._present is not None or self.isPast or not self._source.isPrompt(self.name):
            return None
        try:
            values, txid, _ = self._read_stored([key], mayWait=False)
        except SnapshotMovedError:
            return None
        return values[0], txid

    def asColumn(self, values: list[Any]) -> pa.Array:
        """Return values from a read as an Arrow column.

        If the aggregator is yours and the type of its `present` is not declared, the column's type is inferred (for
        several aggregates, the type of each field).
        """
        return self._values.column(values)

    @property
    def value(self) -> Any:
        """The value of a global state (one without key fields); None if nothing is stored yet."""
        if len(self._shape.keys):
            keyed = fields_text(self._shape.keys)
            raise StateKeyError(f"state {self.name!r} is keyed by {keyed}: read view[key], not view.value")
        return self._read([()])[0]

    # --- all entries -------------------------------------------------------------------------------------------

    def top(self, n: int, by: str | Callable[[Any], Any] | None = None) -> list[tuple[Any, Any]]:
        """Return the `n` entries with the greatest values, as (key, value) pairs, the greatest first; as of one txid.

        Entries of equal rank come in the order of their keys. NaN and null rank last.

        Parameters
        ----------
        by : str or callable, optional
            The rank of a value: the field of this name if values have fields, or the result of this function of the
            value. By default the value itself.

        Raises
        ------
        StateError
            The values have no order, or no such field. Errors of the function pass unchanged.
        """
        return list(self._listings.pairs_of(self._top(n, by)[0]))

    def ranked(self, n: int, by: str | Callable[[Any], Any] | None = None) -> pa.Table:
        """Return the entries of `top` in the form of `toArrow`."""
        unordered = self._parts is not None or (self._present is None and pa.types.is_nested(self._shape.value))
        if by is None and unordered:
            return self.toArrow(n)
        return self._shown(*self._top(n, by))

    def range(
        self,
        low: Any = None,
        high: Any = None,
        *,
        inclusive: Inclusive = "left",
        limit: int | None = None,
        after: str | None = None,
    ) -> StateRange:
        """Return the entries with keys from `low` up to but not including `high`, in the order of the keys.

        All are as of one txid. Keys have the order of their types, as in Spark's ``ORDER BY``: null first, NaN after
        every number, text by its bytes in UTF-8. A state in memory makes an index at its first range; other stores may
        read all their keys (``docs/guide/queries.md``).

        Parameters
        ----------
        low, high : optional
            A value of the key field; for several fields a tuple of values of the first ones, such as ``("Rome",)`` or
            ``("Rome", date(2026, 1, 1))``. None: no end.
        inclusive : "left", "right", "both" or "neither"
            The ends that belong to the range. ``range(("Rome",), ("Rome",), inclusive="both")`` returns all keys with
            that first field.
        limit : int, optional
            The most entries to return. The result's `after` is then the cursor of the next page.
        after : str, optional
            The cursor of the page before. Each page is as of its own txid; a key that exists throughout is returned
            once.

        Raises
        ------
        StateKeyError
            An end is not of the key's types, or the keys have no order (arrays, structs, a state of one value).
        ValueError
            `limit`, `inclusive` or `after` is invalid.

        Examples
        --------
        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> from trident.testing.local import start_local
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [["cow", "cat", "ant", "dog"]]))
        >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        >>> with start_local(topology, name="ranges") as running:
        ...     running.processAllAvailable()
        ...     counts = running.state("counts")
        ...     print(counts.range("b", "d"), counts.prefix("co"))
        ...     page = counts.range(limit=3)
        ...     print(page, counts.range(limit=3, after=page.after))
        [('cat', 1), ('cow', 1)] [('cow', 1)]
        [('ant', 1), ('cat', 1), ('cow', 1)] [('dog', 1)]
        """
        return self._range(range_between(self.name, self._shape.keys, low, high, inclusive), limit, after)

    def prefix(self, start: Any, *, limit: int | None = None, after: str | None = None) -> StateRange:
        """Return the entries whose keys begin with `start`, in the order of the keys; see `range`.

        Parameters
        ----------
        start : str, bytes or tuple
            The beginning of the first key field; or a tuple of values that the first fields have. If the tuple has a
            value for every field, the last field begins with it.

        Raises
        ------
        StateKeyError
            `start` is not the beginning of a key, or the keys have no order.
        """
        return self._range(range_of_prefix(self.name, self._shape.keys, start), limit, after)

    def ranged(self, between: KeyRange, limit: int | None, after: str | None) -> tuple[pa.Table, str | None]:
        """Return the entries of a range in the form of `toArrow`, and the cursor of the next page."""
        table, as_of, cursor = self._in_range(between, limit, after)
        return self._shown(table, as_of), cursor

    def _range(self, between: KeyRange, limit: int | None, after: str | None) -> StateRange:
        table, as_of, cursor = self._in_range(between, limit, after)
        shown = self._shown(table, as_of)
        return StateRange(self._listings.pairs_of(table), shown, as_of.get("asOfTxid"), cursor)

    def _in_range(
        self, between: KeyRange, limit: int | None, after: str | None
    ) -> tuple[pa.Table, dict[str, int], str | None]:
        """Return a page of a range as stored, the metadata that names its txid, and the cursor of the next page."""
        more = None
        if limit is not None:
            check_whole_number(f"state {self.name!r}: limit", limit, least=1, error=ValueError)
            more = limit + 1  # one more shows whether there is a next page
        if after is not None:
            between = between.after(place_of(self.name, after))
        entries = pa.schema(list(zip([*self._shape.keys.names, self._output], self._shape.entries.types, strict=True)))

        def read(snapshot: Snapshot) -> tuple[pa.Table, int | None]:
            return snapshot.ranges(self.name, entries, [between], more)[0], snapshot.txid(self.name)

        table, txid = self._at_one_txid(read)
        as_of = {} if txid is None else {"asOfTxid": txid}
        if limit is None or table.num_rows <= limit:
            return table, as_of, None
        page = table.slice(0, limit)
        return page, as_of, cursor_of(self.name, page.select(self._shape.keys.names).slice(limit - 1))

    # --- by the fields of an index -----------------------------------------------------------------------------

    def by(self, fields: FieldsLike, value: Any, *, limit: int | None = None, after: str | None = None) -> StateRange:
        """Return the entries with a value in the fields of an index, in the order of the keys, as of one txid.

        Keys with arrays or structs, which have no defined order, come in an arbitrary but stable order.
        The verb that makes the state names the fields: ``toTable("id", index="city")``. The index is committed with
        each batch, so the result is the entries that a filter of ``toArrow()`` as of that txid would keep. It is read
        by the keys that have the value, and the state by the keys that these hold.

        Parameters
        ----------
        fields : str or list of str
            The fields of the index.
        value
            The value to look for; for several fields a tuple of values. None finds entries in which the field is null.
        limit : int, optional
            The most entries to return. The result's `after` is then the cursor of the next page. The entries of a page
            are in order, and the pages follow the parts of the index: a page reads only the parts of its keys.
        after : str, optional
            The cursor of the page before. Each page is as of its own txid; an entry that has the value all the time
            comes once. Raises ValueError if it is no cursor of the index.

        Raises
        ------
        StateKeyError
            The state has no such index, or the value is not of the type of the field.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.testing.local import start_local
        >>> topology = TridentTopology()
        >>> rows = [[(1, "Ann", "Rome"), (2, "Bob", "Oslo")], [(2, "Bob", "Rome")]]
        >>> users = topology.newStream("users", FixedBatchSpout("id long, name string, city string", rows))
        >>> _ = users.toTable("id", name="users", index="city")
        >>> with start_local(topology, name="by") as running:
        ...     running.processAllAvailable()
        ...     users = running.state("users")
        ...     print(users.by("city", "Oslo"), [key for key, _ in users.by("city", "Rome")])
        [] [1, 2]
        """
        table, as_of, cursor = self._by(field_names(fields), [value], limit, after)
        return StateRange(self._listings.pairs_of(table), self._shown(table, as_of), as_of.get("asOfTxid"), cursor)

    def index(self, fields: Sequence[str]) -> Index:
        """Return the index of the state by some fields. Raises StateKeyError if there is none."""
        for index in self._description.indexes:
            if index.fields.names == list(fields):
                return index
        raise no_index(self.name, fields, self._description.indexes)

    @property
    def indexes(self) -> tuple[Index, ...]:
        """The known indexes of the state."""
        return self._description.indexes

    def found(self, fields: Sequence[str], value: Any, limit: int, after: str | None) -> tuple[pa.Table, str | None]:
        """Return the entries of `by` in the form of `toArrow`, and the cursor of the next page."""
        table, as_of, cursor = self._by(fields, [value], limit, after)
        return self._shown(table, as_of), cursor

    def pathOf(self, field: str) -> tuple[str, ...]:
        """Return the column of `toArrow` for a field of the rows, and the field within it if the column is a struct."""
        alone = field in self._shape.keys.names or self._parts is not None or field == self._output
        return (field,) if alone else (self._output, field)

    def _by(
        self, fields: Sequence[str], values: list[Any], limit: int | None, after: str | None
    ) -> tuple[pa.Table, dict[str, int], str | None]:
        """Return a page of the entries with some values in the fields of an index; see `_in_range`."""
        index = self.index(fields)
        wanted = index.values(self.name, values)
        if self.isolation == "latest":
            raise ValueError(
                f"state {self.name!r}: by(...) reads index and state as of one txid, and isolation='latest' has "
                f"none: read committed values"
            )
        if limit is not None:
            check_whole_number(f"state {self.name!r}: limit", limit, least=1, error=ValueError)
        begin = b"" if after is None else place_of(index.name, after)

        def read(snapshot: Snapshot) -> tuple[pa.Table, int | None, bytes | None]:
            keys, end = index.page_with(snapshot, wanted, limit, begin)
            entries = self._collect(iter([index.entries_of(snapshot, self.name, keys)]), None)
            return entries, snapshot.txid(self.name), end

        table, txid, end = self._at_one_txid(read, beside=index)
        as_of = {} if txid is None else {"asOfTxid": txid}
        return table, as_of, None if end is None else cursor_at(index.name, end)

    def _top(self, n: int, by: str | Callable[[Any], Any] | None) -> tuple[pa.Table, dict[str, int]]:
        """Return the `n` entries with the greatest values, as stored, and the metadata that names the txid."""
        check_whole_number(f"state {self.name!r}: top: n", n, least=0, error=ValueError)
        where = f"state {self.name!r}: top"
        table, as_of = self._table(None)
        if self._present is None and not callable(by):
            return top_of_columns(table, n, by, where), as_of
        if by is None and self._parts is not None:
            first = next(iter(self._parts))
            raise StateError(f"{where}: values of several fields have no order; name one field: by={first!r}")
        values = list(self._listings.values_of(table))
        # `by` is user code, as `present` is: both run after the read, so that no commit waits for them.
        rank = by if callable(by) else (lambda value: value) if by is None else lambda value: field_of(value, by, where)
        rows = top_of_values(table, values, n, rank, where)
        return table.take(pa.array(rows, pa.int64())), as_of

    def toArrow(self, limit: int | None = None) -> pa.Table:
        """Return key fields and value as a table as of one txid; ``asOfTxid`` in the schema's metadata names it."""
        return self._shown(*self._table(limit))

    def _shown(self, table: pa.Table, as_of: dict[str, int]) -> pa.Table:
        """Return stored entries with values as readers see them, and with the metadata that names the txid."""
        if self._parts is not None:
            table = self._values.flat(table)
        elif self._present is not None:
            values = self._values.column(list(self._listings.values_of(table)))
            table = table.set_column(table.num_columns - 1, self._output, values)
        return table.replace_schema_metadata({name: str(txid) for name, txid in as_of.items()}) if as_of else table

    def shown(self, keys: pa.Table, values: pa.Array) -> pa.Table:
        """Return stored values beside their keys, as `toArrow` shows them."""
        stored = [*self._shape.keys, pa.field(self._output, self._shape.value)]
        return self._shown(pa.Table.from_arrays([*keys.columns, values], schema=pa.schema(stored)), {})

    def stored(self, pages: Iterator[pa.Table]) -> pa.Table:
        """Return the entries in the pages of a scan that have a value: the key columns, then the stored values."""
        return self._collect(pages, None)

    def presented(self, entries: pa.Table) -> pa.Table:
        """Return stored entries as `toArrow` shows them. It calls user code, so no read should be held meanwhile."""
        return self._shown(entries, {})

    def toPandas(self, limit: int | None = None, *, flat: bool = True) -> "pd.DataFrame":
        """Return the key fields and the value as a pandas DataFrame as of the txid in ``.attrs["asOfTxid"]``.

        With `flat`, a value with fields becomes one column for each field, such as error, message and tuple of dead
        letters. Such a column has the name of its field, or ``value.field`` if another column has that name. Without
        `flat` such a value is a dict. Whole numbers beside nulls are doubles, as always in pandas, or of dtype
        ``Int64`` if a double would round one of them.
        """
        table = self.toArrow(limit)
        frame = to_frame(spread_structs(table) if flat else table)
        for name, txid in (table.schema.metadata or {}).items():
            frame.attrs[name.decode()] = int(txid)
        return frame

    @property
    def asOfTxid(self) -> int | None:
        """The txid as of which reads return values now; None if they return the latest values, committed or not."""
        if self.isolation == "latest":
            return None
        if self._named is not None:
            return self._named
        committed = self._source.committed(self._source.group_of(self.name))
        return committed if self._batch is None else txid_before(committed)

    @property
    def isPast(self) -> bool:
        """True if reads are as of an earlier batch than the last committed one, or of a batch that the caller named."""
        return self._batch is not None

    @property
    def _named(self) -> int | None:
        """The txid that the caller named by number, time or tag; None for the last committed batch or the one before.

        Raises TxidNotKeptError if the batch of a time is not kept, TagNotFoundError if there is no such tag.
        """
        if isinstance(self._batch, TagName):
            return txid_of_tag(self._source, self.name, self._batch)
        if isinstance(self._batch, Moment):
            return txid_at(self._source, self.name, self._batch)
        return self._batch if isinstance(self._batch, int) else None

    @property
    def keptTxids(self) -> Sequence[int]:
        """The txids as of which `asOf` can read now. The next commit may shorten the range.

        Raises StateError for a nonTransactional state, which has no txids.
        """
        self._source.check()
        read_as_of_batch(self.name, self.kind, 0, "committed")
        return kept_txids(self._source, self.name)

    def asOf(self, batch: int | str | datetime.datetime) -> "StateView":
        """Return a view of the state as of an earlier batch. It can be read as long as the store keeps that batch.

        Parameters
        ----------
        batch : int, str or datetime
            A txid, or a time: the last batch that was committed at or before it, by the driver's clock. A time is a
            text in ISO 8601, such as ``"2026-11-26 09:00"``, in UTC if it has no offset; or a datetime with a time
            zone. Or a tag: a text that begins with ``tag:``, such as ``"tag:month-end"``; see ``RunningTopology.tag``.

        Every state keeps its last committed batch, and the one before until the next one begins to commit. A state in
        memory that `openState` opened keeps all batches since its last snapshot, and a `DeltaMapState` as many as it
        has to by its ``keepTxids`` and ``keepHours``.

        Raises
        ------
        TxidNotKeptError
            Raised by reads: the batch is not kept, or not committed; ``error.kept`` and the message name the range.
        TagNotFoundError
            Raised by reads: the state has no such tag. The message lists its tags.
        StateError
            The state is nonTransactional.
        ValueError
            `batch` is neither a txid nor a time nor a tag; it is a datetime without a time zone; or the time has not
            come yet.

        Examples
        --------
        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> from trident.testing.local import start_local
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
        >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        >>> with start_local(topology, name="past") as running:
        ...     running.processAllAvailable()
        ...     counts = running.state("counts")
        ...     print(counts.keptTxids, counts.asOf(1)["dog"], counts.asOf(2)["dog"])
        range(1, 3) 1 2
        """
        return StateView(self._source, self._description, "committed", batch)

    # --- display ---------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"StateView({self.name!r}, {self.kind.value}, {self._shown_shape()}{self._as_of()})"

    def _repr_html_(self) -> str:
        head = (
            f"<b>{html.escape(self.name)}</b> {html.escape(f'{self.kind.value}, {self._shown_shape()}{self._as_of()}')}"
        )
        try:
            table = self.toArrow(_SHOWN_ROWS)
        except TridentError as error:
            # A notebook cell may show a view whose store cannot be reached: then it shows the table's header, and no
            # traceback.
            return f"<div>{head}<br><i>{html.escape(str(error))}</i></div>"
        rows = html_table(table.column_names, zip(*map(to_python, table.columns), strict=True))
        more = f"<br><i>the first {_SHOWN_ROWS} rows</i>" if table.num_rows == _SHOWN_ROWS else ""
        return f"<div>{head}{rows}{more}</div>"

    def _as_of(self) -> str:
        return ", the latest values" if self.isolation == "latest" else f", as of txid {self.asOfTxid}"

    def _shown_shape(self) -> str:
        fields = [pa.field(self._output, self._shape.value)] if self._parts is None else list(self._shape.value)
        value = ", ".join(f"{quote(field.name)} {type_name(field.type)}" for field in fields)
        return f"{fields_text(self._shape.keys)} -> {value}" if len(self._shape.keys) else value

    # --- reading ---------------------------------------------------------------------------------------------

    def _read(self, keys: list[Any]) -> list[Any]:
        return self._read_as_of(keys)[0] if keys else []

    def _stored(self, key: Any) -> Any:
        """Return the value of one key, which may be presented as None; MISSING if nothing is stored."""
        values, _, stored = self._read_stored([key])
        return MISSING if stored[0] is None else values[0]

    def _read_as_of(self, keys: list[Any]) -> tuple[list[Any], int | None]:
        values, txid, _ = self._read_stored(keys)
        return values, txid

    def _read_stored(self, keys: list[Any], mayWait: bool = True) -> tuple[list[Any], int | None, list[Any]]:
        """Return values as readers see them, the txid as of which they were read, and the values as stored."""
        # Made before the read, which may be repeated, so that a wrong key is refused before any commit is held back.
        table = key_table(self.name, self._shape.keys, keys)
        few = tuples_of(table) if are_few(len(keys)) else None

        def read(snapshot: Snapshot) -> tuple[list[Any] | pa.Array, int | None]:
            found = None if few is None else snapshot.read_few(self.name, few)
            return snapshot.read(self.name, table).values if found is None else found, snapshot.txid(self.name)

        # Presented after the read, because `present` is user code, and no commit must wait for it.
        try:
            found, txid = self._at_one_txid(read, mayWait=mayWait)
            values = found if isinstance(found, list) else to_python(found)
        except OutsideYears as error:
            raise self._unreadable(table, error) from None
        return self._presented(values, table), txid, values

    def _unreadable(self, entries: pa.Table | pa.RecordBatch, error: OutsideYears) -> Exception:
        key = entry_text(entries.select(self._shape.keys.names), error.row)
        return StateValueError(
            f"state {self.name!r}{key and f', {key}'}: it contains the time {error.text}; {OUTSIDE_YEARS}. "
            f"toArrow() can show it; dropState(name, {self.name!r}, ...) removes the state, which then starts empty"
        )

    def _presented(self, values: list[Any], entries: pa.Table | pa.RecordBatch) -> list[Any]:
        return self._values.of(values, entries)

    def _entries(self, limit: int | None) -> pa.Table:
        return self._table(limit)[0]

    def _table(self, limit: int | None) -> tuple[pa.Table, dict[str, int]]:
        """Return all entries that have a value, or `limit` of them, and the metadata that names their txid."""
        self._check_limit(limit)

        def read(snapshot: Snapshot) -> tuple[pa.Table, dict[str, int]]:
            txid = snapshot.txid(self.name)
            # The pages are fetched within the read. After it, commits continue, and the store may no longer have the
            # values of a later page.
            return self._collect(snapshot.scan(self.name), limit), {} if txid is None else {"asOfTxid": txid}

        return self._at_one_txid(read, large=True)

    def _count(self) -> int:
        def read(snapshot: Snapshot) -> int:
            if (count := snapshot.count(self.name)) is not None:
                return count
            pages = snapshot.scan(self.name)
            return sum(page.num_rows - page.column(page.num_columns - 1).null_count for page in pages)

        return self._at_one_txid(read, large=True)

    def _at_one_txid(
        self,
        read: Callable[[Snapshot], _T],
        *,
        large: bool = False,
        mayWait: bool = True,
        beside: Index | None = None,
    ) -> _T:
        """Return the result of `read` for a snapshot of the state, and of the index `beside` it.

        `large`: whether it reads more than a few keys.
        """
        source, states = self._source, [self.name]
        if beside is not None:
            source, states = self._source_with(beside), [self.name, beside.name]
        if (named := self._named) is not None:
            return read_as_of(source, states, named, read)
        if self._batch is not None:
            return read_previous(source, states, read)
        isolation = self.isolation
        return read_consistently(source, states, read, isolation=isolation, large=large, mayWait=mayWait)

    def _source_with(self, index: Index) -> ReadSource:
        """Return a source of reads for the state and one of its indexes."""
        return self._source

    def _check_limit(self, limit: int | None) -> None:
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise ValueError(f"limit={limit!r}: expected a number of rows, or None for all")

    def _collect(self, scan: Iterator[pa.Table], limit: int | None) -> pa.Table:
        """Join the pages of a scan, without keys whose value is null, because a stored null counts as no value."""
        pages, rows = [], 0
        for page in scan:
            entries = page.filter(pc.is_valid(page.column(page.num_columns - 1)))
            pages.append(entries)
            # Counted here, because a limit of the scan itself would count the keys without a value.
            rows += entries.num_rows
            if limit is not None and rows >= limit:
                break
        names = [*self._shape.keys.names, self._output]
        types = [*self._shape.keys.types, self._shape.value]
        empty = pa.schema(list(zip(names, types, strict=True))).empty_table()
        # The empty table is joined too, because a state without entries has no page from which to take names and types.
        table = pa.concat_tables([empty, *[page.rename_columns(names) for page in pages]])
        return table if limit is None else table.slice(0, limit)
