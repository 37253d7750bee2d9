"""Places of outputs: the library's own Parquet outputs over files in the world, which fall back to older copies.

In some schedules each output of the program publishes its batches, too. A place is put back to a copy, beside a driver
or between two, and its user does what the error says. Readers of a place must find every batch since its beginning.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.simulator.in_world import Worlds
from tests.simulator.scheduler import Wrong
from trident.base.errors import OutputConflictError
from trident.base.spark_types import spark_schema
from trident.compiler.program import Group
from trident.files.object_options import Storage
from trident.files.store import Sink, StoredFile
from trident.outputs.outlets import Outlets
from trident.outputs.parquet_manifests import ManifestBatches
from trident.outputs.parquet_outlet import ParquetOutlet
from trident.outputs.parquet_writers import last_writer

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

Files = dict[str, bytes]


class WorldFiles:
    """Files of the world, as a `FileStore`. Each call is a point at which its driver may die or be left standing."""

    def __init__(self, places: dict[str, Files], place: str, folder: str = "") -> None:
        self._places, self._place, self._folder = places, place, folder

    @property
    def address(self) -> str:
        return f"world://{self._place}/{self._folder}"

    @property
    def _files(self) -> Files:
        return self._places.setdefault(self._place, {})

    def below(self, folder: str) -> "WorldFiles":
        return WorldFiles(self._places, self._place, f"{self._folder}{folder}/")

    def path(self, name: str) -> str:
        return f"{self.address}{name}"

    def writer(self, name: str) -> AbstractContextManager[Sink]:
        raise NotImplementedError("a Parquet output creates its files")

    def create(self, name: str, content: bytes) -> bool:
        Worlds.now.scheduler.point("place", self._place, "create", name)
        created = self._files.setdefault(self._folder + name, content) == content
        Worlds.now.places.wrote(self._place)
        Worlds.now.scheduler.point("place", self._place, "created", name)
        return created

    def sync(self, folder: str) -> None: ...

    def read(self, name: str) -> bytes:
        Worlds.now.scheduler.point("place", self._place, "read", name)
        try:
            return self._files[self._folder + name]
        except KeyError:
            raise FileNotFoundError(self.path(name)) from None

    def size(self, name: str) -> int | None:
        content = self._files.get(self._folder + name)
        return None if content is None else len(content)

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        Worlds.now.scheduler.point("place", self._place, "list", folder)
        below = f"{self._folder}{folder}/" if folder else self._folder
        for name, content in [*self._files.items()]:
            if name.startswith(below):
                yield StoredFile(name[len(self._folder) :], len(content))

    def folders(self, folder: str) -> list[str]:
        names = [file.name.removeprefix(f"{folder}/") for file in self.files(folder)]
        return list(dict.fromkeys(name.partition("/")[0] for name in names if "/" in name))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            Worlds.now.scheduler.point("place", self._place, "delete", name)
            self._files.pop(self._folder + name, None)

    def remove(self, folder: str) -> None:
        self.delete([file.name for file in self.files(folder)])

    def remove_empty(self) -> None: ...


class Places:
    """The places of all outputs of a schedule, by the outputs' names; and what happens to them."""

    def __init__(self, world: "World", seed: int) -> None:
        self._world, self._chance = world, Random(f"places {seed}")
        self.used = self._chance.random() < 0.3
        self.files: dict[str, Files] = {}
        self._fell = set[str]()
        """The outputs whose places are older copies, of which nobody has told yet."""
        self._ever_fell = set[str]()
        """The outputs whose places were older copies at some time. A driver that slept meanwhile, between its look at
        the place and its manifest, may name a file that the copy lacks: then a reader is told so."""
        self._unseen = set[str]()
        """Those to which no driver and no batch has come since: nobody could tell."""
        self._lives: dict[str, set[int]] = {}
        """By output: the logs whose drivers wrote into its place, each by its number."""
        self._given_up: dict[str, int] = {}
        """By output: how many drivers had begun when its user gave its place up last."""
        self._soiled = set[str]()
        """The outputs into whose places a driver wrote that had begun before they were given up."""
        self._left = self._chance.choice((0, 1, 1, 2)) if self.used else 0
        """How often a place still falls back."""
        self._copies: dict[str, Files] = {}

    def batches(self, output: str) -> ManifestBatches:
        return ManifestBatches(WorldFiles(self.files, output))  # type: ignore[arg-type]

    def open(self, group: Group, outlets: Outlets) -> dict[str, ParquetOutlet]:
        """Open the places of a group's outputs for a driver, as `Outlets` opens a Parquet output."""
        opened = dict[str, ParquetOutlet]()
        for output in group.sinks if self.used else ():
            step: Any = output.step
            sink: Any = SimpleNamespace(
                path=step.name,
                storage=Storage(),
                name=step.name,
                step=step.step,
                schema=spark_schema(output.schema),
                partitions=(),
            )
            unused: Any = None
            opened[step.name] = ParquetOutlet(sink, outlets._run, unused, None)
            self._unseen.discard(step.name)
        return opened

    # --- what happens ----------------------------------------------------------------------------------------------

    def took(self, output: str, rows: int) -> None:
        """An output took a batch of so many rows. Its user copies the place, or puts it back to the copy later."""
        if rows:  # for a batch without rows the output does not look at what its place holds
            self._unseen.discard(output)
        if self._left and not self._world.ending:
            if output not in self._copies:
                self._copies[output] = dict(self.files[output])
            elif self._chance.random() < 0.5:
                self._left -= 1
                copy, wait = self._copies.pop(output), self._chance.choice((0.0, 0.001, 0.05, 0.5))
                self._world.scheduler.after(wait, lambda: self._put_back(output, copy))

    def _put_back(self, output: str, copy: Files) -> None:
        now = self.files.get(output, {})
        lost = [name for name in now if name not in copy and "/batches/" in name]
        if self._world.ending or not lost or copy[_OWNER] != now.get(_OWNER):
            return  # it was given up meanwhile, or nothing came to it
        self._world.say("place %s is an older copy, without %s", output, lost)
        self._world.result.faults["output fell back"] += 1
        self.files[output] = copy
        self._fell.add(output)
        self._ever_fell.add(output)
        self._unseen.add(output)

    def wrote(self, output: str) -> None:
        """A driver wrote into a place. It may have slept while its user gave the place up."""
        process = self._world.scheduler.current
        driver = None if process is None else process.driver
        if driver is None:
            return
        self._lives.setdefault(output, set()).add(driver.life)
        if driver in self._world.drivers[: self._given_up.get(output, 0)]:
            self._soiled.add(output)

    def told(self, error: OutputConflictError, driver: "Driver") -> bool:
        """A driver stopped with an error of a place: was it right? Its user then moves away what the place holds."""
        world, text = self._world, str(error)
        output = next(name for name in self.files if f"world://{name}/" in text)
        changed = world.result.faults
        fell = output in self._fell and any(words in text for words in _OLDER)
        reset = min(self._lives.get(output, {world.lives})) < world.lives
        missed = any(changed[kind] for kind in _LEFT_OUT) and "did not have this output" in text
        other = len(world.drivers) > 1 and "the topology writes" in text  # the name is another line's now
        emptied = "was emptied while" in text  # a zombie wakes up within its start, and its user has given the place up
        # Or it looked at the place before another driver told of it, and then slept.
        known = driver in world.drivers[: self._given_up.get(output, 0)]
        right = fell or reset or missed or other or emptied or known or output in self._soiled
        world.say("place %s is given up", output)
        self.files[output] = {}
        self._lives.pop(output, None)
        self._given_up[output] = len(world.drivers)
        self._fell.discard(output)
        self._soiled.discard(output)
        return right

    # --- what must be so -------------------------------------------------------------------------------------------

    def check(self, output: str, handed: dict[int, Counter[Any]]) -> None:
        """Readers of a place find every batch that it got since its beginning, each once, and nothing else."""
        if not self.used or output in self._unseen:
            return
        batches = self.batches(output)
        writer = last_writer(batches.store)
        if writer is None:
            return  # its user has given it up, and no driver has taken it since
        since = writer.since
        try:
            found = {txid: rows for txid in batches.txids() if (rows := _rows(batches, txid))}
        except FileNotFoundError:
            if output not in self._ever_fell:
                raise
            return
        wanted = {txid: rows for txid, rows in handed.items() if rows and txid > since}
        if found != wanted:
            raise Wrong(f"the place of output {output!r} holds {found}, and ought to hold {wanted}")


_OWNER = "_trident/sink.json"
_OLDER = ("restored from an older copy", "was published after batch")
"""The words of errors about a place that fell back."""
_LEFT_OUT = (
    "line removed",
    "stream removed",
    "rolled back",
    "line put back",
    "stream put back",
    "stream moved",
    "output renamed",
)
"""Changes by which an output is left out of a program."""


def _rows(batches: ManifestBatches, txid: int) -> Counter[Any]:
    published = batches.published(txid)
    rows: Counter[Any] = Counter()
    for table in () if published is None else published.tables():
        rows.update(zip(table.column("word").to_pylist(), table.column("seq").to_pylist(), strict=True))
    return rows


def placed(path: str, storage: Storage) -> ManifestBatches:
    """As `parquet_place`, in the world that is simulated just now."""
    places: Places = Worlds.now.places
    return places.batches(path)
