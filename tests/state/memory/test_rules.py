"""The value rule over columns, apart from any store."""

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trident.base.errors import BatchFailedError, SnapshotMovedError, StateValueError, UserFunctionError
from trident_state.state_shape import Combine
from trident_state.value_rules import as_of, combined

LEAST, MOST = Combine("Min", min, "min"), Combine("Max", max, "max")
TOTAL = Combine("Sum", lambda a, b: a + b, "sum")
MONDAY, TUESDAY = datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)


def one(combine: Combine, kind: pa.DataType, stored: Any, delta: Any) -> Any:
    result = combined(combine, pa.array([stored], kind), pa.array([delta], kind))
    assert result.type == kind
    return result[0].as_py()


@pytest.mark.parametrize(
    ("kind", "less", "more"),
    [
        (pa.int8(), -1, 1),
        (pa.float32(), -0.5, math.inf),
        (pa.decimal128(5, 2), Decimal("-1.00"), Decimal("0.01")),
        (pa.string(), "Z", "a"),
        (pa.binary(), b"a", b"a\x00"),
        (pa.bool_(), False, True),
        (pa.date32(), MONDAY, TUESDAY),
        (pa.timestamp("us"), datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 0, 1)),
        (pa.float64(), 1e308, math.nan),
    ],
    ids=str,
)
def test_min_and_max_follow_sparks_order(kind: pa.DataType, less: Any, more: Any) -> None:
    for stored, delta in ((less, more), (more, less)):
        assert repr(one(LEAST, kind, stored, delta)) == repr(less)
        assert repr(one(MOST, kind, stored, delta)) == repr(more)
    for combine in (LEAST, MOST):
        assert one(combine, kind, less, less) == less
        assert (one(combine, kind, less, None), one(combine, kind, None, less)) == (less, less)
        assert one(combine, kind, None, None) is None


def test_decimals_add_up_to_their_last_digit_and_no_further() -> None:
    kind = pa.decimal128(38, 2)
    most = Decimal("9" * 36 + ".99")
    assert one(TOTAL, kind, most, Decimal("-0.01")) == Decimal("9" * 36 + ".98")
    with pytest.raises(StateValueError, match=r"a state: Sum of the stored Decimal\('9+\.99'\)"):
        one(TOTAL, kind, most, Decimal("0.01"))


def test_an_overflow_names_the_two_values_that_made_it() -> None:
    stored = pa.array([*[1] * 700, 120, 1, 127], pa.int8())
    deltas = pa.array([*[1] * 700, 100, 1, 127], pa.int8())
    with pytest.raises(StateValueError) as caught:
        combined(TOTAL, stored, deltas, "state 'counts'")
    assert str(caught.value) == (
        "state 'counts': Sum of the stored 120 and the batch's 100 does not fit its type tinyint; nothing of the "
        "batch was applied. The batch stays in the log: drop this state (with dropState, it starts empty after the "
        "batch), or discard log and all states (topology.reset or the command trident reset); then declare a wider "
        "type for the aggregator's output, or filter such values out"
    )


def test_where_the_type_has_no_native_form_the_function_is_called() -> None:
    joined = Combine("Join", lambda a, b: a + b, "sum")
    assert one(joined, pa.string(), "a", "b") == "ab"
    assert one(Combine("Max", max, "max"), pa.list_(pa.int64()), [1, 2], [1, 3]) == [1, 3]


def test_a_function_that_raises_is_named_with_what_it_was_given() -> None:
    def broken(stored: int, delta: int) -> int:
        raise RuntimeError(f"not {delta}")

    with pytest.raises(UserFunctionError) as caught:
        combined(Combine("Mine", broken), pa.array([None, 3]), pa.array([1, 4]), "state 'counts'")
    assert isinstance(caught.value.__cause__, RuntimeError)
    line = broken.__code__.co_firstlineno
    assert str(caught.value) == (
        f"state 'counts': combine of Mine, broken (test_rules.py:{line}), raised RuntimeError: not 4; "
        "it was called with the stored int 3 and the batch's int 4; nothing of the batch was applied"
    )


def test_an_error_of_this_library_passes_as_it_is() -> None:
    error = BatchFailedError("a function that knows where it stands")

    def known(stored: int, delta: int) -> int:
        raise error

    with pytest.raises(BatchFailedError) as caught:
        combined(Combine("Mine", known), pa.array([3]), pa.array([4]))
    assert caught.value is error


@pytest.mark.parametrize("given", [1.5, "1", True, 2**63, [1]], ids=repr)
def test_a_result_of_another_type_is_neither_cast_nor_cut(given: Any) -> None:
    with pytest.raises(
        StateValueError,
        match=rf"Mine.*returned {type(given).__name__}.*the state has values of "
        rf"type bigint",
    ):
        combined(Combine("Mine", lambda stored, delta: given), pa.array([3, 3]), pa.array([4, 4]))


def test_as_of_takes_the_value_or_the_one_before_or_nothing() -> None:
    txids = np.array([3, 5, 6, -1])
    values, prevs = pa.array([30, 50, 60, None]), pa.array([29, 49, None, None])
    assert as_of(5, txids, values, prevs).to_pylist() == [30, 50, None, None]
    assert as_of(6, txids, values, prevs).to_pylist() == [30, 50, 60, None]
    with pytest.raises(SnapshotMovedError, match="state 'x' cannot be read as of txid 4: txid 6"):
        as_of(4, txids, values, prevs, "state 'x'")
    assert as_of(4, txids[:0], values[:0], prevs[:0]).to_pylist() == []
