"""When a file was made: what tells a renamed file from a new one that got the inode of a deleted one."""

import ctypes
import os
import struct
import sys
from functools import cache
from typing import Any

_EMPTY_PATH, _BIRTH = 0x1000, 0x800
_AT = 80
"""Where seconds and nanoseconds of the birth stand in Linux's ``struct statx``."""


def birth_of(descriptor: int) -> int:
    """Return the time (ms) at which an opened file was made; 0 where system or file system do not tell.

    It stays when the file is renamed. Python's own stat has it on other systems than Linux only.
    """
    if sys.platform != "linux":
        return int(getattr(os.fstat(descriptor), "st_birthtime", 0) * 1000)
    statx, told = _statx(), ctypes.create_string_buffer(256)
    if statx is None or statx(descriptor, b"", _EMPTY_PATH, _BIRTH, told) != 0:
        return 0
    (mask,), (seconds, nanoseconds) = struct.unpack_from("=I", told), struct.unpack_from("=qI", told, _AT)
    return int(seconds * 1000 + nanoseconds // 1_000_000) if mask & _BIRTH else 0


@cache
def _statx() -> Any:
    """Return the C library's function; None where it has none."""
    statx = getattr(ctypes.CDLL(None), "statx", None)
    if statx is not None:
        statx.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p
    return statx
