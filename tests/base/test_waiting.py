"""Waits that an exception of a signal handler leaves at any line."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from trident.base.interruptible_waits import Flag, Waits
from trident.batches.idle_moments import IdleMoments


class Interrupt(BaseException):
    """As KeyboardInterrupt, but pytest does not end at it."""


def interrupted_at_each_line(begin: Callable[[], tuple[Callable[[], object], Callable[[], object]]]) -> Iterator[Any]:
    """For each line that a wait runs, begin one, interrupt it at that line, and yield the function that ends waits."""
    line, reached = 0, True
    while reached:
        left, reached = line, False

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left, reached
            left -= event == "line"
            if left < 0 and not reached:
                reached = True
                raise Interrupt
            return trace

        wait, end = begin()
        former = sys.gettrace()
        sys.settrace(trace)
        try:
            wait()
        except Interrupt:
            yield end
        finally:
            sys.settrace(former)
        line += 1
    assert line > 10


def flag() -> Any:
    waited = Flag()
    return lambda: waited.wait(0.01), lambda: (waited.set(), waited.wait(0))[1]


def rests() -> Any:
    waited = IdleMoments(over=lambda: False)

    def end() -> bool:
        waited.plan_begins()
        waited.found_nothing()
        return waited.wait(lambda: (waited.plan_begins(), waited.found_nothing()), 0)

    return lambda: waited.wait(lambda: None, 0.01), end


@pytest.mark.parametrize("begin", [flag, rests])
def test_an_interrupt_at_any_line_of_a_wait_holds_no_other_thread_up(begin: Any) -> None:
    for end in interrupted_at_each_line(begin):
        ended: list[object] = []
        other = threading.Thread(target=lambda end=end, ended=ended: ended.append(end()), daemon=True)  # type: ignore[misc]
        other.start()
        other.join(5)
        assert ended == [True]


def test_threads_wait_until_their_condition_is_true() -> None:
    waits, numbers, seen = Waits(), [0], []

    def wait(number: int) -> None:
        if waits.until(lambda: numbers[0] >= number, 20):
            seen.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in (1, 2, 2)]
    for thread in threads:
        thread.start()
    for number, expected in enumerate(([], [1], [1, 2, 2])):
        numbers[0] = number
        waits.wake()
        for thread, at in zip(threads, (1, 2, 2), strict=True):
            if at <= number:
                thread.join(20)
        assert seen == expected


def test_a_wait_ends_after_its_time() -> None:
    assert not Flag().wait(-1)
    assert not Flag().wait(0.01)


def test_a_condition_that_raises_ends_the_wait() -> None:
    with pytest.raises(ZeroDivisionError):
        Waits().until(lambda: 1 / 0)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="handlers need the main thread")
@pytest.mark.parametrize("timeout", [None, 30])
def test_a_signal_that_another_thread_gets_is_handled_while_the_main_thread_waits(timeout: float | None) -> None:
    handled, given_up = Flag(), Flag()

    def send() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        if not handled.wait(20):
            given_up.set()
            handled.set()

    former = signal.signal(signal.SIGUSR1, lambda number, frame: handled.set())
    try:
        sender = threading.Timer(0.3, send)  # the main thread waits by then
        sender.start()
        assert handled.wait(timeout) and not given_up.is_set()
        sender.join()
    finally:
        signal.signal(signal.SIGUSR1, former)
