"""Sources that hand out each row once have one reader at a time."""

import threading
from pathlib import Path
from typing import Any

import pytest

from trident import Count, TridentTopology
from trident.errors import TopologyError, TridentError
from trident.spouts import BatchSpout, FeederBatchSpout, FixedBatchSpout, IterableSpout, PollingSpout, SpoutKind
from trident.state import MemoryMapState
from trident.testing.local import start_local


class Letters(BatchSpout):
    """Hands out two letters a batch, each once."""

    outputFields = "word string"

    def __init__(self, letters: str) -> None:
        self.left = list(letters)

    def emitBatch(self, batchId: int) -> Any:
        taken, self.left = self.left[:2], self.left[2:]
        return taken


class Numbered(Letters):
    """The same letters for the same txid, whoever asks."""

    kind = SpoutKind.TRANSACTIONAL

    def emitBatch(self, batchId: int) -> Any:
        return self.left[2 * batchId - 2 : 2 * batchId]


def counting(*spouts: Any) -> TridentTopology:
    topology = TridentTopology()
    for at, spout in enumerate(spouts):
        stream = topology.newStream(f"s{at}", spout)
        stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=f"counts{at}")
    return topology


def counts(running: Any, at: int = 0) -> dict[str, int]:
    running.processAllAvailable(timeout=60)
    return {row["word"]: row["count"] for row in running.state(f"counts{at}").toPandas().to_dict("records")}


def fed() -> FeederBatchSpout:
    spout = FeederBatchSpout("word string")
    spout.feed(["a", "b"])
    spout.feed(["a"])
    return spout


ONCE = pytest.mark.parametrize("make", [fed, lambda: Letters("aba"), lambda: IterableSpout("word string", iter("aba"))])


@ONCE
def test_a_second_stream_is_refused_and_told_what_to_do(make: Any, tmp_path: Path) -> None:
    spout = make()
    with pytest.raises(
        TridentError,
        match="each row is read once.* Start all branches from one stream, or give each stream a separate spout with a "
        "separate source, because streams of one queue may count a message twice",
    ) as caught:
        start_local(counting(spout, spout), name="t", checkpointLocation=str(tmp_path))
    assert isinstance(caught.value, TopologyError)
    if not isinstance(spout, IterableSpout):  # which reads ahead
        with start_local(counting(spout), name="t", checkpointLocation=str(tmp_path)) as running:
            assert counts(running) == {"a": 2, "b": 1}, "the refused start left the spout as it was"


@ONCE
def test_a_second_topology_is_refused_while_the_first_one_runs(make: Any, tmp_path: Path) -> None:
    spout = make()
    with start_local(counting(spout), name="one", checkpointLocation=str(tmp_path / "one")) as running:
        with pytest.raises(TopologyError, match="each row is read once"):
            start_local(counting(spout), name="two", checkpointLocation=str(tmp_path / "two"))
        assert counts(running) == {"a": 2, "b": 1}
    with start_local(counting(spout), name="two", checkpointLocation=str(tmp_path / "two")) as running:
        assert counts(running) == {}


@pytest.mark.parametrize(
    "spout",
    [
        FixedBatchSpout("word string", [["a", "b"], ["a"]]),
        IterableSpout("word string", ["a", "b", "a"]),
        IterableSpout("word string", lambda: iter("aba")),
        PollingSpout("word string", {"p": ["a", "b", "a"]}),
        Numbered("aba"),
    ],
)
def test_sources_that_give_rows_again_may_have_many_readers(spout: Any, tmp_path: Path) -> None:
    with start_local(counting(spout, spout), name="t", checkpointLocation=str(tmp_path)) as running:
        assert counts(running, 0) == counts(running, 1) == {"a": 2, "b": 1}


def test_a_spout_that_cannot_open_is_not_read(tmp_path: Path) -> None:
    class Broken(Letters):
        broken = True

        def open(self) -> None:
            if self.broken:
                raise ConnectionError("refused")

    spout = Broken("aba")
    with pytest.raises(TridentError, match="ConnectionError: refused"):
        start_local(counting(spout), name="t", checkpointLocation=str(tmp_path))
    spout.broken = False
    with start_local(counting(spout), name="t", checkpointLocation=str(tmp_path)) as running:
        assert counts(running) == {"a": 2, "b": 1}


def test_a_spout_that_opens_when_its_start_was_given_up_is_closed_and_not_read(tmp_path: Path) -> None:
    class Late(Letters):
        def __init__(self, letters: str) -> None:
            super().__init__(letters)
            self.goes_on, self.closed = threading.Event(), threading.Event()

        def open(self) -> None:
            assert self.goes_on.wait(60)

        def close(self) -> None:
            self.closed.set()

    spout = Late("aba")
    with pytest.raises(TridentError, match=r"spout 's0', open\(\) ran longer than 0.2 s"):
        start_local(counting(spout), name="t", checkpointLocation=str(tmp_path), messageTimeoutSecs=0.2)
    assert not spout.closed.is_set()
    spout.goes_on.set()
    assert spout.closed.wait(30)
    with start_local(counting(spout), name="t", checkpointLocation=str(tmp_path)) as running:
        assert counts(running) == {"a": 2, "b": 1}
