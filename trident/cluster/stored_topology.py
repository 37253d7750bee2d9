"""A stored topology: a folder with everything that a driver needs to start it, on any machine.

topology.json   the program's name, options, the plan in words, versions; written once
code.zip        the program's code; written once
wish.json       what operators want: active or not, numbers of partitions, killed
report.json     what its driver last said of itself
driver.lock     locked while a driver lives
driver.log      what drivers print that were started by a submit
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from trident.base.errors import TopologyActiveError, TopologyError, TopologyNotFoundError
from trident.base.files import fsync_folder, make_folder
from trident.base.names import check_name, did_you_mean

FORMAT = 1

T = TypeVar("T", bound=msgspec.Struct)


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """What a submit stored. `options` are those of the start, `confs` those of the Spark session."""

    format: int = FORMAT
    name: str
    id: str
    program: str
    submitted: str
    digest: str
    options: dict[str, Any]
    master: str | None = None
    confs: dict[str, str] = {}
    versions: dict[str, str]
    plan: str
    hints: dict[str, int]
    """The program's own numbers of partitions, by step."""


class Wish(msgspec.Struct, frozen=True):
    """What operators want. `number` grows with each change; `kill` is the seconds to wait for planned batches."""

    number: int = 0
    active: bool = True
    hints: dict[str, int] = {}
    kill: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver reports about itself.

    `number` is the last wish that it carried out, or that failed with `error`.
    """

    number: int
    condition: str
    host: str
    pid: int
    committed: dict[str, int] = {}
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StoredTopology:
    """The folder of a stored topology."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def code(self) -> Path:
        return self.folder / "code.zip"

    @property
    def said(self) -> Path:
        """The file for the output of drivers that a submit started."""
        return self.folder / "driver.log"

    def submitted(self) -> Submitted:
        """Return what the submit stored. Raises TopologyError if the file is damaged, or written by a later version."""
        submitted = self._read("topology.json", Submitted)
        if submitted is None:
            raise TopologyNotFoundError(f"there is no stored topology in {self.folder}")
        if submitted.format != FORMAT:
            raise TopologyError(f"{self.folder} has format {submitted.format}; this version reads format {FORMAT}")
        return submitted

    def wish(self) -> Wish | None:
        """Return what operators want; None if the topology was removed."""
        return self._read("wish.json", Wish)

    def report(self) -> Report | None:
        """Return the last report of a driver; None if no driver ever wrote one."""
        return self._read("report.json", Report)

    def write(self, name: str, content: msgspec.Struct, durable: bool = True) -> None:
        """Replace a file of the folder as a whole."""
        aside = self.folder / f".{name}.{uuid4().hex}"
        with aside.open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(content), indent=2))
            file.flush()
            if durable:
                os.fsync(file.fileno())
        aside.replace(self.folder / name)
        if durable:
            fsync_folder(self.folder)

    def _read(self, name: str, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode((self.folder / name).read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise TopologyError(f"{self.folder / name} is damaged: {error}") from None

    # --- the driver ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the topology's lock for drivers within the block. Raises TopologyActiveError if a driver is running."""
        with self._locked() as got:
            if not got:
                report = self.report()
                where = f" (process {report.pid} on {report.host})" if report else ""
                raise TopologyActiveError(
                    f"topology {self.name!r} has a driver that lives{where}: stand by for it with --standby, or kill it"
                )
            yield

    def is_driven(self) -> bool:
        """Return whether a driver is running. The operating system frees a driver's lock when its process ends."""
        if not self.folder.is_dir():
            return False
        with self._locked() as got:
            return not got

    @contextlib.contextmanager
    def _locked(self) -> Iterator[bool]:
        try:
            lock = os.open(self.folder / "driver.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # removed in this moment
            yield True
            return
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(lock)

    def remove(self) -> None:
        """Free the name, then delete the folder. States and log stay. Do nothing if the topology was removed."""
        removed = self.folder.parent.parent / "removed"
        make_folder(removed)
        aside = removed / uuid4().hex
        with contextlib.suppress(FileNotFoundError):
            self.folder.rename(aside)
            fsync_folder(self.folder.parent)
            shutil.rmtree(aside, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Home:
    """The folder with all stored topologies: ``--home``, or TRIDENT_HOME, or ``~/.trident``."""

    folder: Path = field(default_factory=lambda: Path(os.environ.get("TRIDENT_HOME") or "~/.trident").expanduser())

    @property
    def checkpoints(self) -> Path:
        """The checkpointLocation of topologies that do not name one."""
        return self.folder / "checkpoints"

    def at(self, name: str) -> StoredTopology:
        """Return the folder of a topology, whether or not it exists. Raises TopologyError for an invalid name."""
        check_name("topology", name)
        return StoredTopology(self.folder / "topologies" / name)

    def all(self) -> list[StoredTopology]:
        """Return the stored topologies, by name."""
        folders = sorted((self.folder / "topologies").glob("*/topology.json"))
        return [StoredTopology(file.parent) for file in folders]

    def find(self, name: str) -> StoredTopology:
        """Return a stored topology. Raises TopologyNotFoundError if no topology has this name."""
        stored = self.at(name)
        if not (stored.folder / "topology.json").is_file():
            names = [each.name for each in self.all()]
            known = f"stored are {', '.join(names)}" if names else "there is none"
            raise TopologyNotFoundError(f"{self.folder} has no topology {name!r}{did_you_mean(name, names)}; {known}")
        return stored

    def check_free(self, name: str) -> None:
        """Raise TopologyActiveError if a topology has this name."""
        stored = self.at(name)
        if stored.folder.exists():
            raise TopologyActiveError(
                f"{self.folder} has a topology {name!r} already: `trident kill {name}` removes it, "
                f"`trident resume {name}` starts a driver for it; or submit this one under another --name"
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the home within the block, so that only one process at a time changes what is stored."""
        make_folder(self.folder)
        lock = os.open(self.folder / "home.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def staged(self, name: str) -> Iterator[StoredTopology]:
        """Yield a folder to fill. At the end of the block it becomes the folder of the topology.

        If the name was taken meanwhile, this raises TopologyActiveError and deletes the folder, as after any error.
        """
        aside = self.folder / "staging" / uuid4().hex / name
        make_folder(aside)
        try:
            yield StoredTopology(aside)
            with self.locked():
                self.check_free(name)
                make_folder(self.folder / "topologies")
                aside.rename(self.at(name).folder)
                fsync_folder(self.folder / "topologies")
        finally:
            shutil.rmtree(aside.parent, ignore_errors=True)

    def change(self, name: str, **changes: Any) -> Wish:
        """Change what operators want of a topology, durably, and return the new wish. Raises TopologyNotFoundError."""
        with self.locked():
            stored = self.find(name)
            before = stored.wish() or Wish()
            if before.kill is not None and changes.get("kill") is None:
                raise TopologyActiveError(f"topology {name!r} is KILLED: it can only be submitted again")
            wish = msgspec.structs.replace(before, number=before.number + 1, **changes)
            stored.write("wish.json", wish)
            return wish
