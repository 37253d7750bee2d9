"""The opaque test spout: replays hold other tuples, and over committed batches every row comes once."""

import pickle
import random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.plans import logged
from tests.support.spouts import ReplayingSpout, Varied
from trident.spouts import SpoutKind, TransactionAttempt
from trident_spouts.executor import Metadata


def taken(spout: ReplayingSpout, attempt: TransactionAttempt, metadata: Metadata) -> tuple[list[str], Metadata]:
    emission = spout.open().emit(attempt, metadata)
    return emission.arrow().column(0).to_pylist(), logged(emission.after)


def test_the_script_says_what_each_attempt_takes_and_in_which_order() -> None:
    spout = ReplayingSpout("word string", {"p": "abcd", "q": "xy"}, {(1, 0): 2, (1, 1): {"q": 1, "p": 1}}, otherwise=9)
    assert taken(spout, TransactionAttempt(1, 0), {}) == (["a", "b", "x", "y"], {"p": 2, "q": 2})
    assert taken(spout, TransactionAttempt(1, 1), {}) == (["x", "a"], {"p": 1, "q": 1})
    assert taken(spout, TransactionAttempt(2, 0), {"p": 1, "q": 1}) == (["b", "c", "d", "y"], {"p": 4, "q": 2})
    assert spout.open().plan(TransactionAttempt(3, 0), {"p": 4, "q": 2}, 0.0) is None
    assert (spout.kind, spout.open().plans_ahead) == (SpoutKind.OPAQUE, False)


def test_a_varied_script_differs_by_attempt_and_epoch_and_not_by_process() -> None:
    script = Varied(7, ("p", "q", "r"))
    tries = [TransactionAttempt(1, number, epoch) for number in range(4) for epoch in range(4)]
    assert len({str(script(attempt)) for attempt in tries}) > 8
    assert [script(attempt) for attempt in tries] == [pickle.loads(pickle.dumps(script))(attempt) for attempt in tries]  # noqa: S301


@given(st.integers(0, 10_000))
def test_whatever_fails_the_committed_batches_hold_every_row_once(seed: int) -> None:
    partitions = {name: [f"{name}{at}" for at in range(9)] for name in "pqr"}
    spout = ReplayingSpout("word string", partitions, Varied(seed, tuple(partitions)))
    chance = random.Random(seed)
    executor, position, committed, txid = spout.open(), None, [], 0
    while (plan := executor.plan(TransactionAttempt(txid + 1, 0), position, 0.0)) is not None:
        txid += 1
        assert txid < 1000
        for number in range(5):
            words, after = taken(spout, TransactionAttempt(txid, number), logged(plan))
            if chance.random() < 0.5:
                break
        committed += words
        position = after
    assert sorted(committed) == sorted(word for rows in partitions.values() for word in rows)
