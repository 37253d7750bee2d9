"""The ledger on the embedded engine, and the option that switches it on."""

from collections import Counter
from typing import Any

import pytest

from trident import Count, TridentTopology
from trident.base.errors import BatchFailedError, TopologyError
from trident.compiler.arrow import evaluation
from trident.compiler.columns.columns import Columns
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

WORDS = [["a", "b", "a"], ["c", "a", "b"]]


def merging() -> TridentTopology:
    topology = TridentTopology()
    first, second = (topology.newStream(name, FixedBatchSpout("word string", WORDS)) for name in ("one", "two"))
    both = topology.merge(first, second)
    both.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def losing(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let a merge lose its first tuple this many times."""
    sound, left = evaluation.merged, iter(range(times))

    def merged(*given: Any) -> Columns:
        whole = sound(*given)
        return whole if next(left, None) is None else whole.take(range(1, whole.rows))

    monkeypatch.setattr(evaluation, "merged", merged)


EXPECTED = {word: 2 * count for word, count in Counter([word for batch in WORDS for word in batch]).items()}


def test_a_batch_that_lost_a_tuple_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    losing(monkeypatch, 1)
    failed: list[Any] = []
    with start_local(merging(), name="t", ledger=True, maxSpoutPending=1) as running:
        running.progress.listen(failed.append, fromRecent=True)
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == EXPECTED
        assert "merge" in str(running.recentProgress) and "LedgerError" in str(running.recentProgress)


def test_without_a_ledger_the_same_loss_goes_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    losing(monkeypatch, 1)
    with start_local(merging(), name="t", maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=30)
        assert sum(dict(running.state("counts").items()).values()) == sum(EXPECTED.values()) - 1


def test_a_loss_every_time_stops_the_topology_with_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    losing(monkeypatch, 99)
    running = start_local(merging(), name="t", ledger=True, maxAttempts=2)
    with pytest.raises(BatchFailedError, match=r"merge.*, partition 0: it sent 6 rows, 5 arrived: 1 are lost"):
        running.awaitTermination(timeout=30)
    running.stop()


def test_the_option_is_true_or_false() -> None:
    with pytest.raises(TopologyError, match="ledger='yes': expected True or False"):
        start_local(merging(), name="t", ledger="yes")
