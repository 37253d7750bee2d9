"""The part of every script of a state that reads the meta hash of a group, and answers about it (answer.lua)."""

from collections.abc import Mapping


class FakeMeta:
    """The fields of a meta hash that a script reads first, and the refusals and answers that follow from them."""

    __slots__ = ("epoch", "log", "marker", "open", "token")

    def __init__(self, at: Mapping[bytes, bytes]) -> None:
        self.token, self.epoch = at.get(b"token"), at.get(b"epoch")
        self.open, self.marker, self.log = at.get(b"open"), at.get(b"marker"), at.get(b"log")

    def answer(self, status: bytes, detail: bytes = b"") -> list[bytes]:
        return [status, self.token or b"", self.epoch or b"", self.open or b"", self.marker or b"", detail]

    def fenced(self, argv: list[bytes]) -> bytes | None:
        if self.epoch is None or self.token is None or self.marker is None:
            return b"GONE"
        if self.token == argv[0] and self.epoch == argv[1]:
            return None
        return b"REWOUND" if int(self.epoch) < int(argv[1]) else b"FENCED"

    def newer_or_other(self, argv: list[bytes], log: bytes) -> list[bytes] | None:
        if self.epoch is None:
            return None
        if log and self.log != log:
            return self.answer(b"OTHER", self.log or b"")
        if int(self.epoch) > int(argv[1]) or (self.epoch == argv[1] and self.token != argv[0]):
            return self.answer(b"FENCED")
        return None

    def closed(self, argv: list[bytes]) -> bytes | None:
        refused = self.fenced(argv)
        if refused is not None:
            return refused
        return b"CLOSED" if self.open != argv[2] else None
