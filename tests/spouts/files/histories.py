"""Random histories of a folder: all that a shell does to files, while a FileSpout reads them and is restarted.

Every line is written once, so the oracle is simple. A line that is there when all is read must have been counted. No
line is counted more often than files have begun to hold it (a copy under a new name is a file of its own). If the
stream stops with a typed error, the history ends: it may, wherever it cannot tell what is unread.
"""

import gzip
import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.support.plans import logged
from trident.errors import DataLossError, SourceChangedError, SourceUnreadableError, SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident_spouts.executor import Metadata

REFUSED = (SpoutContractError, DataLossError, SourceChangedError)
_DAYS = 1_700_000_000


class Folder:
    """A folder `inside`, which is read, and another one of the same disk, to and from which files are moved."""

    def __init__(self, root: Path, chance: random.Random, may_break: bool) -> None:
        self.inside, self.outside = root / "in", root / "out"
        for folder in (self.inside, self.outside):
            folder.mkdir(parents=True)
        self.chance, self.number = chance, 0
        self.most = Counter[str]()
        """How often each line may be counted."""
        self.copies = set[int]()
        """The inodes of copies that were put back. Under another name such a copy is a file of its own."""
        self.renamed = set[int]()
        self.harmless: list[Callable[[], None]] = [
            self.create, self.create, self.create, self.append, self.append, self.move_in, self.move_out, self.copy,
            self.touch, self.hard_link, self.symlink, self.delete, self.restore_copy, self.rename, self.chmod,
            self.create_as_shells_do, self.pack_a_new_one,
        ]  # fmt: skip
        self.breaking: list[Callable[[], None]] = [
            self.rewrite_in_place, self.rewrite_and_keep_the_time, self.truncate, self.rename_over, self.sync_over,
            self.delete_and_create, self.truncate_and_append, self.pack, self.point_elsewhere,
        ]  # fmt: skip
        self.may_break = may_break

    def all_read(self) -> None:
        """Note that the stream knows the files that are there by their present names and inodes."""
        there = {path.stat().st_ino for path in self._files(self.inside)}
        self.copies -= there
        self.renamed -= there

    def act(self) -> str:
        action = self.chance.choice(self.breaking if self.may_break and self.chance.random() < 0.12 else self.harmless)
        action()
        return action.__name__

    def spout(self, **options: Any) -> FileSpout:
        return FileSpout(self.inside, **options)

    # --- what is there --------------------------------------------------------------------------------------------

    def lines(self) -> set[str]:
        """Return all lines that a reader of the folder finds now."""
        return {line for path in self._files(self.inside) for line in _content(path)}

    def _files(self, folder: Path) -> list[Path]:
        return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("_"))

    def _one(self, folder: Path | None = None, packed: bool = False) -> Path | None:
        files = [path for path in self._files(folder or self.inside) if packed or path.suffix != ".gz"]
        return self.chance.choice(files) if files else None

    def _name(self) -> Path:
        self.number += 1
        return self.inside / f"{self.chance.choice('abcdefgh')}{self.number:03}.txt"

    def _text(self, count: int | None = None) -> str:
        """Return new lines, which may each be counted once."""
        lines = [f"line{self.number:04}.{self.chance.getrandbits(48):012x}" for _ in range(count or self._few())]
        self.most.update(lines)
        return "".join(f"{line}\n" for line in lines)

    def _few(self) -> int:
        return self.chance.choice([1, 2, 3, 40, 200])

    def _age(self, path: Path) -> None:
        """Give a file a time of modification, as copies and archives do."""
        if self.chance.random() < 0.6:
            at = _DAYS + self.chance.randint(0, 20)
            os.utime(path, (at, at))

    # --- what a source may do -------------------------------------------------------------------------------------

    def create(self) -> None:
        path = self._name()
        path.with_name("_new").write_text(self._text())
        self._age(path.with_name("_new"))
        path.with_name("_new").rename(path)

    def create_as_shells_do(self) -> None:
        path = self._name()
        path.write_text(self._text())
        self._age(path)

    def append(self) -> None:
        if path := self._one():
            with path.open("a") as file:
                file.write(self._text())
            if self.chance.random() < 0.2:
                self._age(path)

    def move_in(self) -> None:
        if (path := self._one(self.outside, packed=True)) and not (self.inside / path.name).exists():
            self._renames(path)
            path.rename(self.inside / path.name)
        else:
            path = self.outside / self._name().name
            path.write_text(self._text())
            self._age(path)

    def move_out(self) -> None:
        if (path := self._one(packed=True)) and not path.is_symlink():
            self._renames(path)
            path.rename(self.outside / path.name)

    def copy(self) -> None:
        if path := self._one():
            self.most.update(_content(path))
            shutil.copy2(path, self._name()) if self.chance.random() < 0.5 else shutil.copyfile(path, self._name())

    def touch(self) -> None:
        if path := self._one(packed=True):
            path.touch() if self.chance.random() < 0.5 else self._age(path)

    def hard_link(self) -> None:
        if path := self._one():
            self._renames(path)
            os.link(path.resolve(), self._name())

    def symlink(self) -> None:
        if path := self._one():
            self._renames(path)
            self._name().symlink_to(path.resolve())

    def delete(self) -> None:
        if path := self._one(packed=True):
            path.unlink()

    def restore_copy(self) -> None:
        """Put back a copy with the same content under the same name."""
        if (path := self._one(packed=True)) and not path.is_symlink():
            (shutil.copy2 if self.chance.random() < 0.5 else shutil.copyfile)(path, path.with_name("_copy"))
            # Another link keeps the old file; and a name that the reader has not seen yet is a new one.
            new = path.stat().st_nlink > 1 or path.stat().st_ino in self.renamed
            self.most.update(_content(path) if new else [])
            path.with_name("_copy").rename(path)
            self.copies.add(path.stat().st_ino)

    def rename(self) -> None:
        if (path := self._one()) and not path.is_symlink():
            self._renames(path)
            path.rename(self._name())

    def _renames(self, path: Path) -> None:
        """Note that a file gets another name, which makes a copy, and one that was written anew, a new file."""
        self.renamed.add(path.stat().st_ino)
        if path.stat().st_ino in self.copies:
            self.most.update(_content(path))

    def chmod(self) -> None:
        if path := self._one(packed=True):
            path.chmod(self.chance.choice([0o600, 0o644]))

    def pack_a_new_one(self) -> None:
        path = self._name()
        path.with_name("_new").write_bytes(gzip.compress(self._text().encode()))
        path.with_name("_new").rename(path.with_suffix(".txt.gz"))

    # --- what it may not do ---------------------------------------------------------------------------------------

    def rewrite_in_place(self, keep: bool = False) -> None:
        """Write other lines into the middle of a file, which keeps its size."""
        if not (path := self._one()):
            return
        status, lines = path.stat(), path.read_text().splitlines(keepends=True)
        at = self.chance.randrange(len(lines)) if lines else 0
        self._written_anew(path)
        if lines:
            new = lines[:at] + self._text(1).splitlines(keepends=True) + lines[at + 1 :]
            with path.open("r+") as file:
                file.write("".join(new))
        if keep:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _written_anew(self, path: Path) -> None:
        """Note that a file has another content: it is a new file under each other name that it has or gets."""
        status = path.stat()
        self.copies.add(status.st_ino)
        self.most.update(_content(path) * (status.st_nlink - 1 + (status.st_ino in self.renamed)))

    def rewrite_and_keep_the_time(self) -> None:
        self.rewrite_in_place(keep=True)

    def truncate(self) -> None:
        if path := self._one():
            lines = path.read_text().splitlines(keepends=True)
            os.truncate(path, len("".join(lines[: len(lines) // 2])))
            self._written_anew(path)

    def truncate_and_append(self) -> None:
        if path := self._one():
            os.truncate(path, 0)
            self._written_anew(path)
            with path.open("a") as file:
                file.write(self._text())

    def rename_over(self) -> None:
        if path := self._one():
            path.with_name("_new").write_text(self._text())
            path.with_name("_new").rename(path)

    def sync_over(self) -> None:
        """Put a corrected file in place of another one, with a time of the past."""
        if path := self._one():
            text = path.read_text() if self.chance.random() < 0.5 else ""
            path.with_name("_new").write_text(text + self._text())
            self.most.update(text.splitlines())
            self.copies.add(path.with_name("_new").stat().st_ino)
            self._age(path.with_name("_new"))
            path.with_name("_new").rename(path)

    def delete_and_create(self) -> None:
        if path := self._one():
            path.unlink()
            path.write_text(self._text())
            self._age(path)

    def pack(self) -> None:
        if (path := self._one()) and not path.is_symlink():
            self.most.update(_content(path))
            path.with_name("_new").write_bytes(gzip.compress(path.read_bytes()))
            path.with_name("_new").rename(path.with_name(f"{path.name}.gz"))
            path.unlink()

    def point_elsewhere(self) -> None:
        links = [path for path in self._files(self.inside) if path.is_symlink()]
        if links and (path := self._one()):
            link = self.chance.choice(links)
            target = path.resolve()
            if target != link:
                link.unlink()
                link.symlink_to(target)


def _content(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.name.endswith(".gz") else data).decode().splitlines()


class Stream:
    """A stream over a folder: its position, and how often it has counted each line."""

    def __init__(self, spout: Callable[[], FileSpout], chance: random.Random) -> None:
        self._spout, self._chance = spout, chance
        self.counted = Counter[str]()
        self._position: Metadata = None
        self._txid, self._executor = 0, spout().open()
        self.idle = False

    def restart(self) -> None:
        self._executor = self._spout().open()

    def read(self, most: int, between: Callable[[], object]) -> Iterator[None]:
        """Read up to `most` batches, until the stream is `idle`.

        Yield if a batch failed because something happened between plan and emission.
        """
        self.idle = False
        for _ in range(most):
            attempt = TransactionAttempt(self._txid + 1, 0)
            try:
                plan = logged(self._executor.plan(attempt, self._position, 0.0))
                if plan is None:
                    self.idle = True
                    return
            except SourceUnreadableError:
                yield
                continue
            if self._chance.random() < 0.15:
                between()
            try:
                lines = self._executor.emit(attempt, plan).arrow().column(0).to_pylist()
            except (SpoutContractError, SourceUnreadableError):
                self.restart()  # which plans the batch anew
                yield
                continue
            self.counted.update(lines)
            self._position, self._txid = plan, self._txid + 1


class World(Protocol):
    """A place of files whose content changes."""

    most: Counter[str]
    """How often each line may be counted."""

    def act(self) -> str:
        """Do something to the files, and return what."""
        ...

    def all_read(self) -> None:
        """Note that the stream knows the files that are there as they are now."""
        ...

    def lines(self) -> set[str]:
        """Return all lines that a reader finds now."""
        ...

    def spout(self, **options: Any) -> FileSpout:
        """Return a spout over the files."""
        ...


def history(world: World, chance: random.Random, options: dict[str, Any], log: list[str]) -> str:
    """Live one history. Return its end: "exact", the text of a refusal, or "told" if a warning said that it guesses.

    Fails if a line was lost or came twice in silence.
    """
    log.append(str(options))
    stream = Stream(lambda: world.spout(**options), chance)
    with guesses() as told:
        end = _live(world, stream, chance, log, options["watch"].rememberedFiles >= 1_000)
    more = stream.counted - world.most
    lost = {line for line in world.lines() if not stream.counted[line]} if end == "exact" else set[str]()
    if (more or lost) and told:
        return "told"
    assert not lost, f"lost in silence: {sorted(lost)[:5]}"
    assert not more, f"counted twice in silence: {sorted(more.items())[:5]}"
    return end


def _live(world: World, stream: Stream, chance: random.Random, log: list[str], remembers_all: bool) -> str:
    try:
        for _ in range(chance.randint(5, 40)):
            log.append(world.act())
            if chance.random() < 0.25:
                stream.restart()
                log.append("restart")
            if chance.random() < 0.5:
                for _ in stream.read(chance.randint(1, 6), lambda: log.append(f"between: {world.act()}")):
                    log.append("a batch failed")
                if stream.idle and remembers_all:
                    world.all_read()
                    log.append("all read")
        for _ in range(3):
            stream.restart()
            for _ in stream.read(100_000, lambda: None):
                log.append("a batch failed at the end")
    except REFUSED as error:
        return str(error)
    return "exact"


@contextmanager
def guesses() -> Iterator[list[str]]:
    """Collect the warnings that say what the spout takes for granted."""
    told, logger = list[str](), logging.getLogger("trident.spouts")

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.extend([record.getMessage()] if "does not remember so many" in record.getMessage() else [])

    ear = Ear()
    logger.addHandler(ear)
    try:
        yield told
    finally:
        logger.removeHandler(ear)


def any_options(chance: random.Random) -> dict[str, Any]:
    """Draw the options of a spout which remembers few files, so that it forgets many."""
    return {
        "orderBy": chance.choice(["time", "name"]),
        "watch": Watch(rememberedFiles=chance.choice([1, 2, 3, 5, 1_000])),
        "maxBytesPerBatch": chance.choice([30, 300, 5_000, 1 << 20]),
        "maxFilesPerBatch": chance.choice([1, 2, None]),
    }
