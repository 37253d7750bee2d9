"""The scripts that run inside the server: constants; data reaches them only as KEYS and ARGV."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files

_LUA = files("trident_state.redis") / "lua"


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name under which the server knows it."""

    name: str
    source: bytes
    sha: bytes


def _script(name: str) -> Script:
    source = b"\n".join((_LUA / f"{part}.lua").read_bytes() for part in ("answer", name))
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


CREATE = _script("create")
ACQUIRE = _script("acquire")
OPEN = _script("open")
MERGE = _script("merge")
PUT = _script("put")
COMMIT = _script("commit")

ALL = (CREATE, ACQUIRE, OPEN, MERGE, PUT, COMMIT)
