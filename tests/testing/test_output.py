"""TestOutput: what it keeps of its hand-overs."""

import pyarrow as pa
import pytest

from trident.testing import HandOver, TestOutput


def words(*values: str) -> pa.Table:
    return pa.table({"word": list(values)})


def test_it_keeps_every_hand_over_and_counts_each_batch_once() -> None:
    output = TestOutput()
    for txid, attempt, table in ((1, 0, words("a")), (2, 0, words("b", "c")), (2, 1, words("c", "b"))):
        output(table, txid, attempt)
    assert output.batches == [
        HandOver(1, 0, [("a",)]),
        HandOver(2, 0, [("b",), ("c",)]),
        HandOver(2, 1, [("c",), ("b",)]),
    ]
    assert output.rows == [("a",), ("b",), ("c",)]
    assert output.repeated == [2]
    assert repr(output) == "TestOutput(3 hand-overs)"
    output.clear()
    assert (output.batches, output.rows, output.repeated) == ([], [], [])


def test_a_batch_that_comes_again_with_other_rows_is_an_error() -> None:
    output = TestOutput()
    output(words("a"), 1, 0)
    output(words("a", "b"), 1, 1)
    with pytest.raises(AssertionError, match=r"batch 1 was handed over with other rows: \[Row\(word='a'\)\] in "):
        _ = output.rows


def test_rows_show_values_as_functions_see_them() -> None:
    output = TestOutput()
    kind = pa.map_(pa.string(), pa.int64())
    output(pa.table({"by": pa.array([[("a", 1)]], kind), "at": pa.array([{"n": 2}])}), 1, 0)
    assert (output.rows[0].by, output.rows[0]["at"].n) == ({"a": 1}, 2)
