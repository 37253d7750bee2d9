"""The executor of a RichSpout, called by hand: what a batch gathers, and what becomes of each message."""

from typing import Any

import pytest

from tests.spouts.messages.queue_spout import Queue, QueueSpout
from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError, TopologyError, UserFunctionError
from trident.spouts import Budget, Collector, RichSpout
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.executor import SpoutExecutor, SpoutKind
from trident_spouts.messages.executor import MessageExecutor
from trident_spouts.messages.seen_messages import Acks, SeenMessages, seen_in


def opened(spout: RichSpout) -> MessageExecutor:
    executor = as_spout(spout).open()
    assert isinstance(executor, MessageExecutor)
    return executor


def planned(executor: SpoutExecutor, txid: int, previous: Any, attempt: int = 0) -> Any:
    return executor.plan(TransactionAttempt(txid, attempt, 1), previous, 0.0, Budget())


def rows(executor: SpoutExecutor, txid: int, plan: Any) -> list[Any]:
    return executor.emit(TransactionAttempt(txid, 0, 1), plan).arrow()["word"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({"maxRows": 2}, [2, 2, 1]),
        ({"maxRows": 2, "at_once": 3}, [2, 2, 1]),
        ({"maxBytes": 6, "at_once": 5}, [2, 2, 1]),
        ({"maxRows": 3, "at_once": 5, "maxPending": 1}, [3, 2]),
        ({"maxBytes": 6}, [2, 2, 1]),
        ({"maxRows": 3, "maxPending": 4}, [3, 1]),
        ({}, [5]),
    ],
)
def test_a_batch_gathers_what_is_there_up_to_its_limits(limits: dict[str, Any], sizes: list[int]) -> None:
    executor = opened(QueueSpout(Queue(dict.fromkeys(range(5), "dog")), **limits))
    plan, gathered = None, []
    for txid in range(1, 7):
        following = planned(executor, txid, plan)
        if following is None:
            break
        plan = following
        gathered.append(len(rows(executor, txid, plan)))
    assert gathered == sizes


def test_what_a_call_emits_beyond_its_batch_waits_in_order_and_nothing_is_asked_meanwhile() -> None:
    class Asked(QueueSpout):
        asked = 0

        def nextTuple(self, collector: Collector) -> None:
            self.asked += 1
            super().nextTuple(collector)

    queue = Queue({n: f"w{n}" for n in range(9)})
    spout = Asked(queue, maxRows=2, at_once=7)
    executor = opened(spout)
    plan, words, asked = None, [], []
    for txid in range(1, 6):
        plan = planned(executor, txid, plan)
        words += rows(executor, txid, plan)
        asked.append(spout.asked)
        if txid == 1:
            queue.reconnect()  # the others come again, and wait here already
    assert words == [f"w{n}" for n in range(9)]
    assert asked == [1, 1, 1, 3, 4]
    executor.success(5, plan)
    assert queue.acked == list(range(9))


def test_a_call_that_emits_more_than_the_overflow_takes_is_refused_and_all_of_it_fails() -> None:
    queue = Queue(dict.fromkeys(range(9), "dog"))
    executor = opened(QueueSpout(queue, maxOverflow=4, at_once=9))
    with pytest.raises(SpoutContractError, match=r"QueueSpout.nextTuple emitted more than maxOverflow=4 messages"):
        planned(executor, 1, None)
    assert [message for message, _ in queue.failed] == [0, 1, 2, 3, 4]
    assert not executor._overflow and not executor._in_flight


def test_messages_are_acknowledged_with_their_batch_and_all_before_it() -> None:
    queue = Queue({1: "a", 2: "b", 3: "c"})
    executor = opened(QueueSpout(queue, maxRows=1))
    first = planned(executor, 4, None)
    second = planned(executor, 6, first)
    assert queue.acked == []
    executor.success(6, second)
    assert queue.acked == [1, 2] and queue.taken == {}
    executor.success(6, second)
    assert queue.acked == [1, 2]


def test_a_failed_batch_is_delivered_again_with_the_reason_and_others_keep_theirs() -> None:
    queue = Queue({1: "a", 2: "b", 3: "c"})
    executor = opened(QueueSpout(queue, maxRows=1))
    first = planned(executor, 1, None)
    second = planned(executor, 2, first)
    executor.fail_with_reason(TransactionAttempt(1, 0, 1), "ValueError: no")
    assert queue.failed == [(1, "ValueError: no")]
    again = planned(executor, 1, None, 1)  # the failed message stands behind the third
    assert rows(executor, 1, again) == ["c"]
    after = planned(executor, 2, again, 1)
    assert rows(executor, 2, after) == rows(executor, 2, second) == ["b"]
    assert rows(executor, 3, planned(executor, 3, after)) == ["a"]


