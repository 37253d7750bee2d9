"""PollingSpout: functions from a position to rows, and growing lists, as an opaque spout."""

from typing import Any

import pytest

from tests.support.plans import logged
from trident.errors import SpoutContractError, TopologyError, UserFunctionError
from trident.spouts import PollingSpout, SpoutKind, TransactionAttempt
from trident_spouts.executor import Metadata, SpoutExecutor


def batch(executor: SpoutExecutor, txid: int, position: Metadata) -> tuple[list[Any], Metadata] | None:
    plan = executor.plan(TransactionAttempt(txid, 0), position, 0.0)
    if plan is None:
        return None
    emission = executor.emit(TransactionAttempt(txid, 0), logged(plan))
    return emission.arrow().column(0).to_pylist(), logged(emission.after)


def test_a_list_is_read_from_where_it_was_and_may_grow() -> None:
    rows = [1, 2, 3]
    executor = PollingSpout("n long", {"p": rows}, maxRows=2).open()
    assert (first := batch(executor, 1, None)) == ([1, 2], {"positions": {"p": 2}})
    assert (second := batch(executor, 2, first[1])) == ([3], {"positions": {"p": 3}})
    assert batch(executor, 3, second[1]) is None
    rows.append(4)
    assert batch(executor, 3, second[1]) == ([4], {"positions": {"p": 4}})


def test_a_function_gets_its_own_position_back_as_json() -> None:
    asked: list[Any] = []

    def fetch(position: Any, limit: int) -> tuple[list[str], dict[str, Any]]:
        asked.append((position, limit))
        page = 0 if position is None else position["page"]
        return [f"row {page}"], {"page": page + 1}

    executor = PollingSpout("line string", {"api": fetch}, maxRows=7).open()
    first = batch(executor, 1, None)
    assert first == (["row 0"], {"positions": {"api": {"page": 1}}})
    assert batch(executor, 2, first[1]) == (["row 1"], {"positions": {"api": {"page": 2}}})
    assert asked == [(None, 7), ({"page": 1}, 7)]


def test_partitions_may_come_and_go() -> None:
    there: dict[str, Any] = {"a": [1, 2]}
    executor = PollingSpout("n long", lambda: dict(there), maxRows=1).open()
    first = batch(executor, 1, None)
    assert first is not None
    there.clear()
    there["b"] = [7]
    second = batch(executor, 2, first[1])
    assert second == ([7], {"positions": {"a": 1, "b": 1}})
    there["a"] = [1, 2]
    assert batch(executor, 3, second[1]) == ([2], {"positions": {"a": 2, "b": 1}})


def test_it_is_opaque_and_says_what_it_has() -> None:
    spout = PollingSpout("n long", {"p": [1]})
    assert spout.kind is SpoutKind.OPAQUE
    assert repr(spout) == "PollingSpout('n bigint', {'p'}, maxRows=10000)"


def test_a_function_that_raises_is_named_with_its_partition_and_line() -> None:
    def fetch(position: Any, limit: int) -> Any:
        raise ConnectionError("refused")

    with pytest.raises(UserFunctionError) as caught:
        PollingSpout("n long", {"orders": fetch}).open().plan(TransactionAttempt(1, 0), None, 0.0)
    assert "PollingSpout, partition 'orders': fetch (test_polling.py:" in str(caught.value)
    assert "raised ConnectionError: refused; it was called with (None, 10000)" in str(caught.value)


@pytest.mark.parametrize(
    ("partition", "position", "said"),
    [
        ([1], 5, "PollingSpout, partition 'p': its position is 5, but its list has 1 rows; only append to the list"),
        (lambda position, limit: [1], None, "<lambda> (test_polling.py:"),
        (lambda position, limit: ([1], {2}), None, "expected JSON, which the log can keep"),
        (
            lambda position, limit: (["x"], 1),
            None,
            "PollingSpout, partition 'p', row 0, field 'n': expected bigint, got 'x' (str)",
        ),
    ],
)
def test_what_a_partition_gives_is_checked(partition: Any, position: Any, said: str) -> None:
    executor = PollingSpout("n long", {"p": partition}).open()
    with pytest.raises(SpoutContractError) as caught:
        executor.plan(TransactionAttempt(2, 0), {"positions": {"p": position}}, 0.0)
    assert said in str(caught.value)


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(TopologyError, match="expected a mapping of partition names to functions or lists"):
        PollingSpout("n long", [1, 2])  # type: ignore[arg-type]


def test_a_partitions_function_in_the_place_of_the_mapping_is_refused() -> None:
    def pages(position: Any, limit: int) -> Any:
        return [], None

    with pytest.raises(TopologyError, match=r"'pages' is called without arguments .*write \{'name': pages\}"):
        PollingSpout("n long", pages)  # type: ignore[arg-type]
