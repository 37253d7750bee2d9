"""Reading of several files at once, because opening a file of an object store is slow. The tuples keep their order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Part = TypeVar("_Part")

_MOST_BYTES = 64 << 20
_MOST_ITEMS = 8
"""The most bytes and items that are read ahead. A longer item is read alone, part by part."""


def read_in_order(
    items: Sequence[_Item], read: Callable[[_Item], Iterator[_Part]], weight: Callable[[_Item], int]
) -> Iterator[_Part]:
    """Yield the parts that `read` yields for each item, in the order of the items. Threads read short items ahead.

    `weight` returns about how many bytes an item has; 0 if it is not worth a thread.

    >>> list(read_in_order(["ab", "c"], iter, len))
    ['a', 'b', 'c']
    """
    if len(items) < 2 or not any(map(weight, items)):
        for item in items:
            yield from read(item)
        return
    waiting, ahead, bytes_ahead = deque(items), deque[tuple[int, Future[list[_Part]] | Iterator[_Part]]](), 0
    with ThreadPoolExecutor(_MOST_ITEMS) as threads:
        try:
            while waiting or ahead:
                while waiting and len(ahead) < _MOST_ITEMS and (not ahead or bytes_ahead < _MOST_BYTES):
                    item = waiting.popleft()
                    size = weight(item)
                    short = 0 < size <= _MOST_BYTES
                    ahead.append((size, threads.submit(_all, read, item) if short else read(item)))
                    bytes_ahead += size
                size, parts = ahead.popleft()
                yield from parts.result() if isinstance(parts, Future) else parts
                bytes_ahead -= size
        finally:  # an error for one item ends the whole read
            threads.shutdown(cancel_futures=True)


def _all(read: Callable[[_Item], Iterator[_Part]], item: _Item) -> list[_Part]:
    return list(read(item))