def test_a_batch_that_finds_no_messages_any_more_takes_over_those_of_the_next_one() -> None:
    queue = Queue({1: "a", 2: "b"})
    executor = opened(QueueSpout(queue, maxRows=1))
    planned(executor, 2, planned(executor, 1, None))
    executor.fail_with_reason(TransactionAttempt(1, 0, 1), "no")
    queue.waiting.clear()  # the queue gives the failed message up
    again = planned(executor, 1, None, 1)
    assert rows(executor, 1, again) == ["b"]
    assert planned(executor, 2, again, 1) is None


def test_a_plan_that_rests_on_a_failed_batch_takes_no_messages() -> None:
    queue = Queue({1: "a", 2: "b"})
    executor = opened(QueueSpout(queue, maxRows=1))
    first = planned(executor, 1, None)
    second = planned(executor, 2, first)
    executor.fail_with_reason(TransactionAttempt(1, 0, 1), "no")
    assert planned(executor, 2, first) is None, "asked before the run heard of the failure"
    assert planned(executor, 3, second) is None, "the failed batch is farther back"
    again = planned(executor, 1, None, 1)
    assert rows(executor, 1, again) == ["a"]
    assert planned(executor, 3, planned(executor, 2, again, 1)) is None
    executor.success(2, planned(executor, 2, again, 1))
    assert queue.acked == [1, 2]


def test_a_second_delivery_of_a_message_that_is_under_way_is_left_out() -> None:
    queue = Queue({1: "a"})
    executor = opened(QueueSpout(queue))
    plan = planned(executor, 1, None)
    queue.reconnect()
    assert planned(executor, 2, plan) is None
    executor.success(1, plan)
    assert queue.acked == [1] and queue.taken == {}


def test_a_message_of_an_earlier_run_is_acknowledged_when_its_batch_is_known_to_be_committed() -> None:
    queue = Queue({1: "a", 2: "b"})
    plan = planned(opened(QueueSpout(queue, maxRows=1)), 1, None)
    executor = opened(QueueSpout(queue, maxRows=5))  # the queue delivers both again
    following = planned(executor, 2, plan)
    assert rows(executor, 2, following) == ["b"] and queue.acked == []
    executor.success(1, plan)
    assert queue.acked == [1]
    executor.success(2, following)
    assert queue.acked == [1, 2] and queue.taken == {}


def test_a_message_whose_ack_was_lost_is_left_out_and_acknowledged_once_more() -> None:
    queue = Queue({1: "a"})
    queue.lose_acks = True
    executor = opened(QueueSpout(queue))
    plan = planned(executor, 1, None)
    executor.success(1, plan)
    queue.lose_acks = False
    queue.reconnect()
    assert planned(executor, 2, plan) is None
    assert queue.acked == [1, 1] and queue.taken == {}


def emitting(*words: Any, fields: str = "word string") -> tuple[MessageExecutor, list[Any]]:
    """A spout that emits these values under one id in one call, and the ids that it acknowledges."""

    class Emits(RichSpout):
        outputFields = fields
        left = list(words)

        def nextTuple(self, collector: Collector) -> None:
            for values in self.left:
                collector.emit(values, messageId="m")
            self.left = []

        def ack(self, messageId: Any) -> None:
            acked.append(messageId)

    acked: list[Any] = []
    return opened(Emits()), acked


def test_different_tuples_of_a_message_all_count_and_it_has_one_ack(caplog: pytest.LogCaptureFixture) -> None:
    executor, acked = emitting("tea", "milk", "tea", "sugar")
    plan = planned(executor, 1, None)
    assert rows(executor, 1, plan) == ["tea", "milk", "sugar"]
    assert "nextTuple emitted one tuple twice under the id 'm' in one call: it counts once" in caplog.text
    executor.success(1, plan)
    assert acked == ["m"]


def test_tuples_are_compared_as_their_fields_have_them() -> None:
    nan = float("nan")
    same: list[Any] = [(1, nan, [1.0]), {"d": nan, "n": 1, "l": [1.0]}, {"n": 1, "l": (1.0,), "d": nan}]
    different: list[Any] = [
        (1, 0.0, None),
        (1, -0.0, None),
        (1, None, None),
        (1, None, []),
        (1, 0.1 + 0.2, []),
        (1, 0.3, []),
    ]
    executor, _ = emitting(*same, *different, *different, fields="n long, d double, l array<double>")
    table = executor.emit(TransactionAttempt(1, 0, 1), planned(executor, 1, None)).arrow()
    assert table.num_rows == 1 + len(different)


DAY = 86_400.0


def then(
    seen: SeenMessages, ids: list[Any], returned: Any = (), due: Any = (), *, remember: int = 0, **run: Any
) -> Any:
    acks = Acks(run.get("begun", 0), run.get("since", 0.0), returned, due)
    return seen.then(ids, acks, run.get("now", 0.0), remember, DAY)


