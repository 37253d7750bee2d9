"""Equals and Negate, on both engines and by themselves."""

import copy
import math
from typing import Any

import pytest

from trident import Equals, Filter, FilterNull, Negate
from trident.base.errors import TopologyError


@pytest.mark.parametrize(
    ("values", "kept"),
    [((1, 1, 1), True), ((1, 2, 2), False), ((2, 2, 1), False), ((None, None), True), ((None, 1), False), ((), True)],
)
def test_equals_compares_all_fields(values: tuple[Any, ...], kept: bool) -> None:
    assert Equals().isKeep(values) is kept


def test_nan_equals_nan_as_in_groups() -> None:
    assert Equals().isKeep((math.nan, float("nan"))) is True


def test_negate_takes_a_filter_and_a_callable() -> None:
    assert Negate(FilterNull()).isKeep((None, 1)) is True
    assert Negate(lambda a, b: a < b).isKeep((1, 2)) is False


class Prepared(Filter):
    def prepare(self, context: Any) -> None:
        self.context = context

    def isKeep(self, tuple: Any) -> bool:
        return bool(self.context == tuple[0])


def test_the_life_of_a_negated_filter_is_its_own() -> None:
    negated = copy.deepcopy(Negate(Prepared()))
    negated.prepare("here")
    assert negated.isKeep(("there",)) is True and not hasattr(Negate(FilterNull()), "prepare")


@pytest.mark.parametrize("wrong", [5, FilterNull, "isalpha"])
def test_what_is_no_filter_cannot_be_negated(wrong: Any) -> None:
    with pytest.raises(TopologyError, match="Negate takes a Filter or a callable"):
        Negate(wrong)
