"""An object store, in the place of S3: objects that are written whole, and whatever goes wrong with requests for them.

What it does is durable. A request may be refused, be done without a reply, or arrive when nobody waits for it any more.
A conditional write may be done and, because the client sends it a second time by itself, be answered as if somebody
else had done it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs

from tests.simulator.in_world import Worlds
from tests.simulator.scheduler import Crashed, Process

if TYPE_CHECKING:
    from tests.simulator.world import World

TROUBLES = {
    "refuses": 4,  # nothing is done
    "unheard": 4,  # all is done, and no reply comes
    "late": 4,  # no reply comes, and a write arrives later
    "slow": 3,  # the reply takes long
    "asked again": 3,  # done, and the client sends it again: a conditional write finds what it has done itself
    "away": 2,  # for some time nothing is answered
}
"""The fates of requests, each with its frequency."""

FAULT = "object store "
"""The beginning of the names under which a schedule counts these faults."""


@dataclass(frozen=True)
class Stored:
    """An object, and when it was written, in seconds of the world."""

    content: Any
    at: float

    @property
    def stamp(self) -> int:
        """The time of its last change (ns)."""
        return 1 + int(self.at * 1e9)


@dataclass
class Bucket:
    """The objects of a schedule, by address. Its own random numbers decide what goes wrong."""

    world: "World"
    dice: Random
    objects: dict[str, Stored] = field(default_factory=dict)
    left: int = 0
    """The requests that still go wrong."""
    often: float = 0.0
    away_until: float = 0.0
    late: list[Callable[[], None]] = field(default_factory=list)
    """Writes that are on their way, and of which nobody hears."""

    def __post_init__(self) -> None:
        self.process = Process("object store")

    def draw(self) -> None:
        """Draw how much goes wrong, in a schedule that keeps something here."""
        self.left, self.often = self.dice.choice((0, 2, 4, 8, 16)), self.dice.choice((0.01, 0.05, 0.2))
        self.world.scheduler.processes.append(self.process)

    def stop(self) -> None:
        """Nothing more goes wrong."""
        self.left, self.away_until = 0, 0.0

    # --- requests ------------------------------------------------------------------------------------------------

    def read(self, what: str, name: str) -> None:
        """A request that changes nothing is under way. Raises OSError if there is no answer."""
        trouble = self._arrive(what, name)
        if trouble in ("refuses", "unheard", "late"):
            raise OSError(f"Generic S3 error: {what} {name}: no answer")

    def write(self, what: str, name: str, work: Callable[[], bool]) -> bool:
        """Let a request do its work: all of it at once. Return whether its condition held."""
        try:
            trouble = self._arrive(what, name)
        except Crashed:
            if self.dice.random() < 0.5:
                self._later(work)
            raise
        if trouble == "refuses":
            raise OSError(f"Generic S3 error: {what} {name}: 503 Slow Down")
        if trouble == "late":
            self._later(work)
            raise OSError(f"Generic S3 error: {what} {name}: operation timed out")
        done = work()
        if trouble == "asked again":
            done = work()
        self.world.scheduler.point("object store", what, name, "done")
        if trouble == "unheard":
            raise OSError(f"Generic S3 error: {what} {name}: connection closed before message completed")
        return done

    def _arrive(self, what: str, name: str) -> str | None:
        """A point before a request is done. Return what goes wrong with it."""
        scheduler = self.world.scheduler
        scheduler.point("object store", what, name)
        if scheduler.now < self.away_until:
            self._pass(0.05)
            raise OSError(f"Generic S3 error: {what} {name}: connection refused")
        if not self.left or self.world.ending or self.dice.random() >= self.often:
            return None
        self.left -= 1
        trouble = self.dice.choices([*TROUBLES], [*TROUBLES.values()])[0]
        self.world.say("%s%s: %s %s", FAULT, trouble, what, name)
        self.world.result.faults[f"{FAULT}{trouble}"] += 1
        if trouble == "away":
            self.away_until = scheduler.now + self.dice.choice((0.01, 0.1, 1.0, 4.0))
            raise OSError(f"Generic S3 error: {what} {name}: connection refused")
        if trouble == "slow":
            self._pass(self.dice.choice((0.01, 0.1, 1.0)))
        return trouble

    def _pass(self, seconds: float) -> None:
        """Let time pass for a task with a stack of its own. Another one may hold a lock for which somebody waits."""
        if self.world.scheduler.fiber is not None:
            self.world.scheduler.sleep(seconds)

    def _later(self, work: Callable[[], bool]) -> None:
        if self.world.over:
            return
        self.late.append(lambda: work() and None)
        self.process.loops[:] = [lambda now: self._deliver]

    def _deliver(self) -> None:
        self.late.pop(self.dice.randrange(len(self.late)))()
        if not self.late:
            self.process.loops.clear()

    # --- objects -------------------------------------------------------------------------------------------------

    def put(self, name: str, content: Any) -> bool:
        """Write an object, which may be there."""
        self.objects[name] = Stored(content, self.world.scheduler.now)
        return True

    def create(self, name: str, content: Any) -> bool:
        """Write an object unless it is there. Return whether it was not."""
        return name not in self.objects and self.put(name, content)

    def delete(self, name: str) -> bool:
        """Delete an object. Return whether it was there."""
        return self.objects.pop(name, None) is not None

    def below(self, folder: str) -> list[str]:
        """Return the names of the objects in a folder, relative to it."""
        return sorted(name[len(folder) + 1 :] for name in self.objects if name.startswith(f"{folder}/"))


class BucketFiles:
    """The objects below an address, as a file system of pyarrow: as much of one as `TableFolder` uses."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def _bucket(self) -> Bucket:
        bucket: Bucket = Worlds.now.bucket
        return bucket

    def _path(self, path: str) -> str:
        return f"{self._address}/{path}"

    def get_file_info(self, asked: Any) -> list[pa.fs.FileInfo]:
        """Return what is known of some files; or of the files and folders in a folder."""
        bucket = self._bucket
        if isinstance(asked, list):
            bucket.read("head", self._path(asked[0]))
            return [self._info(path) for path in asked]
        bucket.read("list", self._address)
        names = dict.fromkeys(name.partition("/")[0] for name in bucket.below(self._address))
        return [self._info(name) for name in names]

    def _info(self, path: str) -> pa.fs.FileInfo:
        found = self._bucket.objects.get(self._path(path))
        if found is not None:
            size = len(found.content) if isinstance(found.content, bytes) else 100
            return pa.fs.FileInfo(path, pa.fs.FileType.File, mtime_ns=found.stamp, size=size)
        folder = self._bucket.below(self._path(path))
        return pa.fs.FileInfo(path, pa.fs.FileType.Directory if folder else pa.fs.FileType.NotFound)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Return the content of a file, which is read at once."""
        self._bucket.read("get", self._path(path))
        found = self._bucket.objects.get(self._path(path))
        if found is None:
            raise FileNotFoundError(path)
        return pa.BufferReader(found.content)

    def open_output_stream(self, path: str) -> "Upload":
        """Return a stream into a new object, which is there when the stream is closed."""
        return Upload(self._bucket, self._path(path))

    def delete_file(self, path: str) -> None:
        """Delete an object."""
        bucket, name = self._bucket, self._path(path)
        bucket.write("delete", name, lambda: bucket.delete(name))


class Upload(BytesIO):
    """An object that is written as a whole at the end of its block, unless that ends with an error."""

    def __init__(self, bucket: Bucket, name: str) -> None:
        super().__init__()
        self._bucket, self._name = bucket, name

    def __exit__(self, kind: Any, *rest: Any) -> None:
        content, bucket, name = self.getvalue(), self._bucket, self._name
        if kind is None:
            bucket.write("put", name, lambda: bucket.put(name, content))
