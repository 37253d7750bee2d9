"""IterableSpout: rows of any Python iterable, a batch at a time, without promises over a restart."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.support.plans import planned
from trident.errors import SpoutContractError, TopologyError, UserFunctionError
from trident.spouts import IterableSpout, SpoutKind, TransactionAttempt
from trident_spouts.executor import SpoutExecutor


def rows(executor: SpoutExecutor, txid: int, attempt: int = 0) -> list[int]:
    return list(executor.emit(TransactionAttempt(txid, attempt), txid).arrow().column(0).to_pylist())


def test_a_list_comes_in_batches_of_the_size() -> None:
    executor = IterableSpout("n long", range(10), batchSize=4).open()
    assert planned(None, executor=executor) == [1, 2, 3]
    assert [rows(executor, txid) for txid in (1, 2, 3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_generator_comes_in_full_batches_and_its_rest() -> None:
    executor = IterableSpout("n long", lambda: (n for n in range(10)), batchSize=4, maxDelaySecs=10).open()
    assert planned(None, executor=executor) == [1, 2, 3]
    assert [rows(executor, txid) for txid in (1, 2, 3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_replay_within_the_process_has_the_same_rows() -> None:
    executor = IterableSpout("n long", iter([1, 2, 3]), batchSize=2).open()
    executor.plan(TransactionAttempt(1, 0), None, 0.0)
    first = rows(executor, 1)
    executor.fail(TransactionAttempt(1, 0))
    assert rows(executor, 1, attempt=1) == first == [1, 2]


def test_what_waits_for_its_input_does_not_hold_the_plan_up() -> None:
    more = threading.Event()

    def slow() -> Iterator[int]:
        yield 1
        more.wait(30)
        yield 2

    executor = IterableSpout("n long", slow, batchSize=10, maxDelaySecs=0.2).open()
    assert executor.plan(TransactionAttempt(1, 0), None, 0.0) == 1
    assert rows(executor, 1) == [1]
    assert executor.plan(TransactionAttempt(2, 0), 1, 0.0) is None
    more.set()
    while executor.plan(TransactionAttempt(2, 0), 1, 0.0) is None:
        pass
    assert rows(executor, 2) == [2]
    executor.close()


def test_it_reads_no_more_than_two_batches_ahead() -> None:
    given: list[int] = []

    def endless() -> Iterator[int]:
        n = 0
        while True:
            given.append(n)
            yield n
            n += 1

    executor = IterableSpout("n long", endless, batchSize=5, maxDelaySecs=10).open()
    executor.plan(TransactionAttempt(1, 0), None, 0.0)
    executor.close()
    assert len(given) <= 5 + 2 * 5 + 1


def test_a_restart_calls_the_function_again_and_does_not_promise_more() -> None:
    spout = IterableSpout("n long", lambda: [1, 2, 3], batchSize=2)
    executor = spout.open()
    executor.plan(TransactionAttempt(1, 0), None, 0.0)
    again = spout.open()
    again.plan(TransactionAttempt(1, 1), None, 0.0)
    assert rows(again, 1) == [1, 2]
    assert spout.kind is SpoutKind.NON_TRANSACTIONAL


def test_an_iterator_that_raises_gives_its_rows_first_and_then_the_error() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("no more")

    executor = IterableSpout("n long", broken, batchSize=10).open()
    assert executor.plan(TransactionAttempt(1, 0), None, 0.0) == 1
    assert rows(executor, 1) == [1]
    with pytest.raises(UserFunctionError, match=r"broken, batchSize=10\): its iterator raised RuntimeError: no more"):
        executor.plan(TransactionAttempt(2, 0), 1, 0.0)


def test_a_function_that_raises_is_named_with_its_line() -> None:
    def cannot() -> list[int]:
        raise ValueError("shut")

    with pytest.raises(
        UserFunctionError, match=r"IterableSpout: cannot \(test_iterable_spout.py:\d+\) raised ValueError: shut"
    ):
        IterableSpout("n long", cannot).open()


def test_a_wrong_value_is_named() -> None:
    executor = IterableSpout("n long", [1, "x"]).open()
    with pytest.raises(
        SpoutContractError, match=r"IterableSpout, batch 1, row 1, field 'n': expected bigint, got 'x' \(str\)"
    ):
        executor.plan(TransactionAttempt(1, 0), None, 0.0)


def test_what_is_no_iterable_is_refused() -> None:
    with pytest.raises(TopologyError, match="expected an iterable of rows, a table or a function, got 'abc'"):
        IterableSpout("line string", "abc")
    with pytest.raises(TopologyError, match="batchSize=0: expected a whole number of at least 1"):
        IterableSpout("n long", [1], batchSize=0)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_data_frame_gives_its_rows_and_not_the_names_of_its_columns() -> None:
    frame = pd.DataFrame({"year": [2007, 2008, 2009], "species": ["Adelie", "Gentoo", None]})
    executor = IterableSpout("species string, year long", frame, batchSize=2).open()
    assert planned(None, executor=executor) == [1, 2]
    batches = [executor.emit(TransactionAttempt(txid, 0), txid).arrow().to_pylist() for txid in (1, 2)]
    assert batches == [
        [{"species": "Adelie", "year": 2007}, {"species": "Gentoo", "year": 2008}],
        [{"species": None, "year": 2009}],
    ]


@pytest.mark.parametrize("of", [lambda table: table, lambda table: table.to_batches()[0], lambda table: lambda: table])
def test_an_arrow_table_gives_its_rows_also_as_the_result_of_a_function(of: Callable[[pa.Table], Any]) -> None:
    spout = IterableSpout("n long", of(pa.table({"n": [1, 2, 3]})), batchSize=2)
    for _ in range(2):  # every run begins at the first row
        executor = spout.open()
        assert planned(None, executor=executor) == [1, 2]
        assert [rows(executor, txid) for txid in (1, 2)] == [[1, 2], [3]]
        executor.close()


def test_a_data_frame_is_shown_by_the_number_of_its_rows() -> None:
    assert repr(IterableSpout("n long", pd.DataFrame({"n": [1, 2]}))) == (
        "IterableSpout('n bigint', 2 rows, batchSize=1000)"
    )


def test_a_data_frame_with_other_columns_is_refused_before_the_run() -> None:
    with pytest.raises(SpoutContractError) as refused:
        IterableSpout("species string", pd.DataFrame({"kind": ["Adelie"]}))
    assert str(refused.value) == (
        "IterableSpout: its columns are (kind), but (species string) is declared; rename or select columns"
    )


def test_a_dict_is_refused_because_only_its_keys_would_come() -> None:
    with pytest.raises(TopologyError) as refused:
        IterableSpout("n long", {"n": [1]})
    assert str(refused.value) == (
        "IterableSpout: expected an iterable of rows, a table or a function, got {'n': [1]}; "
        "a dict is one row, write [row]"
    )


def batches(spout: IterableSpout) -> list[list[int]]:
    executor = spout.open()
    return [rows(executor, number) for number in planned(None, executor=executor)]


def chunks(*sizes: int) -> Iterator[Any]:
    """Chunks of the numbers 0, 1, 2 and so on, of these sizes, as DataFrames, tables and record batches in turn."""
    first = 0
    for at, size in enumerate(sizes):
        table = pa.table({"n": range(first, first + size)})
        form = at % 3
        yield table if form == 0 else table.to_pandas() if form == 1 else table.combine_chunks().to_batches()[0]
        first += size


@pytest.mark.parametrize("of", [chunks, lambda *sizes: list(chunks(*sizes))], ids=["iterator", "list"])
def test_chunks_give_their_rows_in_batches_of_the_size(of: Callable[..., Any]) -> None:
    spout = IterableSpout("n long", lambda: of(2, 7, 1), batchSize=3)
    assert batches(spout) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_chunks_and_single_rows_may_follow_each_other() -> None:
    mixed: list[Any] = [*chunks(0), 0, 1, *chunks(0), pa.table({"n": [2, 3]}), 4, pa.table({"n": [5, 6]})]
    for rows_and_chunks in (mixed, iter(mixed)):
        spout = IterableSpout("n long", rows_and_chunks, batchSize=4, maxDelaySecs=1)
        assert [n for batch in batches(spout) for n in batch] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("of", [iter, list], ids=["iterator", "list"])
def test_empty_chunks_are_no_end(of: Callable[[Any], Any]) -> None:
    empty, frame = pa.table({"n": pa.array([], pa.int64())}), pd.DataFrame({"n": [0, 1]})
    parts = [empty, empty, empty, frame, empty.to_pandas(), empty, empty, pa.table({"n": [2]}), empty]
    assert batches(IterableSpout("n long", lambda: of(parts), batchSize=2)) == [[0, 1], [2]]


def test_an_iterator_of_chunks_is_read_two_batches_and_a_chunk_ahead() -> None:
    taken: list[int] = []

    def endless() -> Iterator[Any]:
        while True:
            taken.append(len(taken))
            yield pa.table({"n": [1, 2, 3, 4]})

    executor = IterableSpout("n long", endless, batchSize=5, maxDelaySecs=1).open()
    executor.plan(TransactionAttempt(1, 0), None, 0.0)
    time.sleep(0.2)
    # 10 rows wait at most before the next chunk is added; one more chunk is in the hand of the thread.
    assert len(taken) <= 6
    executor.close()


def test_a_chunk_with_other_columns_is_named() -> None:
    spout = IterableSpout("n long", iter([pa.table({"n": [1]}), pa.table({"m": [2]})]), batchSize=1)
    executor = spout.open()
    assert executor.plan(TransactionAttempt(1, 0), None, 0.0) == 1
    with pytest.raises(
        SpoutContractError, match=r"IterableSpout\(.*\), chunk 2: its columns are \(m\), but \(n bigint\) is declared"
    ):
        executor.plan(TransactionAttempt(2, 0), 1, 0.0)
