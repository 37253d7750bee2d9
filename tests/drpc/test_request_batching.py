"""Requests that meet are answered together, each its own way, and nobody waits for a stuck one."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from trident.drpc.request_combining import Combining
from trident.drpc.request_queue import Audience, Late


class Work:
    """Doubles numbers; holds still while `closed`, and remembers its batches and threads."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.begun = threading.Semaphore(0)
        self.batches: list[list[int]] = []
        self.threads: list[int] = []

    def __call__(self, questions: Sequence[int], audience: Audience) -> list[int | Exception]:
        self.batches.append(list(questions))
        self.threads.append(threading.get_ident())
        self.begun.release()
        assert self.open.wait(10)
        return [ValueError(f"{q} is negative") if q < 0 else 2 * q for q in questions]


def waiting(combining: Combining[int, int], count: int) -> None:
    deadline = time.monotonic() + 5
    while len(combining._queue) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_an_idle_caller_answers_itself_at_once() -> None:
    work = Work()
    assert Combining(work).ask(21) == 42
    assert work.threads == [threading.get_ident()]


def test_requests_that_arrive_meanwhile_are_answered_together_and_each_gets_its_own() -> None:
    work = Work()
    combining = Combining(work, patience=60)
    work.open.clear()
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(combining.ask, 0)
        assert work.begun.acquire(timeout=5)
        others = [pool.submit(combining.ask, n) for n in range(1, 20)]
        waiting(combining, 19)
        work.open.set()
        assert first.result(5) == 0
        assert [other.result(5) for other in others] == [2 * n for n in range(1, 20)]
    assert [len(batch) for batch in work.batches] == [1, 19]
    assert combining._queue.leader is None


def test_an_outcome_that_is_an_error_reaches_its_caller_only() -> None:
    work = Work()
    combining = Combining(work, patience=60)
    work.open.clear()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(combining.ask, 1)
        assert work.begun.acquire(timeout=5)
        bad, good = pool.submit(combining.ask, -1), pool.submit(combining.ask, 3)
        waiting(combining, 2)
        work.open.set()
        assert (first.result(5), good.result(5)) == (2, 6)
        with pytest.raises(ValueError, match="-1 is negative"):
            bad.result(5)


def test_batches_have_a_limit() -> None:
    work = Work()
    combining = Combining(work, most=4, patience=60)
    work.open.clear()
    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(combining.ask, 0)]
        assert work.begun.acquire(timeout=5)
        asked += [pool.submit(combining.ask, n) for n in range(1, 11)]
        waiting(combining, 10)
        work.open.set()
        assert [each.result(5) for each in asked] == [2 * n for n in range(11)]
    assert max(map(len, work.batches)) == 4
    assert sorted(q for batch in work.batches for q in batch) == list(range(11))


def test_a_caller_with_a_timeout_leaves_in_time_even_where_it_is_the_one_that_answers() -> None:
    work = Work()
    combining = Combining(work)
    work.open.clear()
    began = time.monotonic()
    with pytest.raises(Late):
        combining.ask(1, timeout=0.05)
    assert 0.05 <= time.monotonic() - began < 1
    work.open.set()
    assert combining.ask(4, timeout=5) == 8


def test_a_waiting_caller_that_leaves_is_not_answered() -> None:
    work = Work()
    combining = Combining(work, patience=60)
    work.open.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(combining.ask, 1)
        assert work.begun.acquire(timeout=5)
        with pytest.raises(Late):
            combining.ask(2, timeout=0.02)
        work.open.set()
        assert first.result(5) == 2
    assert work.batches == [[1]]
    assert combining._queue.leader is None