def test_only_the_newest_acknowledged_ids_are_kept_and_all_that_wait() -> None:
    seen = then(then(SeenMessages(), [1, 2, 3]), [4])
    assert dict(seen) == {1: 1, 2: 1, 3: 1, 4: 2}
    following = then(seen, [5], [2, 4, 3], remember=2)
    assert dict(following) == {1: 1, 4: 0, 3: 0, 5: 3}
    assert dict(then(following, [6], [5], remember=2)) == {1: 1, 3: 0, 5: 0, 6: 4}
    assert dict(then(seen, [5], [2, 4, 3])) == {1: 1, 5: 3}


def test_what_an_earlier_run_left_is_kept_for_a_while_after_the_start_that_found_it_so() -> None:
    seen = then(then(SeenMessages(), [1, 2]), [3])
    second = then(seen, [4], begun=2, since=100.0, now=100.0 + DAY / 2)
    assert dict(second) == {1: 1, 2: 1, 3: 2, 4: 3}
    third = then(second, [5], begun=3, since=90.0 + DAY, now=90.0 + DAY)
    assert dict(third) == dict(second) | {5: 4}, "less than a day"
    later = then(third, [6], begun=3, since=90.0 + DAY, now=100.0 + DAY)
    assert dict(later) == {4: 3, 5: 4, 6: 5}, "the second run found 1, 2 and 3, and the third run found 4"
    came = then(third, [6], [], {2}, begun=3, since=90.0 + DAY, now=100.0 + DAY)
    assert dict(came) == {2: 1, 4: 3, 5: 4, 6: 5}, "2 came again in the third run, and its ack raised"
    assert seen_in(came.to_json(), "s") == came


def test_an_acknowledged_message_that_comes_again_waits_for_its_ack_anew() -> None:
    seen = then(then(SeenMessages(), [1]), [2], [1], remember=1)
    raised = then(seen, [3], [2], {1}, remember=1)
    assert dict(raised) == {2: 0, 1: 0, 3: 3}
    assert dict(then(raised, [4], [3], {1}, remember=1)) == {3: 0, 1: 0, 4: 4}
    assert dict(then(raised, [4], [3, 1], remember=1)) == {1: 0, 4: 4}


@pytest.mark.parametrize("remember", [0, 1])
def test_a_message_whose_ack_raises_is_never_forgotten_in_its_run(remember: int) -> None:
    class Breaks(QueueSpout):
        def ack(self, messageId: Any) -> None:
            if messageId == 0:
                raise OSError("cut")
            super().ack(messageId)

    queue = Queue(dict.fromkeys(range(9), "dog"))
    executor, plan = opened(Breaks(queue, maxRows=1, remember=remember)), None
    for txid in range(1, 10):
        plan = planned(executor, txid, plan)
        executor.success(txid, plan)
    assert len(list(seen_in(plan, "s"))) == 2 + remember
    after = opened(QueueSpout(queue, remember=remember))
    after.success(9, plan)
    assert planned(after, 10, plan) is None and queue.taken == {}
    assert queue.acked == [*range(1, 9), 0]


def test_a_message_that_comes_very_late_after_the_death_of_its_driver_counts_once() -> None:
    queue = Queue({1: "a"})
    plan = planned(opened(QueueSpout(queue)), 1, None)
    hidden, queue.taken = queue.taken, {}  # the queue shows it to no reader for a while
    executor = opened(QueueSpout(queue, maxRows=1, remember=1))
    executor.success(1, plan)
    queue.waiting.extend((n, "b") for n in range(2, 9))
    for txid in range(2, 9):
        plan = planned(executor, txid, plan)
        executor.success(txid, plan)
    queue.waiting.extend(hidden.items())
    assert planned(executor, 9, plan) is None
    assert queue.acked == [*range(2, 9), 1] and queue.taken == {}


def test_nothing_is_kept_of_what_was_committed() -> None:
    executor = opened(QueueSpout(Queue(dict.fromkeys(range(1000), "dog")), maxRows=10, remember=20))
    plan = None
    for txid in range(1, 101):
        plan = planned(executor, txid, plan)
        executor.success(txid, plan)
    assert not executor._batches and not executor._in_flight and not executor._numbers and not executor._late
    assert sum(1 for _ in plan["batches"]) <= 4


def test_messages_of_a_call_that_raises_are_delivered_again() -> None:
    class Breaks(QueueSpout):
        def nextTuple(self, collector: Collector) -> None:
            super().nextTuple(collector)
            if len(self.queue.taken) == 2:
                raise OSError("cut")

    queue = Queue({1: "a", 2: "b"})
    executor = opened(Breaks(queue))
    with pytest.raises(UserFunctionError, match="nextTuple.*raised OSError: cut"):
        planned(executor, 1, None)
    assert [message for message, _ in queue.failed] == [1, 2] and queue.taken == {}


