"""The hash table in NumPy arrays, against a dict."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident_state.keys import hash_keys
from trident_state.memory.key_index import Hashes, KeyIndex


def _binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


def _insert(index: KeyIndex, keys: list[bytes], hashes: Hashes | None = None) -> list[int]:
    encoded = _binary(keys)
    return list(index.insert(encoded, hash_keys(encoded) if hashes is None else hashes))


def _find(index: KeyIndex, keys: list[bytes]) -> list[int]:
    encoded = _binary(keys)
    return list(index.keys.find(encoded, hash_keys(encoded)))


@given(st.lists(st.sets(st.binary(max_size=6) | st.binary(min_size=11, max_size=14), max_size=40), max_size=12))
def test_keys_keep_the_slots_they_got(batches: list[set[bytes]]) -> None:
    index, expected = KeyIndex(), dict[bytes, int]()
    for batch in batches:
        assert _find(index, list(batch)) == [expected.get(key, -1) for key in batch]
        new = [key for key in batch if key not in expected]
        expected.update(zip(new, range(len(expected), len(expected) + len(new)), strict=True))
        assert _insert(index, new) == [expected[key] for key in new]
    everything = [*expected, b"never there"]
    assert _find(index, everything) == [*expected.values(), -1]
    assert index.keys.stored.take(slice(None)).to_pylist() == list(expected)
    assert len(index) == len(expected) and index.keys.stored.heap_bytes == sum(
        len(key) + 8 for key in expected if len(key) > 12
    )


@pytest.mark.parametrize("size", [1, 500, 5_000])
@pytest.mark.parametrize("step", [1, 97, 10_000])
def test_the_table_grows_with_its_keys(size: int, step: int) -> None:
    index, keys = KeyIndex(), [b"%d" % n for n in range(size)]
    for at in range(0, size, step):
        _insert(index, keys[at : at + step])
    assert _find(index, keys) == list(range(size))
    assert set(_find(index, [b"x" + key for key in keys])) == {-1}


@pytest.mark.parametrize("hash_", [0, 1, 2**64 - 1, 0xFFFFFFFF, 0xFFFFFFFF00000000], ids=hex)
def test_keys_of_one_hash_are_told_apart(hash_: int) -> None:
    """Whatever the hash, also where the places run over the end of the table."""
    index, keys = KeyIndex(), [b"k%d" % n for n in range(700)]
    same = np.full(len(keys), hash_, np.uint64)
    _insert(index, keys[:300], same[:300])  # one by one into a table with room
    _insert(index, keys[300:], same[300:])  # laid out anew
    assert index.keys.find(_binary(keys), same).tolist() == list(range(700))
    assert index.keys.find(_binary([b"other"]), same[:1]).tolist() == [-1]


def test_a_reader_sees_the_keys_that_were_there_when_it_began() -> None:
    index = KeyIndex()
    first, later = [b"a%d" % n for n in range(400)], [b"b%d" % n for n in range(3_000)]
    _insert(index, first)
    keys = index.keys
    _insert(index, later[:50])  # into the same table
    _insert(index, later[50:])  # into another, larger one
    encoded = _binary([*first, *later])
    assert keys.find(encoded, hash_keys(encoded)).tolist() == [*range(400), *[-1] * 3_000]
    assert _find(index, [*first, *later]) == list(range(3_400))
