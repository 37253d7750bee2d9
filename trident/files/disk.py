"""Files in a folder of a file system: durable by fsync, of each file and of the folder that has its name."""

import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from trident.base.durable_files import fsync_folder, make_folder
from trident.files.store import Sink, StoredFile


@dataclass(frozen=True, slots=True)
class DiskFiles:
    """A store of files in a folder.

    With `private`, only the user of this process may read the files written there.
    """

    root: Path
    private: bool = False

    @property
    def address(self) -> str:
        return str(self.root)

    def __str__(self) -> str:
        return self.address

    def below(self, folder: str) -> "DiskFiles":
        return replace(self, root=self.root / folder)

    def path(self, name: str) -> str:
        return str(self.root / name)

    # --- writing --------------------------------------------------------------------------------------------------

    @contextmanager
    def writer(self, name: str) -> Iterator[Sink]:
        """Write a new file; see `FileStore.writer`. If the block raises, no file is left."""
        path = self.root / name
        self._make(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with open(os.open(path, flags, 0o600 if self.private else 0o666), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            fsync_folder(path.parent)
        except FileExistsError:
            raise
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise

    def create(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists; see `FileStore.create`."""
        path = self.root / name
        aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
        with self.writer(str(aside.relative_to(self.root))) as file:
            file.write(content)
        try:
            os.link(aside, path)  # unlike a rename, this fails if the file exists
        except FileExistsError:
            return path.read_bytes() == content
        finally:
            aside.unlink()
        fsync_folder(path.parent)
        return True

    def sync(self, folder: str) -> None:
        """Make a folder's name durable; see `FileStore.sync`."""
        at = self.root / folder
        while at != self.root:
            at = at.parent
            fsync_folder(at)

    def _make(self, folder: Path) -> None:
        if self.private:
            make_folder(folder)
        else:
            os.makedirs(folder, exist_ok=True)

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, name: str) -> pa.Buffer:
        """Return the content of a file; see `FileStore.read`. A private file is mapped into memory and not copied.

        Other files are copied: another machine may delete a file that this machine still has mapped, and a read of it
        would end the process.
        """
        with (pa.memory_map if self.private else pa.OSFile)(str(self.root / name)) as file:
            return file.read_buffer()

    def size(self, name: str) -> int | None:
        try:
            return (self.root / name).stat().st_size
        except FileNotFoundError:
            return None

    def sizes(self, names: Collection[str]) -> dict[str, int]:
        sizes = {name: self.size(name) for name in names}
        return {name: size for name, size in sizes.items() if size is not None}

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        at = self.root / folder
        for parent, _, names in os.walk(at) if at.is_dir() else ():
            for name in names:
                path = Path(parent, name)
                with suppress(FileNotFoundError):  # deleted after it was listed
                    yield StoredFile(path.relative_to(self.root).as_posix(), path.stat().st_size)

    def folders(self, folder: str) -> list[str]:
        at = self.root / folder
        return [entry.name for entry in at.iterdir() if entry.is_dir()] if at.is_dir() else []

    # --- deleting -------------------------------------------------------------------------------------------------

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def remove(self, folder: str) -> None:
        shutil.rmtree(self.root / folder, ignore_errors=True)

    def remove_empty(self) -> None:
        if self.root.is_dir():
            with suppress(OSError):  # the folder has files
                self.root.rmdir()
