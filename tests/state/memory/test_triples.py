"""Triples by slot, of every type."""

import numpy as np
import pyarrow as pa
import pytest

from tests.state.memory.test_value_columns import MORE
from trident.testing.contracts.stores.values import TYPES
from trident_state.memory.entries import Cells, Column, Rows, Triples


def _triples(column: Column, values: pa.Array, prevs: pa.Array | None, txid: int = 7) -> Triples:
    txids = np.arange(txid, txid + len(values))
    return Triples(txids, column.pack(values), None if prevs is None else column.pack(prevs))


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("name", [*TYPES, *MORE])
def test_what_is_put_into_slots_is_taken_out_of_them(name: str, versioned: bool) -> None:
    kind, samples = {**TYPES, **MORE}[name]
    values = pa.array([None, *samples, None, samples[0]], kind)[1:]
    prevs = values[::-1]
    column = Column(kind)
    rows = Rows(column, versioned)
    rows.reserve(4)
    rows.reserve(50)
    slots = np.arange(len(values))[::-1] * 3 + 1
    rows.put(slots, _triples(column, values, prevs if versioned else None))
    rows.reserve(90)

    def column_of(cells: Cells | None) -> pa.Array:
        assert cells is not None
        unpacked = column.unpack(cells)
        unpacked.validate(full=True)
        return unpacked

    found = rows.take(slots)
    assert found.txids.tolist() == list(range(7, 7 + len(values)))
    assert column_of(found.values).equals(values)
    assert (found.prevs is not None) == versioned and (not versioned or column_of(found.prevs).equals(prevs))
    nothing = rows.take(np.array([0, 49, 80]))
    assert nothing.txids.tolist() == [0, 0, 0]
    assert column_of(nothing.values).to_pylist() == [None] * 3
    first = rows.take(slice(0, 3))
    assert column_of(first.values)[1:2].equals(values[-1:]) and first.txids.tolist() == [0, 6 + len(values), 0]
    assert rows.txids(2).tolist() == [0, 6 + len(values)]
    assert rows.has_value(2).tolist() == [False, values[-1].is_valid]


@pytest.mark.parametrize("slots", [slice(0, 2), np.array([0, 1])], ids=["slice", "slots"])
def test_what_was_taken_does_not_change_any_more(slots: slice | np.ndarray) -> None:
    for kind, before, after in ((pa.int64(), [1, None], [7, 8]), (pa.string(), ["a", None], ["b", "c"])):
        column = Column(kind)
        rows = Rows(column, True)
        rows.reserve(2)
        both = np.array([0, 1])
        rows.put(both, _triples(column, pa.array(before, kind), pa.array([None, None], kind)))
        taken = rows.take(slots)
        rows.put(both, _triples(column, pa.array(after, kind), pa.array(before, kind), 9))
        assert taken.txids.tolist() == [7, 8] and taken.prevs is not None
        assert column.unpack(taken.values).to_pylist() == before
        assert column.unpack(taken.prevs).to_pylist() == [None, None]
