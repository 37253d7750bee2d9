"""A tuple as operations see it."""

import gc
import pickle

import pytest

from trident.errors import FieldNotFoundError
from trident.operations.tuples import TridentTuple, tuple_type


def test_values_are_found_by_name_and_by_position() -> None:
    t = TridentTuple(word="dog", n=2)
    assert (t.word, t["n"], t[0], t[-1], t[0:1], list(t), len(t)) == ("dog", 2, "dog", 2, ("dog",), ["dog", 2], 2)
    assert t == ("dog", 2)
    assert repr(t) == "TridentTuple(word='dog', n=2)"


def test_fields_named_like_methods_of_a_tuple_are_fields() -> None:
    t = tuple_type(("count", "index", "class", "a b"))([1, 2, 3, 4])
    assert (t.count, t.index, t["class"], t["a b"]) == (1, 2, 3, 4)


def test_fields_named_like_python_s_own_attributes_are_found_by_subscript() -> None:
    t = tuple_type(("__class__", "_trident_fields"))([1, 2])
    assert (t["__class__"], t["_trident_fields"]) == (1, 2)
    assert isinstance(t, TridentTuple)


def test_it_cannot_be_changed() -> None:
    t = TridentTuple(word="dog")
    with pytest.raises(AttributeError):
        t.word = "cat"
    with pytest.raises(AttributeError):
        t.other = "cat"
    with pytest.raises(TypeError):
        t["word"] = "cat"  # type: ignore[index]


def test_a_field_that_is_not_there_is_named_with_those_that_are() -> None:
    t = TridentTuple(word="dog", n=2)
    message = "the tuple has no field 'wrod'; its fields are (word, n); did you mean 'word'?"
    with pytest.raises(FieldNotFoundError) as by_name:
        t["wrod"]
    with pytest.raises(AttributeError) as by_attribute:
        _ = t.wrod
    assert str(by_name.value) == str(by_attribute.value) == message
    with pytest.raises(AttributeError, match=r"fields are \(word, n\); a value is t\['word'\] or t\[0\]"):
        t.getStringByField("word")
    with pytest.raises(IndexError):
        t[2]


def test_it_travels_by_pickle_with_its_names() -> None:
    t = pickle.loads(pickle.dumps(TridentTuple(word="dog", n=None)))  # noqa: S301
    assert (t.word, t.n, type(t)) == ("dog", None, tuple_type(("word", "n")))


def test_a_maker_is_made_whole_whenever_the_collector_runs() -> None:
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for at in range(300):
            assert tuple_type((f"word{at}",))(["dog"])[f"word{at}"] == "dog"
    finally:
        gc.set_threshold(*before)
