"""The bytes of keys by slot, short and long."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trident_state.memory.key_index import KeyHeap, StoredKeys, heads_of, heap_bytes_of

KEYS = st.one_of(st.binary(max_size=16), st.sampled_from([b"", b"x" * 11, b"x" * 12, b"x" * 13, b"x" * 300]))


def _binary(keys: list[bytes]) -> pa.Array:
    return pa.array([b"before", *keys], pa.binary())[1:]


def _append(heap: KeyHeap, stored: StoredKeys, keys: list[bytes]) -> StoredKeys:
    more = heap.append(stored, _binary(keys))
    growth = sum(len(key) + 8 for key in keys if len(key) > 12)
    assert more.heap_bytes - stored.heap_bytes == heap_bytes_of(_binary(keys)) == growth
    return more


def _stored(keys: list[bytes]) -> StoredKeys:
    heap = KeyHeap()
    return _append(heap, heap.view(0, 0, 0), keys)


@given(st.lists(st.lists(KEYS, max_size=30), max_size=8))
def test_keys_come_out_as_they_went_in(batches: list[list[bytes]]) -> None:
    heap, keys = KeyHeap(), list[bytes]()
    stored = heap.view(0, 0, 0)
    views = []
    for batch in batches:
        _append(heap, stored, [b"an append", b"after which something failed"])
        stored = _append(heap, stored, batch)
        keys += batch
        views.append((stored, len(keys)))
    for view, count in views:
        assert view.take(slice(None)).to_pylist() == keys[:count]
        assert view.take(slice(1, 5)).to_pylist() == keys[:count][1:5]
        slots = np.random.default_rng(count).permutation(count)
        found = view.take(slots)
        found.validate(full=True)
        assert found.type == pa.binary() and found.to_pylist() == [keys[slot] for slot in slots]


@given(st.lists(KEYS, min_size=1, max_size=30), st.lists(KEYS, min_size=1, max_size=30))
def test_a_key_is_the_same_where_its_bytes_are(stored: list[bytes], asked: list[bytes]) -> None:
    slots = np.arange(len(asked)) % len(stored)
    same = _stored(stored).equal(_binary(asked), heads_of(_binary(asked)), slots)
    assert same.tolist() == [key == stored[slot] for key, slot in zip(asked, slots, strict=True)]


def test_keys_that_differ_in_length_or_in_one_byte_are_told_apart() -> None:
    """Zeros fill a head up; the first bytes of a long key are in its head."""
    keys = [
        b"",
        b"\0",
        b"\0" * 12,
        b"\0" * 13,
        b"a" * 12,
        b"a" * 13,
        b"a" * 12 + b"b",
        b"a" * 11 + b"b",
        b"b" + b"a" * 12,
    ]
    for slot, key in enumerate(keys):
        asked = _binary([key] * len(keys))
        same = _stored(keys).equal(asked, heads_of(asked), np.arange(len(keys)))
        assert same.nonzero()[0].tolist() == [slot]
