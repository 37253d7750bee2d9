"""The Lua scripts that run inside the server. Their text is constant: they get data only as KEYS and ARGV."""

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_LUA = files("trident_state.redis") / "lua"


@dataclass(frozen=True, slots=True)
class Script:
    """The name and text of a script, and the SHA-1 by which the server identifies it."""

    name: str
    source: bytes
    sha: bytes

    @classmethod
    def of(cls, name: str, *parts: Traversable) -> "Script":
        """Return the script with the content of the given files as text, one after the other.

        It begins with a check of the rights that it needs. Rights to commands of sorted sets are not checked here: only
        states with an index of due times need them (due.lua checks them).
        """
        text = b"\n".join(part.read_bytes() for part in parts)
        names = {name for name in re.findall(rb"redis\.call\('([A-Z]+)'", text) if not name.startswith(b"Z")}
        asked = b"ask({%s})\n" % b", ".join(b"'%s'" % name for name in sorted(names))
        source = b"\n".join([(_LUA / "rights.lua").read_bytes(), asked, text])
        return cls(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


def _script(name: str, *parts: str) -> Script:
    return Script.of(name, *[_LUA / f"{part}.lua" for part in ("answer", *parts, name)])


CREATE = _script("create")
ACQUIRE = _script("acquire")
DROP = _script("drop")
OPEN = _script("open")
MERGE = _script("merge", "legend")
PUT = _script("put", "legend", "due")
COMMIT = _script("commit")
CLEAR = _script("clear", "legend")
SWEEP = _script("sweep", "legend")
INDEX = _script("index", "due")

ALL = (CREATE, ACQUIRE, DROP, OPEN, MERGE, PUT, COMMIT, CLEAR, INDEX)
