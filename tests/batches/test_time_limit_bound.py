"""When a call that is out of time fails: not before its limit, and at most half a second after it."""

import threading
from concurrent.futures import Future

import pytest

from tests.spouts.messages.queue_spout import Queue, QueueSpout
from tests.spouts.messages.test_in_topologies import counting
from trident.base.errors import BatchTimeoutError
from trident.batches.group_run import GroupRun
from trident.testing import ManualClock
from trident.testing.local import start_local
from trident.user_calls.watched_calls import Subject, WatchedCalls

LIMIT = 30.0


@pytest.mark.parametrize("tries", [0, 1])
def test_a_call_fails_at_its_limit_exactly_and_the_limit_doubles(tries: int) -> None:
    clock, done, begun = ManualClock(), threading.Event(), threading.Event()
    calls = WatchedCalls("g", clock, LIMIT)

    def work() -> None:
        begun.set()
        done.wait(10)

    call: Future[None] = calls.submit("lane", Subject("it"), work, tries)
    assert begun.wait(10)
    limit, start = LIMIT * 2**tries, clock.monotonic()
    assert calls.next(start + 1000) == start + limit, "the loop waits until then, if nothing happens"
    clock.advance(limit - 0.001)
    calls.expire(clock.monotonic())
    assert not call.done()
    clock.advance(0.001)
    calls.expire(clock.monotonic())
    with pytest.raises(BatchTimeoutError, match="it ran longer than"):
        call.result(0)
    done.set()
    calls.close(5)


def test_the_loop_looks_at_the_limits_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    sound = GroupRun._idle_time

    def noted(self: GroupRun) -> float:
        asked.append(sound(self))
        return asked[-1]

    monkeypatch.setattr(GroupRun, "_idle_time", noted)
    with start_local(counting(QueueSpout(Queue({1: "a"}))), name="t") as running:
        running.processAllAvailable(timeout=30)
    assert asked and max(asked) <= 0.5
