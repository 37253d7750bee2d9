"""One write of the log in Redis: its conditions, and the changes that the script makes if all conditions are true."""

from collections.abc import Iterable, Mapping

from trident.base.attempt import Lease
from trident.log.log_server import WRITE
from trident_state.redis.wire import bulks, call

_MOST_WORDS = 4_000
"""The most arguments that the script passes to one command. Lua's stack can hold about twice as many."""


class WriteRequest:
    """A write under construction.

    Each key is sent once and then referred to by its number, as `log_write.lua` expects.
    """

    def __init__(self, meta: bytes) -> None:
        self._keys, self._conditions, self._changes = [meta], list[bytes](), list[bytes]()
        self._condition_count = 0

    def must(self, key: bytes, field: str, value: bytes) -> "WriteRequest":
        """Add the condition that a field has this value. An empty value means that the field is absent."""
        self._conditions += [self._key_number(key), field.encode(), value]
        self._condition_count += 1
        return self

    def set(self, key: bytes, fields: Mapping[str, bytes | str | int]) -> "WriteRequest":
        words = [word for name, value in fields.items() for word in (name.encode(), _bytes(value))]
        return self._change(b"set", key, words)

    def drop(self, key: bytes, fields: Iterable[str]) -> "WriteRequest":
        return self._change(b"drop", key, [field.encode() for field in fields])

    def _change(self, verb: bytes, key: bytes, words: list[bytes]) -> "WriteRequest":
        for at in range(0, len(words), _MOST_WORDS):
            some = words[at : at + _MOST_WORDS]
            self._changes += [verb, self._key_number(key), b"%d" % len(some), *some]
        return self

    def delete(self, key: bytes) -> "WriteRequest":
        self._changes += [b"delete", self._key_number(key), b"0"]
        return self

    def packed(self, lease: Lease, number: int) -> bytes:
        fence = (lease.token.encode(), b"%d" % lease.epoch, b"%d" % number, b"%d" % self._condition_count)
        return call(WRITE, [bulks([key]) for key in self._keys], *fence, *self._conditions, *self._changes)

    def _key_number(self, key: bytes) -> bytes:
        if key not in self._keys:
            self._keys.append(key)
        return b"%d" % (self._keys.index(key) + 1)


def _bytes(value: bytes | str | int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
