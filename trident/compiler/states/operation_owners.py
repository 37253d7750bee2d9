"""The owners of stateful operations' objects. An object keeps values of one step in one run, so it has one owner.

Two steps, or two runs in one process, that call one object would find each other's values in it.
"""

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Use:
    """The use of one object. While it is known here, no other object can get the id of its `target`."""

    target: object
    owner: weakref.ref[object]
    working: threading.Lock = field(default_factory=threading.Lock)


_uses: dict[int, _Use] = {}
_lock = threading.Lock()


@contextmanager
def owned(target: object, owner: object, begins: bool, error: Callable[[], Exception]) -> Iterator[None]:
    """Let `owner` use `target` within the block. With `begins` it becomes the owner, replacing a previous one.

    Raises `error` if another owner is using the object, or has become its owner since.
    """
    with _lock:
        for key in [key for key, use in _uses.items() if use.owner() is None]:
            del _uses[key]
        use = _uses.setdefault(id(target), _Use(target, weakref.ref(owner)))
        if not use.working.acquire(blocking=False):
            raise error()
        if begins:
            use.owner = weakref.ref(owner)
    try:
        if use.owner() is not owner:
            raise error()
        yield
    finally:
        use.working.release()