def test_a_stuck_batch_holds_nobody_up_longer_than_the_patience() -> None:
    stuck = threading.Event()

    def answer(questions: Sequence[int], audience: Audience) -> list[int | Exception]:
        if 0 in questions:
            assert stuck.wait(10)
        return list(questions)

    combining: Combining[int, int] = Combining(answer, patience=0.05)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(combining.ask, 0)
        while combining._queue.leader is None:
            time.sleep(0.001)
        began = time.monotonic()
        assert combining.ask(5) == 5
        assert time.monotonic() - began < 2
        assert not first.done()
        assert combining.ask(6) == 6  # and whoever took over handed the work on
        stuck.set()
        assert first.result(5) == 0
    assert combining._queue.leader is None


def test_a_stuck_batch_that_ends_leaves_the_work_with_who_has_taken_over() -> None:
    gates = {0: threading.Event(), 1: threading.Event()}
    begun = threading.Semaphore(0)
    together: list[int] = []

    def answer(questions: Sequence[int], audience: Audience) -> list[int | Exception]:
        together.append(len(questions))
        begun.release()
        if questions[0] in gates:
            assert gates[questions[0]].wait(10)
        return list(questions)

    combining: Combining[int, int] = Combining(answer, patience=0.02)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(combining.ask, 0)
        assert begun.acquire(timeout=5)
        second = pool.submit(combining.ask, 1)
        assert begun.acquire(timeout=5)  # it lost patience
        combining._patience = 60
        gates[0].set()
        assert first.result(5) == 0
        others = [pool.submit(combining.ask, n) for n in (2, 3)]
        waiting(combining, 2)  # nobody but the second one answers now
        gates[1].set()
        assert [each.result(5) for each in (second, *others)] == [1, 2, 3]
    assert together == [1, 1, 2]


def test_too_few_answers_are_an_error_for_all_and_nobody_hangs() -> None:
    combining: Combining[int, int] = Combining(lambda questions, audience: [])
    with pytest.raises(TypeError, match="1 requests got 0 answers"):
        combining.ask(1)
    with pytest.raises(TypeError, match="1 requests got 0 answers"):
        combining.ask(1, timeout=5)


def test_a_failure_of_the_whole_batch_reaches_all_and_the_next_one_is_answered() -> None:
    fails = [True]

    def answer(questions: Sequence[int], audience: Audience) -> list[int | Exception]:
        if fails.pop() if fails else False:
            raise OSError("no store")
        return list(questions)

    combining: Combining[int, int] = Combining(answer)
    with pytest.raises(OSError, match="no store"):
        combining.ask(1)
    assert combining.ask(2) == 2


def test_an_interrupt_ends_its_caller_and_nobody_else() -> None:
    begun, go = threading.Semaphore(0), threading.Event()

    def answer(questions: Sequence[int], audience: Audience) -> list[int | Exception]:
        begun.release()
        assert go.wait(10)
        if questions[0] == 1:
            raise KeyboardInterrupt
        return list(questions)

    combining: Combining[int, int] = Combining(answer, patience=60)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(combining.ask, 0)
        assert begun.acquire(timeout=5)
        interrupted = pool.submit(combining.ask, 1)
        waiting(combining, 1)
        others = [pool.submit(combining.ask, n) for n in (2, 3)]
        waiting(combining, 3)
        go.set()
        assert first.result(5) == 0
        assert [other.result(5) for other in others] == [2, 3]
        assert isinstance(interrupted.exception(5), KeyboardInterrupt)


def test_a_crowd_is_answered_exactly_once_each() -> None:
    answered: list[int] = []

    def answer(questions: Sequence[int], audience: Audience) -> list[int | Exception]:
        answered.extend(questions)
        return [q + 1 for q in questions]

    combining: Combining[int, int] = Combining(answer, most=7, patience=5)

    def ask(worker: int) -> None:
        for n in range(200):
            question = worker * 1000 + n
            assert combining.ask(question, timeout=10 if n % 50 == 0 else None) == question + 1

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(ask, range(12)))
    assert sorted(answered) == sorted(w * 1000 + n for w in range(12) for n in range(200))
    assert combining._queue.leader is None and not combining._queue