def test_a_value_of_another_type_names_the_spout_and_its_messages_come_again() -> None:
    queue = Queue({1: 7})
    executor = opened(QueueSpout(queue))
    with pytest.raises(SpoutContractError, match=r"QueueSpout.nextTuple, row 0, field 'word': expected string, got 7"):
        planned(executor, 1, None)
    assert [message for message, _ in queue.failed] == [1]


@pytest.mark.parametrize("method", ["ack", "fail"])
def test_an_outcome_that_raises_is_told_again_with_growing_pauses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    class Breaks(QueueSpout):
        tries = 0

        def _deaf(self, messageId: Any) -> None:
            if messageId == 1:
                self.tries += 1
                if self.tries <= 12:
                    raise OSError("cut")

        def ack(self, messageId: Any) -> None:
            self._deaf(messageId)
            super().ack(messageId)

        def fail(self, messageId: Any, reason: str) -> None:
            self._deaf(messageId)
            super().fail(messageId, reason)

    clock = [0.0]
    monkeypatch.setattr("trident_spouts.messages.message_outcomes.monotonic", lambda: clock[0])
    queue = Queue({1: "a", 2: "b"})
    spout = Breaks(queue)
    executor = opened(spout)
    plan = planned(executor, 1, None)
    if method == "ack":
        executor.success(1, plan)
    else:
        executor.fail_with_reason(TransactionAttempt(1, 0, 1), "no")
    assert spout.tries == 1 and queue.taken == {1: "a"}
    assert f"Breaks failed in {method}(1)" in caplog.text and "OSError: cut" in caplog.text
    queue.waiting.clear()
    tries = []
    for second in range(240):
        clock[0] = float(second)
        planned(executor, 2, plan if method == "ack" else None)
        tries.append(spout.tries)
    assert tries[:3] == [2, 3, 4] and tries[60] == 11 and tries[-1] == 13
    told = queue.acked if method == "ack" else [message for message, _ in queue.failed]
    assert sorted(told)[0] == 1, "the queue has heard of it at last"


@pytest.mark.parametrize(
    ("tracking", "message", "expected"),
    [
        ("tracked", None, "expected the message's id, a str or an int"),
        ("tracked", True, "expected the message's id"),
        ("emission", 1.5, "expected the message's id"),
        ("none", 7, "tracking = 'none'"),
    ],
)
def test_an_id_that_does_not_fit_the_tracking_is_refused(tracking: Any, message: Any, expected: str) -> None:
    class Emits(RichSpout):
        outputFields = "word string"

        def nextTuple(self, collector: Collector) -> None:
            collector.emit("dog", messageId=message)

    spout = Emits()
    spout.tracking = tracking
    with pytest.raises((SpoutContractError, UserFunctionError), match=expected):
        planned(opened(spout), 1, None)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"tracking": "acked"}, "QueueSpout.tracking is 'acked': expected 'tracked', 'emission' or 'none'"),
        ({"maxRows": 0}, "QueueSpout.maxRows=0: expected a whole number of at least 1"),
        ({"maxSecs": "soon"}, "QueueSpout.maxSecs='soon' is not a duration"),
        ({"maxOverflow": 0}, "QueueSpout.maxOverflow=0: expected a whole number of at least 1"),
        ({"remember": -1}, "QueueSpout.remember=-1"),
        ({"redeliverySecs": 0}, "QueueSpout.redeliverySecs=0"),
    ],
)
def test_wrong_limits_are_refused(limits: dict[str, Any], expected: str) -> None:
    with pytest.raises(TopologyError, match=expected):
        opened(QueueSpout(Queue({}), **limits))


@pytest.mark.parametrize(
    ("tracking", "kind"),
    [("tracked", SpoutKind.OPAQUE), ("emission", SpoutKind.NON_TRANSACTIONAL), ("none", SpoutKind.NON_TRANSACTIONAL)],
)
def test_the_kind_follows_from_the_tracking(tracking: Any, kind: SpoutKind) -> None:
    assert as_spout(QueueSpout(Queue({}), tracking)).kind is kind


def test_without_tracking_a_failed_batch_is_kept_and_emission_acknowledges_at_once() -> None:
    queue = Queue({1: "a"})
    executor = opened(QueueSpout(queue, "emission"))
    plan = planned(executor, 1, None)
    assert queue.acked == [1]
    executor.fail_with_reason(TransactionAttempt(1, 0, 1), "no")
    assert rows(executor, 1, plan) == ["a"] and queue.failed == []


def test_a_message_that_was_acknowledged_again_is_one_of_the_newest() -> None:
    seen = SeenMessages(3, (), (1, 2))
    assert then(seen, [3], [1], remember=2).acknowledged == (2, 1)
    assert then(seen, [3], [2, 1], remember=1).acknowledged == (1,)
