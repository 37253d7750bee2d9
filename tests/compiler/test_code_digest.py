"""Digests of what a user gave a step: two of them differ only where the values mean something else."""

import datetime
import enum
import functools
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from trident import Filter
from trident.compiler.code_digest import digest, traits


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Config:
    factor: int
    names: list[str]


class Keep(Filter):
    def __init__(self, word: Any) -> None:
        self.word = word

    def isKeep(self, tuple: Any) -> bool:
        return bool(tuple.word == self.word)


class Slotted:
    __slots__ = ("word",)

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, word: str) -> bool:
        return word == self.word


class Picker:
    def __init__(self, word: str) -> None:
        self.word = word

    def pick(self, word: str) -> bool:
        return word == self.word


class Longest:
    """An aggregator, which has no base class and cannot be called."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def init(self, tuple: Any) -> Any:
        return tuple


def closing(over: Any) -> Any:
    return lambda word: word == over


def defaulting(to: Any) -> Any:
    return lambda word, to=to: word == to


def only_by_keyword(to: Any) -> Any:
    def function(word: str, *, to: Any = to) -> bool:
        return bool(word == to)

    return function


def nested(over: Any) -> Any:
    def outer(words: list[str]) -> Any:
        return [each for each in words if (lambda word: word == over)(each)]

    return outer


def of_a_local_class(over: Any) -> Any:
    class Local:
        def isKeep(self, tuple: Any) -> bool:
            return bool(tuple.word == over)

    return Local()


def wrapping(over: Any) -> Any:
    @functools.wraps(closing)
    def wrapped(word: str) -> Any:
        return closing(over)(word)

    return wrapped


def marked(mark: Any) -> Any:
    def function(word: str) -> str:
        return word

    function.mark = mark  # type: ignore[attr-defined]
    return function


def same(word: Any, to: Any) -> bool:
    return bool(word == to)


WAYS = {
    "a closure": closing,
    "a default": defaulting,
    "a keyword's default": only_by_keyword,
    "a function within": nested,
    "a method of a local class": of_a_local_class,
    "a wrapped function": wrapping,
    "a function's attribute": marked,
    "a partial": lambda to: functools.partial(same, to),
    "a partial's keyword": lambda to: functools.partial(same, to=to),
    "an object": Keep,
    "an object with slots": Slotted,
    "an aggregator": Longest,
    "a bound method": lambda to: Picker(to).pick,
    "a method of a value": lambda to: str(to).startswith,
    "a closure over an object": lambda to: closing(Keep(to)),
    "a closure over an aggregator": lambda to: closing(Longest(to)),
    "a closure over a closure": lambda to: closing(closing(to)),
    "a closure over a dataclass": lambda to: closing(Config(1, [to])),
}


@pytest.mark.parametrize("way", WAYS)
def test_functions_and_objects_are_told_apart_by_the_values_that_they_hold(way: str) -> None:
    make = WAYS[way]
    assert dict(traits(make("rome"))) == dict(traits(make("rome")))
    assert dict(traits(make("rome"))) != dict(traits(make("oslo")))


VALUES = [
    *(None, True, False, 0, 1, 1.0, 2.5, "1", b"1", "a", "b", Colour.RED, Colour.BLUE),
    *((1, 2), (2, 1), [1, 2], {1, 2}, {1, 3}, frozenset({1, 2}), {"a": 1}, {"a": 2}, {"b": 1}),
    *(Config(1, ["a"]), Config(1, ["b"]), datetime.date(2024, 1, 1), datetime.timedelta(seconds=1)),
    *(re.compile("a"), re.compile("a", re.IGNORECASE), str, int, len, abs, str.lower, str.upper, os, sys),
    *(range(3), range(4), Ellipsis, 1j),
]


def test_values_are_told_apart_by_type_and_content() -> None:
    found = [digest(value) for value in VALUES]
    assert len(set(found)) == len(VALUES)
    assert [each for each, value in zip(found, VALUES, strict=True) if each.endswith("?")] == [digest(Ellipsis)]


def test_the_order_of_a_dictionary_or_a_set_says_nothing() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({8, 0}) == digest({0, 8})


def test_code_is_told_apart_by_the_names_that_it_calls_and_by_every_constant() -> None:
    texts = [
        "upper(w)",
        "title(w)",
        "w + 'a'",
        "w + 'b'",
        "w in ('a', 'b')",
        "w in ('a', 'c')",
        "w + b'a'",
        "w.x",
        "w.y",
    ]
    assert len({dict(traits(eval(f"lambda w: {text}")))["code"] for text in texts}) == len(texts)


def test_what_is_not_plain_data_counts_by_its_type_and_is_marked() -> None:
    """A lock, a connection, an object of a user's own: these differ at each start, or say nothing of themselves."""
    assert digest(threading.Lock()) == digest(threading.Lock())
    assert digest(Picker("rome")) == digest(Picker("oslo"))
    assert digest(closing(object())).endswith("?")
    assert not digest(closing("rome")).endswith("?")
    by_trait = dict(traits(Keep([object()])))
    assert {name: value.endswith("?") for name, value in by_trait.items()} == {
        "class": False,
        "the attribute word": True,
    }


def test_a_value_that_holds_itself_or_is_very_large_has_a_digest_too() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert digest(ring) == digest(ring)
    assert not digest(ring).endswith("?")

    def again(n: int) -> int:
        return n and again(n - 1)

    assert digest(again) == digest(again)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert digest(deep).endswith("?")
    assert digest(list(range(1_000_000))).endswith("?")


def test_another_process_finds_the_same_digests() -> None:
    program = (
        "from tests.compiler.test_code_digest import *\n"
        "print([digest({'a', 'b', 'c', 'd'}), digest(closing({'x': {'a', 'b'}})), digest(Keep('a')), digest(same), "
        "digest(lambda w: w in {'a', 'b', 'c'}), digest(of_a_local_class(object()))])"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
