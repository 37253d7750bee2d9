"""The rules of digests. The digest of a text is that of its UTF-8 bytes, in lower-case hexadecimal digits."""

import hashlib
import zlib
from collections.abc import Callable

from pyspark.sql import types as spark
from pyspark.sql.types import DataType

from trident.expressions.expression_types import LONG, STRING
from trident.expressions.rules import Typed, as_is, rule, takes


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, spark.StringType | spark.BinaryType | spark.NullType)


_BYTES = (_is_bytes, "a text or binary")
SHA2 = (224, 256, 384, 512)
"""The lengths of SHA-2, in bits."""


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _sql(name: str, bits: str = "") -> Callable[..., str]:
    return lambda call, text: f"{name}(CAST({text} AS BINARY){bits.format(*call.params)})"


def _sha2(call: Typed) -> Callable[[str | bytes], str]:
    digest = getattr(hashlib, f"sha{call.params[0]}")
    return lambda value: digest(_bytes(value)).hexdigest()


_md5 = as_is(lambda value: hashlib.md5(_bytes(value), usedforsecurity=False).hexdigest())
_sha1 = as_is(lambda value: hashlib.sha1(_bytes(value), usedforsecurity=False).hexdigest())

rule("md5", takes(_BYTES, gives=STRING), _md5, _sql("md5"))
rule("sha1", takes(_BYTES, gives=STRING), _sha1, _sql("sha1"))
rule("sha2", takes(_BYTES, gives=STRING), _sha2, _sql("sha2", ", {}"))
rule("crc32", takes(_BYTES, gives=LONG), as_is(lambda value: zlib.crc32(_bytes(value))), _sql("crc32"))
