"""Digests of texts and binary values."""

from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.expressions.digest_rules import SHA2
from trident.expressions.functions.calls import of_field
from trident.expressions.tree import ColumnExpression


def crc32(value: object) -> ColumnExpression:
    """Return the CRC-32 checksum of a text's UTF-8 bytes, or of bytes, as a long.

    >>> crc32("url")
    crc32(col('url'))
    """
    return of_field("crc32", value)


def md5(value: object) -> ColumnExpression:
    """Return the MD5 digest of a text's UTF-8 bytes, or of bytes, as 32 hexadecimal digits.

    >>> md5("url")
    md5(col('url'))
    """
    return of_field("md5", value)


def sha1(value: object) -> ColumnExpression:
    """Return the SHA-1 digest of a text's UTF-8 bytes, or of bytes, as 40 hexadecimal digits.

    >>> sha1("url")
    sha1(col('url'))
    """
    return of_field("sha1", value)


def sha2(value: object, numBits: int) -> ColumnExpression:
    """Return the SHA-2 digest of a text's UTF-8 bytes, or of bytes, as hexadecimal digits: 224, 256, 384 or 512 bits.

    >>> sha2("email", 256)
    sha2(col('email'), 256)
    """
    if numBits not in SHA2 or isinstance(numBits, bool):
        raise TopologyError(f"sha2: numBits={brief(numBits)}: expected one of {', '.join(map(str, SHA2))}")
    return of_field("sha2", value, params=(numBits,))
