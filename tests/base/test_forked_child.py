"""In a forked child locks are free, connections are gone, and libraries with threads of the parent are refused."""

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from trident.base.cached_property import cached_property
from trident.base.forked_child import check_not_inherited, free_in_child, held_at_fork, in_child, leave_to_parent, sever
from trident.testing.contracts.stores.fixtures import in_children
from trident_client import forked_child


def in_a_child(work: Callable[[], Any]) -> str:
    child, _ = in_children(lambda: str(work()), lambda: "right", count=1)
    return child


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, threading.Condition])
def test_a_lock_that_another_thread_held_at_the_fork_is_free_in_the_child(make: Callable[[], Any]) -> None:
    lock, held, over = free_in_child(make()), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(20)
    try:
        assert in_a_child(lambda: lock.acquire(timeout=1)) == "True"
        assert not lock.acquire(blocking=False), "the parent's lock is as it was"
    finally:
        over.set()
        holder.join()


def test_a_property_that_another_thread_computed_at_the_fork_is_computed_in_the_child() -> None:
    """Python 3.11 has one lock for the property of all objects of a class."""
    computing, over = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits: bool) -> None:
            self._waits = waits

        @cached_property
        def value(self) -> str:
            if self._waits:
                computing.set()
                over.wait(20)
            return "computed"

    slow = Slow(waits=True)
    computer = threading.Thread(target=lambda: slow.value)
    computer.start()
    computing.wait(20)
    try:
        assert in_a_child(lambda: Slow(waits=False).value) == "computed"
    finally:
        over.set()
        computer.join()
    assert slow.value == "computed"


class Renewed:
    def __init__(self, fails: bool = False) -> None:
        self.times, self._fails = 0, fails
        in_child(self, Renewed.begin_again)

    def begin_again(self) -> None:
        self.times += 1
        if self._fails:
            raise OSError("cannot begin again")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_each_object_begins_again_even_if_another_one_fails() -> None:
    first, failing, last = Renewed(), Renewed(fails=True), Renewed()
    assert in_a_child(lambda: (first.times, failing.times, last.times)) == "(1, 1, 1)"
    assert (first.times, last.times) == (0, 0)


def test_a_child_cannot_write_to_a_severed_connection() -> None:
    ours, its = socket.socketpair()

    def say_goodbye() -> str:
        sever(ours.fileno())
        leave_to_parent(ours)
        try:
            ours.sendall(b"goodbye")
        except OSError:
            return "severed"
        return "sent"

    with ours, its:
        assert in_a_child(say_goodbye) == "severed"
        ours.sendall(b"dog")
        assert its.recv(20) == b"dog"


def test_no_thread_is_in_a_library_at_the_fork() -> None:
    lock, inside, begun, ready = threading.Lock(), [False], threading.Event(), list[str]()

    class Holder:
        pass

    holder = Holder()
    held_at_fork(lock, holder, lambda _: ready.append("ready"))

    def work() -> None:
        with lock:
            inside[0] = True
            begun.set()
            time.sleep(0.3)
            inside[0] = False

    working = threading.Thread(target=work)
    working.start()
    begun.wait(20)
    assert in_a_child(lambda: (inside, ready, lock.acquire(timeout=1))) == "([False], ['ready'], True)"
    working.join()
    assert lock.acquire(timeout=1), "the parent has released it"


def test_a_library_that_the_parent_has_used_is_refused_in_a_child() -> None:
    name = f"a library {time.monotonic()}"
    assert in_a_child(lambda: check_not_inherited(name)) == "None", "the child is the first to use it"
    check_not_inherited(name)
    check_not_inherited(name)
    assert in_a_child(lambda: check_not_inherited(name)) == "refused"


def test_the_refusal_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from trident.errors import TridentError

    name = f"library{time.monotonic()}"
    check_not_inherited(name)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(TridentError, match=rf"{name}.*forked child.*spawn"):
        check_not_inherited(name)


def test_a_lock_that_is_registered_while_a_fork_waits_is_held_too() -> None:
    """Another thread opens a reader then; in the child it would be in the middle of a call."""

    class Owner:
        pass

    first, late, locks = Owner(), Owner(), [threading.Lock(), threading.Lock()]
    forked_child.held_at_fork(locks[0], first, lambda _: forked_child.held_at_fork(locks[1], late))
    forked_child._before_fork()
    try:
        assert locks[0].locked() and locks[1].locked()
    finally:
        forked_child._after_in_parent()
    assert not locks[0].locked() and not locks[1].locked()


def test_two_threads_fork_one_after_the_other() -> None:
    """The end of one fork would release the locks that the other one has taken."""
    forked_child._before_fork()
    other = threading.Thread(target=lambda: (forked_child._before_fork(), forked_child._after_in_parent()))
    other.start()
    other.join(0.1)
    waited = other.is_alive()
    forked_child._after_in_parent()
    other.join(10)
    assert waited and not other.is_alive()
