"""The ledger on the embedded engine, and the option that switches it on."""

from collections import Counter
from typing import Any

import pytest

from trident import Count, TridentTopology, expr
from trident.base.errors import BatchFailedError, TopologyError
from trident.compiler.arrow import evaluation
from trident.compiler.columns.columns import Columns
from trident.compiler.stages import cut
from trident.compiler.tracking.uncounted_steps import unseen_steps
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


# --- what it does not see on Spark, it says -----------------------------------------------------------------------


def split_words(kind: str) -> TridentTopology:
    topology = TridentTopology()
    lines = topology.newStream("s", FixedBatchSpout("line string", [["a b"]])).shuffle().parallelismHint(3)
    words = lines.each("line", lambda line: iter(line.split()), "w string")
    if kind == "expression":
        words = words.filter(expr("w <> 'zz'"))
    if kind == "partitionBy":
        words = words.partitionBy("w").each("w", lambda w: w, "x string")
    words.groupBy("w").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
    return topology


@pytest.mark.parametrize(
    ("kind", "unseen"),
    [
        ("count", []),
        ("expression", ["s/4:filter(expr)", "s/5:persistentAggregate(Count)"]),
        ("partitionBy", ["s/4:partitionBy"]),
    ],
)
def test_the_steps_into_which_rows_go_uncounted_are_named(
    kind: str, unseen: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    topology = split_words(kind)
    assert unseen_steps(cut(topology)) == unseen
    topology.explain(ledger=True)
    told = capsys.readouterr().out
    assert ("ledger=True does not count the rows that enter Spark's own steps: " in told) == bool(unseen)
    assert ", ".join(unseen) in told
    topology.explain("embedded", ledger=True)
    topology.explain()
    assert "ledger=True" not in capsys.readouterr().out
