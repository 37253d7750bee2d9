"""Positions in the log of changes that a PostgreSQL server writes (LSN), as numbers and as the server writes them."""


def lsn_from(text: str) -> int:
    """Return the number of an LSN.

    >>> lsn_from("1/2A")
    4294967338
    """
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return an LSN as the server writes it.

    >>> lsn_text(4294967338)
    '1/2A'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
