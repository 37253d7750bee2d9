"""The prefix of a schema registry's serializers: a zero byte, then the schema number in four bytes."""

HEAD = 5


def schema_number(value: bytes) -> int:
    """Return the schema number at the beginning of a value. The encoded value starts at index `HEAD`.

    Raises ValueError for a value without this prefix.

    >>> schema_number(bytes.fromhex("0000000107") + b"{}")
    263
    """
    if len(value) < HEAD or value[0]:
        raise ValueError(
            f"expected a value of a schema registry's serializer, which begins with a zero byte and a number of four "
            f"bytes; got {bytes(value[:HEAD])!r}. Omit registry= if the values have no such prefix"
        )
    return int.from_bytes(value[1:HEAD], "big")


def looks_registered(value: object) -> bool:
    """Return whether a value begins with the prefix of a schema registry's serializer.

    >>> looks_registered(bytes(5) + b"{}"), looks_registered(b"{}")
    (True, False)
    """
    return isinstance(value, bytes) and len(value) >= HEAD and not value[0]
