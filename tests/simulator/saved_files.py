"""The files of savepoints, in the place of a folder: manifests, and the files of states on the world's frozen disk."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tests.simulator.frozen_disk import FrozenDisk, whole
from tests.simulator.in_world import Worlds
from trident.files.store import StoredFile
from trident.frozen.results import FrozenFile, FrozenFiles


class SavedFiles:
    """The place of all savepoints of the world that is simulated just now."""

    address = "nowhere/savepoints"

    def __init__(self, folder: Any = None, private: bool = True) -> None: ...

    def path(self, name: str) -> str:
        return f"{self.address}/{name}"

    def create(self, name: str, content: bytes) -> bool:
        world = Worlds.now
        world.scheduler.point("savepoint", name)
        first = world.manifests.setdefault(name, content) == content
        world.scheduler.point("savepoint", name, "done")
        return first

    def read(self, name: str) -> bytes:
        manifests: dict[str, bytes] = Worlds.now.manifests
        if name not in manifests:
            raise FileNotFoundError(name)
        return manifests[name]

    def size(self, name: str) -> int | None:
        world = Worlds.now
        world.scheduler.point("savepoint", name, "size")
        if name in world.manifests:
            return len(world.manifests[name])
        return 1 if f"/{name}" in world.frozen_files.files else None

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        return iter([StoredFile(name, len(content)) for name, content in Worlds.now.manifests.items()])

    def folders(self, folder: str) -> list[str]:
        return [name for name in Worlds.now.frozen_files.folders("") if name]

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            Worlds.now.manifests.pop(name, None)

    def remove(self, folder: str) -> None:
        Worlds.now.frozen_files.delete(f"/{folder}")


def written(batches: Iterable[pa.RecordBatch], place: Any, folder: str, part: str, schema: pa.Schema) -> Any:
    """As `write_frozen`, of a state in a savepoint: each page is a point of input and output."""
    world, pages = Worlds.now, list[pa.RecordBatch]()
    for batch in batches:
        world.scheduler.point("savepoint", folder, "page")
        pages.append(batch)
    rows = pa.Table.from_batches(pages, schema)
    disk: FrozenDisk = world.frozen_files
    file: FrozenFile | None = disk.add(f"/{folder}", rows) if rows.num_rows else None
    return file


def read(place: Any, frozen: FrozenFiles) -> pa.Table:
    """As `read_whole`."""
    return whole(Worlds.now.frozen_files, FrozenFiles(f"/{frozen.folder}", frozen.files, frozen.schema))
