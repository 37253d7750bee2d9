"""Windows by count: the tuples that wait for a later window, and the windows that a batch completes.

The tuples of a group are numbered from 0. The state holds the tuples that later windows need: the last ones together
with the group's count in the head (part -1), and those before them in parts of a fixed size. A part is written once,
when it is full, so that a batch rewrites little.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from trident.base.spark_types import arrow_schema, select
from trident.compiler.columns.columns import Column, Columns, is_mutable, made_tuples
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import RunWindow, WindowBatch
from trident.compiler.states.updates import Updated, entering
from trident.compiler.windows.aggregator_calls import Results, where_of
from trident.compiler.windows.tuple_lists import TupleLists, flattened
from trident.operations.tuples import tuple_type
from trident.operations.windows import CountWindow
from trident.plan.nodes import Window

PART = 256
"""The number of tuples in one full part."""

HEAD = -1
"""The number of the part that holds a group's count and its last tuples (the head)."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """The numbers of the tuples that a group of a count window holds when it has seen `seen` tuples."""

    length: int
    slide: int

    def next(self, seen: int) -> int:
        """Return the count at which the next window is complete."""
        return (seen // self.slide + 1) * self.slide

    def first(self, seen: int) -> int:
        """Return the number of the first tuple that a later window needs."""
        return max(0, self.next(seen) - self.length)

    def head(self, seen: int) -> int:
        """Return the number of the first tuple in the head, which is stored with the count."""
        return max(self.first(seen), seen // PART * PART)

    def parts(self, seen: int) -> range:
        """Return the numbers of the stored parts, which are all full. The head, which is not full, comes after them."""
        return range(min(self.first(seen), seen) // PART, seen // PART)


def tuple_lists(node: Window) -> TupleLists:
    """Return the format in which a count window stores its tuples."""
    value = shape_of(node).value
    return TupleLists(value.field("tuples").type, arrow_schema(select(node.source.schema, node.inputs)))


def count_update(node: Window) -> RunWindow:
    """Return the function that updates a count window."""
    config = node.windowing.config
    assert isinstance(config, CountWindow)
    numbering, held, where = Numbering(config.length, config.slide), tuple_lists(node), where_of(node)
    shape, group = shape_of(node), nullable(arrow_schema(select(node.source.schema, node.group)))
    fields = arrow_schema(select(node.source.schema, [*node.group, *(n for n in node.inputs if n not in node.group)]))
    puts_schema = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
    leaving, maker = nullable(arrow_schema(node.outputs)), tuple_type(node.inputs)

    def update(table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        tuples = entering(table, fields)
        if not tuples.rows:
            return Updated(puts_schema.empty_table(), leaving.empty_table())
        index = KeyNumbers(group.types)
        groups = index.numbers([tuples[name] for name in node.group], tuples.rows)
        keys = index.named(node.group)
        waiting = _GroupTuples(numbering, held, keys, shape.keys, stored)
        waiting.take_in(tuples, groups)
        results = Results(node.windowing, where)
        waiting.fire(results, maker)
        outputs = results.columns()
        emitted = keys.take(results.origins).plus({name: outputs[name] for name in outputs.names})
        return Updated(waiting.puts(puts_schema), emitted.table(leaving))

    return update


class _GroupTuples:
    """The waiting tuples of the groups that have tuples in a batch.

    One array holds the tuples of all groups; the tuples of a group are given by their positions in the array.
    """

    def __init__(
        self, numbering: Numbering, lists: TupleLists, keys: Columns, fields: pa.Schema, stored: Stored
    ) -> None:
        self._numbering, self._held, self._keys, self._fields = numbering, lists, keys, fields
        self._stored = stored
        self._elements = pa.array([], lists.kind.value_type)
        self._seen: list[int] = []
        """For each group the number of tuples before this batch."""
        self._totals: list[int] = []
        """For each group the number of tuples including this batch."""
        self._tuples: list[list[int]] = []
        """The positions of each group's tuples, in order. The batch's own tuples come last."""

    def take_in(self, tuples: Columns, groups: list[int]) -> None:
        """Read the stored tuples of the groups, and append the batch's tuples."""
        new: list[list[int]] = [[] for _ in range(self._keys.rows)]
        for row, group in enumerate(groups):
            new[group].append(row)
        heads = self._read(range(self._keys.rows), [HEAD] * self._keys.rows)
        self._seen = heads.field(0).fill_null(0).to_pylist()
        self._totals = [seen + len(rows) for seen, rows in zip(self._seen, new, strict=True)]
        wanted = [(group, part) for group in range(len(new)) for part in self._needed(group)]
        parts = self._read([group for group, _ in wanted], [part for _, part in wanted])
        lists = pa.concat_arrays([parts.field(1), heads.field(1)])
        elements, ends = flattened(lists)
        self._elements = pa.concat_arrays([elements, self._held.elements(tuples)])
        self._tuples = [[] for _ in new]
        for number, group in enumerate([*(group for group, _ in wanted), *range(len(new))]):
            self._tuples[group] += range(ends[number], ends[number + 1])
        for group, rows in enumerate(new):
            self._tuples[group] += [len(elements) + row for row in rows]

    def fire(self, results: Results, maker: Callable[[Iterable[Any]], Any]) -> None:
        """Call the aggregator for every window that the batch completes, in the order of the completing tuples."""
        length, slide = self._numbering.length, self._numbering.slide
        windows: list[tuple[int, int, int, list[int]]] = []
        for group, tuples in enumerate(self._tuples):
            seen, total = self._seen[group], self._totals[group]
            base = total - len(tuples)
            for end in range(self._numbering.next(seen), total + 1, slide):
                inside = tuples[max(0, end - length) - base : end - base]
                windows.append((inside[-1], group, end // slide, inside))
        if not windows:
            return
        windows.sort()
        needed = np.unique(np.concatenate([np.asarray(inside) for *_, inside in windows]))
        used = self._held.tuples(self._elements.take(pa.array(needed)))
        rows = list(made_tuples(maker, used.lists(used.names), len(needed)))
        changeable = any(map(is_mutable, self._held.inputs.types))
        for _, group, number, inside in windows:
            at = np.searchsorted(needed, inside).tolist()
            if changeable:  # an aggregator that changes a tuple's list must not change another window
                own = used.take(at)
                results.add(list(made_tuples(maker, own.lists(own.names), own.rows)), number, group)
            else:
                results.add([rows[row] for row in at], number, group)

    def puts(self, schema: pa.Schema) -> pa.Table:
        """Return the changes of the state for the groups of this batch."""
        groups: list[int] = []
        parts: list[int] = []
        counts: list[int | None] = []
        ids: list[int] = []
        ends = [0]
        removed: list[bool] = []

        def put(group: int, part: int, count: int | None, tuples: Iterable[int] | None) -> None:
            groups.append(group)
            parts.append(part)
            counts.append(count)
            ids.extend(tuples or ())
            ends.append(len(ids))
            removed.append(tuples is None)

        for group, tuples in enumerate(self._tuples):
            seen, total = self._seen[group], self._totals[group]
            base, first = total - len(tuples), self._numbering.first(total)
            put(group, HEAD, total, tuples[self._numbering.head(total) - base :])
            for part in self._numbering.parts(total):
                if part >= seen // PART:
                    put(group, part, None, tuples[max(part * PART, first) - base : (part + 1) * PART - base])
            for part in self._numbering.parts(seen):
                if (part + 1) * PART <= first:
                    put(group, part, None, None)
        lists = self._held.lists(self._elements, ids, ends)
        kind = schema.field(len(schema) - 1).type
        values = pa.StructArray.from_arrays(
            [pa.array(counts, pa.int64()), lists], fields=list(kind), mask=pa.array(removed, pa.bool_())
        )
        keys = self._keys.take(groups).plus({self._fields.names[-1]: Column.made(parts, pa.int64())})
        return keys.plus({schema.names[-1]: Column(kind, values, None)}).table(schema)

    # --- small things ----------------------------------------------------------------------------------------------

    def _needed(self, group: int) -> range:
        """Return the parts to read: those of the first window that the batch completes; none if it completes none."""
        seen = self._seen[group]
        return self._numbering.parts(seen) if self._numbering.next(seen) <= self._totals[group] else range(0)

    def _read(self, groups: Iterable[int], parts: list[int]) -> pa.Array:
        keys = self._keys.take(list(groups)).plus({self._fields.names[-1]: Column.made(parts, pa.int64())})
        return self._stored.read(keys.table(self._fields))
