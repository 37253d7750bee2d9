"""The birth of a file: the time at which the file was created.

It distinguishes a renamed file from a new file that got the inode of a deleted one.
"""

import ctypes
import os
import struct
import sys
from functools import cache
from typing import Any

_EMPTY_PATH, _BIRTH = 0x1000, 0x800
_BIRTH_OFFSET = 80
"""The offset, in Linux's ``struct statx``, of the seconds and nanoseconds of a file's birth."""


def birth_of(descriptor: int) -> int:
    """Return the time (ms since 1970) at which an opened file was created; 0 if the system does not know it.

    A rename does not change this time. Python's ``stat`` returns it only on systems other than Linux.
    """
    if sys.platform != "linux":
        return int(getattr(os.fstat(descriptor), "st_birthtime", 0) * 1000)
    statx, reply = _statx(), ctypes.create_string_buffer(256)
    if statx is None or statx(descriptor, b"", _EMPTY_PATH, _BIRTH, reply) != 0:
        return 0
    (mask,), (seconds, nanoseconds) = struct.unpack_from("=I", reply), struct.unpack_from("=qI", reply, _BIRTH_OFFSET)
    return int(seconds * 1000 + nanoseconds // 1_000_000) if mask & _BIRTH else 0


@cache
def _statx() -> Any:
    """Return the function ``statx`` of the C library; None if the library has no such function."""
    statx = getattr(ctypes.CDLL(None), "statx", None)
    if statx is not None:
        statx.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p
    return statx
