"""The contract of spouts over message queues: each message counts once, and the queue receives all acknowledgements."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from trident.base.errors import SpoutError
from trident.spouts import Collector, FeederBatchSpout, RichSpout
from trident.testing.contracts.spout_calls import shown
from trident.testing.crashes import DriverCrashedError, crash_at
from trident.testing.local import start_local
from trident.testing.output import TestOutput, rows_of
from trident.topology import TridentTopology
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.rows import RowsLike, table_of

_MARK = "ofAnotherStream"
"""The field that distinguishes rows of the other stream from messages."""

_PATIENCE_SECS = 30.0
"""The longest time until a queue has received all acknowledgements and failures."""


class MessageQueue:
    """A queue that the tests of `QueueContract` fill and inspect. Inherit it, and define its methods."""

    prefetch: int = 3
    """The number of messages that the queue hands out at most without an acknowledgement."""

    def spout(self) -> RichSpout:
        """Return a new spout over the queue, as a restarted program makes one."""
        raise NotImplementedError

    def send(self, count: int) -> RowsLike:
        """Send `count` new messages, all different from earlier messages. Return them as the spout emits them."""
        raise NotImplementedError

    def left(self) -> int:
        """Return the number of messages in the queue, including those delivered but not acknowledged."""
        raise NotImplementedError


class QueueContract:
    """The contract of a `RichSpout` with tracking over a queue, as tests.

    Inherit it as ``class TestMyQueue(QueueContract)`` and define the fixture `queue`, a new and empty `MessageQueue`
    for each test. A queue delivers only a limited number of messages without an acknowledgement. Without
    acknowledgements it delivers no further message, and a run waits for ever without an error. These tests lose
    acknowledgements, let other streams of the batch group continue, and start again. In the end each message has
    counted once, and the queue is empty.
    """

    @pytest.fixture
    def queue(self) -> MessageQueue:
        raise NotImplementedError(f"{type(self).__name__}: define the fixture 'queue'")

    @pytest.mark.parametrize("pending", [None, 1, 2], ids=["any", "one", "two"])
    def test_a_run_ends_when_the_queue_is_empty_and_not_when_it_is_at_its_limit(
        self, queue: MessageQueue, pending: int | None
    ) -> None:
        sent, output, spout = queue.send(3 * queue.prefetch + 1), TestOutput(), queue.spout()
        spout.maxPending = pending
        topology = TridentTopology()
        topology.newStream("queue", spout).foreachArrow(output)
        with start_local(topology, name="contract", availableNow=True) as running:
            assert running.awaitTermination(timeout=60), f"it does not end: {running.status}"
        _check(queue, output, [sent])

    @pytest.mark.parametrize("others", [0, 2], ids=["alone", "beside-another-stream"])
    def test_a_queue_whose_acknowledgements_were_lost_goes_on_after_a_restart(
        self, queue: MessageQueue, others: int, tmp_path: Path
    ) -> None:
        """As many messages as the queue hands out are committed, and no acknowledgement of them arrives."""
        output, sent = TestOutput(), [queue.send(queue.prefetch)]
        deaf = queue.spout()
        deaf.ack = _away  # type: ignore[method-assign]
        self._run(queue, deaf, output, tmp_path, others)
        assert _wait_for(queue, queue.prefetch), (
            f"it has {queue.left()} messages, and allows {queue.prefetch} without an acknowledgement"
        )
        sent.append(queue.send(2 * queue.prefetch))
        self._run(queue, queue.spout(), output, tmp_path, others, empty=True)
        _check(queue, output, sent)

    @pytest.mark.parametrize("point", ["emit.after", "freeze.after", "committed.after", "success.before"])
    @pytest.mark.parametrize("others", [0, 2], ids=["alone", "beside-another-stream"])
    def test_every_message_counts_once_though_the_driver_dies(
        self, queue: MessageQueue, others: int, point: str, tmp_path: Path
    ) -> None:
        output, sent = TestOutput(), [queue.send(2 * queue.prefetch)]
        with crash_at(point, count=2 if others else 1), pytest.raises((DriverCrashedError, SpoutError)):
            self._run(queue, queue.spout(), output, tmp_path, others, empty=True)
        sent.append(queue.send(2 * queue.prefetch))
        self._run(queue, queue.spout(), output, tmp_path, others, empty=True)
        _check(queue, output, sent)

    @pytest.mark.parametrize("others", [0, 2], ids=["alone", "beside-another-stream"])
    def test_a_message_whose_acknowledgement_raises_counts_once_whatever_passes_since(
        self, queue: MessageQueue, others: int, tmp_path: Path
    ) -> None:
        """The first message is never acknowledged in its run, but all later messages are."""
        output, sent = TestOutput(), [queue.send(3 * queue.prefetch)]
        self._run(queue, _one_by_one(_DeafToTheFirst(queue.spout()).spout), output, tmp_path, others)
        self._run(queue, _one_by_one(queue.spout()), output, tmp_path, others, empty=True)
        _check(queue, output, sent)

    @pytest.mark.parametrize("others", [0, 2], ids=["alone", "beside-another-stream"])
    def test_a_message_that_comes_again_long_after_its_driver_died_counts_once(
        self, queue: MessageQueue, others: int, tmp_path: Path
    ) -> None:
        """The driver dies between commit and ack, and the queue delivers the message again after all others."""
        output, sent = TestOutput(), [queue.send(2)]
        with crash_at("committed.after"), pytest.raises((DriverCrashedError, SpoutError)):
            self._run(queue, _one_by_one(queue.spout()), output, tmp_path, 0)
        late = _LateFirst(queue.spout(), 2 * queue.prefetch if queue.prefetch > 1 else 0)
        sent.append(queue.send(2 * queue.prefetch))
        self._run(queue, _one_by_one(late.spout), output, tmp_path, others, empty=True)
        _check(queue, output, sent)

    def _run(
        self, queue: MessageQueue, spout: RichSpout, output: TestOutput, folder: Path, others: int, empty: bool = False
    ) -> None:
        """Count messages in a run with another stream of `others` batches.

        With `empty`, run until the queue is empty.
        """
        schema = as_spout(spout).schema
        topology, feeder = TridentTopology(), FeederBatchSpout(schema)
        streams = [topology.newStream("queue", spout), topology.newStream("other", feeder)]
        marked = [stream.each(schema.names, _marks(n), f"{_MARK} int") for n, stream in enumerate(streams)]
        topology.merge(*marked).foreachArrow(output)
        with start_local(topology, name="contract", checkpointLocation=folder) as running:
            running.processAllAvailable(timeout=60)
            for _ in range(others):
                feeder.feed([row[: len(schema)] for row in output.rows[:1]], wait=True, timeout=60)
            until = time.monotonic() + _PATIENCE_SECS
            while empty and queue.left() and time.monotonic() < until:
                running.processAllAvailable(timeout=60)
                time.sleep(0.02)
            assert not empty or not queue.left(), f"the queue still has {queue.left()} messages, for no stated reason"


def _one_by_one(spout: RichSpout) -> RichSpout:
    """Let a spout make batches of one message, and keep no id that was acknowledged."""
    spout.maxRows, spout.remember = 1, 0
    return spout


class _DeafToTheFirst:
    """Passes on all acknowledgements to a spout, except those of the first message."""

    def __init__(self, spout: RichSpout) -> None:
        self.spout, self._ack, self._first = spout, spout.ack, list[Any]()
        spout.ack = self._through  # type: ignore[method-assign]

    def _through(self, messageId: Any) -> None:
        self._first = self._first or [messageId]
        if messageId in self._first:
            _away(messageId)
        self._ack(messageId)


class _LateFirst:
    """Holds back the first message of a spout until `others` other messages have passed."""

    def __init__(self, spout: RichSpout, others: int) -> None:
        self.spout, self._next, self._others = spout, spout.nextTuple, others
        self._held: list[tuple[Any, ...]] | None = None
        spout.nextTuple = self._later  # type: ignore[method-assign]

    def _later(self, collector: Collector) -> None:
        emitted = list[tuple[Any, ...]]()
        self._next(Collector(lambda *values: emitted.append(values)))
        if self._held is None and emitted:
            self._held, emitted = emitted[:1], emitted[1:]
        if self._held and self._others <= 0:
            emitted, self._held = emitted + self._held, []
        self._others -= len(emitted)
        for values in emitted:
            collector.emit(*values)


def _marks(number: int) -> Callable[..., int]:
    return lambda *values: number


def _away(messageId: Any) -> None:
    raise ConnectionError("the test blocks all acknowledgements")


def _check(queue: MessageQueue, output: TestOutput, sent: Iterable[RowsLike]) -> None:
    """Fail unless each message counted once, and no message is left."""
    schema = as_spout(queue.spout()).schema
    tables = [table_of(rows, schema, "the messages of `send`") for rows in sent]
    expected = Counter(repr(row) for table in tables for row in rows_of(table))
    of_queue = [row for row in output.rows if getattr(row, _MARK, 0) == 0]
    came = Counter(repr(Row(**{name: row[name] for name in schema.names})) for row in of_queue)
    lost, more = expected - came, came - expected
    assert not lost and not more, (
        f"messages that were lost: {shown(lost)}; messages that were delivered twice: {shown(more)}"
    )
    assert _wait_for(queue, 0), f"{queue.left()} messages were counted but not acknowledged to the queue"


def _wait_for(queue: MessageQueue, left: int) -> bool:
    """Return whether the queue has `left` messages within some seconds. A broker notices a closed connection late."""
    until = time.monotonic() + _PATIENCE_SECS
    while queue.left() != left and time.monotonic() < until:
        time.sleep(0.02)
    return queue.left() == left
