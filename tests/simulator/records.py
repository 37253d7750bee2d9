"""What the server's scripts make of stored records, and of the arguments that come packed."""

import struct


class Merging:
    """How the deltas of a call meet stored records, one by one."""

    def __init__(self, txid: int, argv: list[bytes]) -> None:
        self._txid, self._deltas, self._nulls = txid, argv[5], argv[6]
        self._sum, self._max = argv[7] == b"sum", argv[7] == b"max"
        self._whole, self._bare = argv[8] == b"<i8", argv[10] == b"1"
        self._number = "<q" if self._whole else "<d"

    def record(self, j: int, stored: bytes | None) -> bytes | str | None:
        """The new record, None where the stored one stays, or why it is refused."""
        delta = self._deltas[8 * j : 8 * j + 8]
        absent = bool(self._nulls) and self._nulls[j] == 1
        if stored is None:
            return self._made(None, None if absent else delta)
        if len(stored) != (9 if self._bare else 25):
            return "CORRUPT"
        flags, t = stored[0], -1 if self._bare else int.from_bytes(stored[1:9], "little")
        if flags > 3:
            return "CORRUPT"
        if t > self._txid:
            return "AHEAD"
        if t == self._txid:
            return None
        old = stored[-8:] if flags <= 1 else None
        if absent or old is None:
            return self._made(old, old if absent else delta)
        new = self._combined(old, delta)
        return "OVERFLOW" if new is None else self._made(old, new)

    def _combined(self, old: bytes, delta: bytes) -> bytes | None:
        a, b = struct.unpack(self._number, old)[0], struct.unpack(self._number, delta)[0]
        if self._sum:
            total = a + b
            if self._whole and not -(2**63) <= total < 2**63:
                return None
            return struct.pack(self._number, total)
        if self._max:
            return delta if b > a or (b != b and a == a) else old
        return delta if a > b or (a != a and b == b) else old

    def _made(self, old: bytes | None, new: bytes | None) -> bytes:
        zero = bytes(8)
        if self._bare:
            return bytes([0 if new is not None else 2]) + (new or zero)
        flags = (0 if old is not None else 1) + (0 if new is not None else 2)
        return bytes([flags]) + self._txid.to_bytes(8, "little") + (old or zero) + (new or zero)


def counts(packed: bytes, keys: list[bytes]) -> tuple[int, ...]:
    """How many fields each bucket is given."""
    return struct.unpack(f"<{len(keys) - 1}I", packed)


def framed(blob: bytes) -> list[bytes]:
    """Values that stand with their lengths before them."""
    found, at = [], 0
    while at < len(blob):
        end = at + 4 + int.from_bytes(blob[at : at + 4], "little")
        found.append(blob[at + 4 : end])
        at = end
    return found


def txid_of(record: bytes, json: bool) -> int | None:
    """Of the last change; None where this is no record."""
    if json:
        digits = record[8:].split(b",")[0] if record.startswith(b'{"txid":') else b""
        return int(digits) if digits.isdigit() else None
    return int.from_bytes(record[1:9], "little") if len(record) > 8 else None


def is_nothing(record: bytes, form: bytes, bare: bool, done: int) -> bool:
    """Whether a record holds nothing since before batch `done`."""
    if form == b"json":
        if bare:
            return record == b"null"
        t = txid_of(record, json=True)
        return t is not None and t < done and record.startswith(b'{"txid":%d,"value":null,' % t)
    if form == b"fixed":
        null = len(record) == (9 if bare else 25) and record[0] > 1
    elif bare:
        null = record == b"N"
    else:
        null = len(record) > 13 and record[13 + int.from_bytes(record[9:13], "little") :] == b"N"
    return null and (bare or int.from_bytes(record[1:9], "little") < done)
