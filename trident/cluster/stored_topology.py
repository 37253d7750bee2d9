"""A stored topology: a folder with everything that a driver needs to start it, on any machine.

Only the owner can read the files. Each file is read separately, so a damaged file does not hide the content of the
others.

topology.json   the program's name, options, the plan in words, versions; written once
code.zip        the program's code; written once
wish.json       what operators want: active or not, numbers of partitions, killed
report.json     what its driver last said of itself
driver.lock     locked while a driver lives
driver.log      what drivers print that were started by a submit
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from trident.base.durable_files import fsync_folder, make_folder
from trident.base.errors import TopologyActiveError, TopologyError, TopologyNotFoundError
from trident.base.names import check_name, did_you_mean
from trident.cluster import process_lock

FORMAT = 2

_SUBMIT_LOCK = "submit.lock"
_LOCK_SECONDS = 0.01
"""Seconds between two attempts to lock the home. Each holder keeps the lock only for a moment."""

T = TypeVar("T", bound=msgspec.Struct)


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The stored description of a submit. `options` are those of the start, `confs` those of the Spark session."""

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
    """The numbers of partitions in the program, by step."""
    folder: str
    """The working folder of the submit, to which the program's relative paths refer."""
    paths: list[str]
    """The local paths in the program's plan at the submit, absolute."""


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wish of an operator. `number` grows with each change; `kill` is the seconds to wait for planned batches.

    An unknown field (of a later version) is an error, because the operator would wait for ever for a driver that
    ignores it.
    """

    number: int = 0
    active: bool = True
    hints: dict[str, int] = {}
    kill: float | None = None
    id: str = ""
    """The id of the submission, because another topology may have the name after a kill; "" if it is not known."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's report about itself.

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
        """Return the stored submit. Raises TopologyError if the file is damaged, or written by a later version."""
        form = self._read("topology.json", _Format)  # checked first, because a later format may have other fields
        if form is not None and form.format != FORMAT:
            raise TopologyError(
                f"{self.folder} has format {form.format}; this version reads format {FORMAT}: use the version that "
                f"submitted it"
            )
        submitted = self._read("topology.json", Submitted)
        if submitted is None:
            if self.folder.is_dir():
                raise self._damaged("topology.json", "it is missing")
            raise TopologyNotFoundError(f"there is no stored topology in {self.folder}")
        return submitted

    def wish(self, id: str = "") -> Wish | None:
        """Return the operators' wish. None if the topology was removed.

        `id`: also return None if another submission has the name now. Raises TopologyError if the file is damaged or
        missing.
        """
        wish = self._read("wish.json", Wish)
        if wish is None and self.folder.is_dir() and not (self.folder / "wish.json").exists():
            raise self._damaged("wish.json", "it is missing")
        return None if wish is not None and id and wish.id not in ("", id) else wish

    def report(self) -> Report | None:
        """Return the last report of a driver; None if no driver ever wrote one."""
        return self._read("report.json", Report)

    def write(self, name: str, content: msgspec.Struct, durable: bool = True) -> None:
        """Replace a file of the folder as a whole."""
        aside = self.folder / f".{name}.{uuid4().hex}"
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
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
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._damaged(name, f"it cannot be read: {error.strerror}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(name, str(error)) from None

    def _damaged(self, name: str, why: str) -> TopologyError:
        way_out = "Restore it from a copy" if name != "report.json" else f"`trident resume {self.name}` writes another"
        return TopologyError(
            f"{self.folder / name} is damaged, or a later version of the library wrote it: {why}. {way_out}; or "
            f"`trident kill {self.name}` removes the topology but keeps its states and log, from which a submit "
            f"continues"
        )

    # --- the driver ----------------------------------------------------------------------------------------------

    @property
    def _lock(self) -> Path:
        return self.folder / "driver.lock"

    @contextlib.contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the topology's lock for drivers within the block.

        Raises TopologyActiveError if a driver is running, and TopologyNotFoundError if the topology was removed.
        """
        with contextlib.ExitStack() as undo:
            try:
                got = undo.enter_context(process_lock.locked(self._lock))
            except FileNotFoundError:
                raise TopologyNotFoundError(f"there is no longer a stored topology in {self.folder}") from None
            if not got:
                pid = self.driver()
                where = f" (process {pid})" if pid else ""
                raise TopologyActiveError(
                    f"topology {self.name!r} has a live driver{where}: wait for it with --standby, or kill it"
                )
            yield

    def driver(self) -> int | None:
        """Return the process of the driver; None if none is running.

        The process is 0 if it runs on another machine or in a container.

        The operating system frees a driver's lock when its process ends. This takes no lock, and creates no file.
        """
        return process_lock.holder_of(self._lock)

    def is_driven(self) -> bool:
        """Return whether a driver is running; see `driver`."""
        return self.driver() is not None

    def is_killed(self, id: str = "") -> bool:
        """Return whether operators want this topology removed."""
        wish = self.wish(id)
        return wish is not None and wish.kill is not None

    def remove(self, id: str = "") -> None:
        """Free the name of a killed topology, then delete its folder. States and log stay.

        Do nothing if the topology is gone, or if another topology, which was not killed, has the name now.
        """
        home = Home(self.folder.parent.parent)
        with home.locked():
            if not self.is_killed(id):
                return
            removed = home.folder / "removed"
            make_folder(removed)
            self.folder.rename(removed / uuid4().hex)
            fsync_folder(self.folder.parent)
        for aside in removed.iterdir():  # also the rest of interrupted removals
            shutil.rmtree(aside, ignore_errors=True)


class _Format(msgspec.Struct, frozen=True):
    format: int = FORMAT


_UNSTORED = (
    "a topology of `trident run` is not stored: stop it with SIGTERM, and run it again with other options, such as "
    "--inactive or --set parallelismHints=words=8"
)


@dataclass(frozen=True, slots=True)
class Home:
    """The folder with all stored topologies: ``--home``, or TRIDENT_HOME, or ``~/.trident``."""

    folder: Path = field(
        default_factory=lambda: Path(os.environ.get("TRIDENT_HOME") or "~/.trident").expanduser().absolute()
    )

    @property
    def checkpoints(self) -> Path:
        """The checkpointLocation of topologies that do not name one."""
        return self.folder / "checkpoints"

    def at(self, name: str) -> StoredTopology:
        """Return the folder of a topology, whether or not it exists. Raises TopologyError for an invalid name."""
        check_name("topology", name)
        return StoredTopology(self.folder / "topologies" / name)

    def all(self) -> list[StoredTopology]:
        """Return the stored topologies, by name. Their files are not read, so a damaged topology is listed, too."""
        return [StoredTopology(each) for each in sorted((self.folder / "topologies").glob("*")) if each.is_dir()]

    def find(self, name: str) -> StoredTopology:
        """Return a stored topology. Raises TopologyNotFoundError if no topology has this name."""
        stored = self.at(name)
        if not stored.folder.is_dir():
            names = [each.name for each in self.all()]
            known = f"stored are {', '.join(names)}" if names else "there is none"
            raise TopologyNotFoundError(
                f"{self.folder} has no topology {name!r}{did_you_mean(name, names)}; {known}. This command is for "
                f"topologies of `trident submit`; {_UNSTORED}"
            )
        return stored

    def check_free(self, name: str) -> None:
        """Raise TopologyActiveError if a topology has this name, and TopologyError if a command line misreads it."""
        stored = self.at(name)
        if name.startswith(("-", ".")):
            raise TopologyError(
                f"a stored topology cannot be named {name!r}: a name must begin with a letter or a digit ('-' would "
                f"make it an option, '.' a hidden file)"
            )
        if stored.folder.exists():
            raise TopologyActiveError(
                f"{self.folder} already has a topology {name!r}: `trident kill {name}` removes it, "
                f"`trident resume {name}` starts a driver for it; or submit this one under another --name"
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the home within the block, so that one process at a time changes its files."""
        make_folder(self.folder)
        while True:
            with process_lock.locked(self.folder / "home.lock") as got:
                if got:
                    yield
                    return
            time.sleep(_LOCK_SECONDS)

    @contextlib.contextmanager
    def staged(self, name: str) -> Iterator[StoredTopology]:
        """Yield a folder to fill. At the end of the block it becomes the folder of the topology.

        If the name was taken meanwhile, this raises TopologyActiveError and deletes the folder, as after any error.
        """
        staging = self.folder / "staging"
        aside = staging / uuid4().hex / name
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, aside.parent, ignore_errors=True)
            with self.locked():
                make_folder(aside)
                undo.enter_context(process_lock.locked(aside.parent / _SUBMIT_LOCK))
                for left in staging.iterdir():  # the folders of killed submits
                    if process_lock.holder_of(left / _SUBMIT_LOCK) is None:
                        shutil.rmtree(left, ignore_errors=True)
            yield StoredTopology(aside)
            with self.locked():
                self.check_free(name)
                make_folder(self.folder / "topologies")
                aside.rename(self.at(name).folder)
                fsync_folder(self.folder / "topologies")

    def change(self, name: str, **changes: Any) -> Wish:
        """Change the operators' wish for a topology, durably, and return it. Raises TopologyNotFoundError.

        A damaged wish can be replaced only by the wish to kill the topology.
        """
        killing = changes.get("kill") is not None
        with self.locked():
            stored = self.find(name)
            try:
                before = stored.wish() or Wish()
            except TopologyError:
                if not killing:
                    raise
                before = Wish()
            if before.kill is not None and not killing:
                raise TopologyActiveError(f"topology {name!r} is KILLED: it can only be submitted again")
            wish = msgspec.structs.replace(before, number=before.number + 1, **changes)
            stored.write("wish.json", wish)
            return wish
