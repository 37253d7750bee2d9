"""FixedBatchSpout: the same batches in the same order, at every replay and after a restart."""

import pickle

import pandas
import pyarrow as pa
import pytest

from tests.support.plans import planned
from trident.errors import SpoutContractError
from trident.spouts import FixedBatchSpout, SpoutKind, TransactionAttempt


def words(spout: FixedBatchSpout, metadata: object, attempt: int = 0) -> list[str]:
    emission = spout.open().emit(TransactionAttempt(1, attempt), metadata)  # type: ignore[arg-type]
    return list(emission.arrow().column(0).to_pylist())


def test_batches_come_in_order_and_end() -> None:
    spout = FixedBatchSpout("word string", [["a", "b"], [], ["c"]])
    assert planned(spout) == [0, 1, 2]
    assert [words(spout, at) for at in range(3)] == [["a", "b"], [], ["c"]]


def test_an_empty_batch_is_a_batch() -> None:
    assert planned(FixedBatchSpout("word string", [[], []])) == [0, 1]


def test_cycle_begins_again_for_ever() -> None:
    spout = FixedBatchSpout("word string", [["a"], ["b"]], cycle=True)
    assert planned(spout, limit=5) == [0, 1, 0, 1, 0]


def test_cycle_over_nothing_stays_idle() -> None:
    assert planned(FixedBatchSpout("word string", [], cycle=True)) == []


def test_a_replay_emits_the_same_also_from_an_unpickled_spout() -> None:
    spout = FixedBatchSpout("word string", [["a"], ["b", "c"]])
    again = pickle.loads(pickle.dumps(spout))  # noqa: S301
    assert words(again, 1, attempt=3) == words(spout, 1) == ["b", "c"]


def test_batches_may_be_arrow_and_pandas() -> None:
    spout = FixedBatchSpout("n long", [pa.table({"n": [1]}), pandas.DataFrame({"n": [2]}), [3]])
    assert [words(spout, at) for at in range(3)] == [[1], [2], [3]]


def test_it_knows_its_rows_and_its_kind() -> None:
    spout = FixedBatchSpout("word string", [["a", "b"]])
    assert spout.kind is SpoutKind.TRANSACTIONAL
    assert spout.open().plans_ahead
    assert spout.open().emit(TransactionAttempt(1, 0), 0).rows == 2
    assert repr(spout) == "FixedBatchSpout('word string', 1 batch, 2 rows)"


def test_a_wrong_value_is_named_when_the_spout_is_made() -> None:
    with pytest.raises(SpoutContractError) as caught:
        FixedBatchSpout("word string, n long", [[("a", 1)], [("b", 2), ("c", "3")]])
    assert str(caught.value) == "FixedBatchSpout, batch 1, row 1, field 'n': expected bigint, got '3' (str)"


def test_a_batch_given_as_a_row_is_explained() -> None:
    with pytest.raises(SpoutContractError, match=r"batch 0 is 'the cow' \(str\); expected a list of rows"):
        FixedBatchSpout("line string", ["the cow", "the moon"])
    with pytest.raises(SpoutContractError, match="a list of batches, got one Table"):
        FixedBatchSpout("n long", pa.table({"n": [1]}))


def test_with_fewer_batches_than_were_committed_it_is_idle() -> None:
    assert FixedBatchSpout("word string", [["a"]]).open().plan(TransactionAttempt(4, 0), 2, 0.0) is None


def test_metadata_of_another_spout_is_refused() -> None:
    with pytest.raises(SpoutContractError, match=r"this spout cannot replay the batch \{'offset': 3\}"):
        FixedBatchSpout("word string", [["a"]]).open().plan(TransactionAttempt(2, 0), {"offset": 3}, 0.0)


def test_one_data_frame_is_not_taken_for_a_list_of_batches() -> None:
    with pytest.raises(SpoutContractError) as refused:
        FixedBatchSpout("species string", pandas.DataFrame({"species": ["Adelie"]}))
    assert str(refused.value) == (
        "FixedBatchSpout: expected a list of batches, got one DataFrame; write [batch, batch], "
        "where each batch is a list of rows, an Arrow table or a pandas DataFrame"
    )
