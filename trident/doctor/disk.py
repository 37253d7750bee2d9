"""The abilities that a checkpoint needs of a file system, tested in the folder."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from trident.base.finding import Finding

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"})
"""File systems of other machines, on which SQLite's locks or its memory-mapped index are not reliable."""

LEAST_FREE = 1 << 30
"""The free bytes below which a checkpoint soon fails: the log and snapshots keep many batches."""


def tried(folder: Path) -> Iterable[Finding]:
    """Yield the first operation that fails in a folder's file system: write, lock, sync, link or rename a file."""
    doing = "written"
    try:
        with tempfile.TemporaryDirectory(prefix=".trident-doctor-", dir=folder) as made:
            file = Path(made, "file")
            with file.open("wb") as opened:
                doing = "locked"
                fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                opened.write(b"x" * 4096)
                opened.flush()
                doing = "made durable (fsync)"
                os.fsync(opened.fileno())
            doing = "linked"
            os.link(file, file.with_name("link"))
            doing = "renamed over another file"
            os.replace(file, file.with_name("link"))
    except OSError as error:
        todo = "Give a folder on a disk of this machine that its user may write; another way is log=RedisLog(...) and "
        todo += "filesLocation=, which need no disk"
        found = f"a file there cannot be {doing}: {error.strerror or error}"
        yield Finding(str(folder), found, "the log needs this: a start fails, or the log may be damaged", todo)


def network(folder: Path) -> Iterable[Finding]:
    """Yield a finding if a folder is on a file system of another machine."""
    kind = _kind(folder)
    if kind in NETWORK or kind.startswith("fuse."):
        todo = "Put the checkpoint on a disk of the driver; for a driver that moves, log=RedisLog(...), filesLocation="
        matters = "SQLite's locks do not work there reliably: two drivers may write the log at once"
        yield Finding(str(folder), f"it is on a network file system ({kind})", matters, todo)


def space(folder: Path, least: int = LEAST_FREE) -> Iterable[Finding]:
    """Yield a finding if a folder has less than `least` free bytes."""
    free = shutil.disk_usage(folder).free
    if free < least:
        todo = "Free or add space, or give a checkpointLocation on a larger disk. A full disk stops batches, and loses "
        todo += "none"
        found = f"{free / 1e6:,.0f} MB are free"
        yield Finding(str(folder), found, "the log and snapshots grow with each batch until they are trimmed", todo)


def _kind(folder: Path) -> str:
    """Return the kind of the file system of a folder; "" if this system does not report it."""
    try:
        text = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    mounts = [line.split(" ") for line in text.split("\n") if line]
    inside = [(at, kind) for _, at, kind, *_ in mounts if folder == Path(at) or Path(at) in folder.parents]
    return max(inside, key=lambda mount: len(mount[0]), default=("", ""))[1]
