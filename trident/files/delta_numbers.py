"""Strings as application versions in a Delta table's log, the only facts that every version and checkpoint keeps.

Delta keeps one number for each application id (the action ``txn``). A string is divided into pieces, each stored as
the number of one application id.
"""

from collections.abc import Sequence

PIECES = 7
"""The numbers of a string of at most 42 bytes, such as a uuid."""
NUMBER_BYTES = 6
"""The bytes of one number. Readers may treat a number of more than 53 bits as floating-point."""


def pieces_of(name: str, text: str) -> list[int]:
    """Return a string as `PIECES` numbers. Raises ValueError, with the `name` of the string, if it is too long.

    >>> pieces_of("token", "abc")
    [0, 0, 0, 0, 0, 0, 6382179]
    """
    whole = text.encode().rjust(NUMBER_BYTES * PIECES, b"\0")
    if len(whole) > NUMBER_BYTES * PIECES:
        raise ValueError(f"{name} {text!r} is too long to be stored in a Delta table's record")
    starts = range(0, len(whole), NUMBER_BYTES)
    return [int.from_bytes(whole[at : at + NUMBER_BYTES], "big") for at in starts]


def text_of(pieces: Sequence[int]) -> str:
    """Return the text of its numbers.

    >>> text_of(pieces_of("token", "abc"))
    'abc'
    """
    return b"".join(piece.to_bytes(NUMBER_BYTES, "big") for piece in pieces).lstrip(b"\0").decode()
