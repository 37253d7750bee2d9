"""What a forked child must not take over from its parent: connections, threads, and locks that another thread holds.

`os.fork` copies the parent's objects, as does `multiprocessing` with the start method "fork", and a web server that
loads the program before its workers. If parent and child use one connection, each takes replies to the other's
requests. A lock that another thread held at the fork stays locked in the child, which has none of the parent's threads.

So each object that keeps a connection or a lock from call to call registers here. In the child it begins again: it
drops its connections, without a word to the server, and opens others when it needs them.
"""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from trident_client.errors import TridentError

T = TypeVar("T")

_PATIENCE = 5.0
"""The most seconds that a fork waits for a lock of `held_at_fork`."""

_renewals = WeakKeyDictionary[Any, Callable[[Any], None]]()
_held = WeakKeyDictionary[Any, tuple[Any, Callable[[Any], None]]]()
_taken: list[Any] = []
_forking = threading.Lock()
"""Held within a fork: the end of another thread's fork would release the locks that this one has taken."""
_left: list[Any] = []
_users: dict[str, int] = {}


def in_child(owner: T, renew: Callable[[T], None]) -> T:
    """Return `owner`, for which a forked child will call ``renew(owner)``.

    `renew` takes no lock, waits for nothing, and sends nothing. The owner is compared by identity, and not kept alive.
    """
    _renewals[owner] = renew
    return owner


def free_in_child(lock: T) -> T:
    """Return a lock or condition that is free in a forked child, even if a thread of the parent held it."""
    return in_child(lock, _free)


def held_at_fork(lock: Any, owner: T, ready: Callable[[T], None] = lambda owner: None) -> None:
    """Let a fork take a lock first, call ``ready(owner)``, and release the lock afterwards.

    So no thread is in a C library at the fork whose global locks no child could free, as those of SQLite. A fork waits
    a few seconds at most.
    """
    _held[owner] = lock, ready


def leave_to_parent(inherited: object) -> None:
    """Keep an object until the child ends: a finalizer might talk to the parent's server, or wait for a thread."""
    _left.append(inherited)


def sever(descriptor: int) -> None:
    """Put an empty file in place of the child's copy of a connection, so that the child cannot write to it.

    The number stays in use: a client library that closes it later closes no other file.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nothing, descriptor, inheritable=False)
    finally:
        os.close(nothing)


def check_not_inherited(library: str) -> None:
    """Record the use of a library with threads of its own.

    Raises TridentError in a forked child of a process that has used it: the child would wait for threads that it does
    not have.
    """
    if _users.setdefault(library, os.getpid()) != os.getpid():
        raise TridentError(
            f"the package {library} cannot be used in a forked child of a process that has used it, because the child "
            f"lacks its threads. Start this process with multiprocessing.get_context('spawn'), or use {library} only "
            f"in the children"
        )


def _free(lock: Any) -> None:
    lock._at_fork_reinit()  # noqa: SLF001 (of Python's locks and conditions; `logging` has no other way either)


def _before_fork() -> None:
    _forking.acquire()
    seen = dict[int, Any]()
    while new := [(owner, held) for owner, held in list(_held.items()) if id(owner) not in seen]:  # some come meanwhile
        for owner, (lock, ready) in new:
            seen[id(owner)] = owner
            if lock.acquire(timeout=_PATIENCE):
                _taken.append(lock)
                ready(owner)


def _after_in_parent() -> None:
    while _taken:
        _taken.pop().release()
    _forking.release()


def _after_in_child() -> None:
    _after_in_parent()
    with ExitStack() as renewed:  # one that fails must not prevent the others
        for owner, renew in list(_renewals.items()):
            renewed.callback(renew, owner)


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
