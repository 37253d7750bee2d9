"""Large results: files that executors wrote, in the place of Arrow files on a disk that all machines share."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa

from trident.base.errors import LogCorruptError, SparkFailedError
from trident.frozen.results import FrozenFile, FrozenFiles


class FrozenDisk:
    """The files of large results, by path. A file is durable before a result names it, so that no power loss takes it.

    >>> disk = FrozenDisk()
    >>> frozen = disk.write("frozen/1-1-0-1", pa.table({"n": [1, 2, 3]}), Random(0))
    >>> pa.concat_tables(disk.read(frozen)).num_rows
    3
    """

    def __init__(self) -> None:
        self.files: dict[str, pa.Table] = {}
        self._made = 0

    def write(self, folder: str, table: pa.Table, dice: Random) -> FrozenFiles:
        """Divide a result among some files."""
        files, each = list[FrozenFile](), max(1, table.num_rows // dice.randint(1, 3))
        for start in range(0, table.num_rows, each):
            files.append(self.add(folder, table.slice(start, each)))
        return FrozenFiles(folder, tuple(files), table.schema)

    def add(self, folder: str, rows: pa.Table) -> FrozenFile:
        """As `write_frozen`, of rows that there are."""
        self._made += 1
        file = FrozenFile(f"part-{self._made}.arrow", 1, rows.num_rows, 0)
        self.files[f"{folder}/{file.name}"] = rows
        return file

    def token(self) -> str:
        """A part of a name that no other one has."""
        self._made += 1
        return f"{self._made:x}"

    def read(self, frozen: FrozenFiles) -> Iterator[pa.Table]:
        """As `read_frozen`."""
        for file in frozen.files:
            path = f"{frozen.folder}/{file.name}"
            if path not in self.files:
                raise LogCorruptError(f"the frozen file {path} is missing; a batch cannot be applied without it")
            yield self.files[path]

    def folders(self, parent: str) -> list[str]:
        """The folders in this one, by their names."""
        return list(dict.fromkeys(path[len(parent) + 1 :].partition("/")[0] for path in self._below(parent)))

    def delete(self, folder: str) -> None:
        """As `shutil.rmtree`."""
        for path in self._below(folder):
            del self.files[path]

    def _below(self, folder: str) -> list[str]:
        return [path for path in self.files if path.startswith(f"{folder}/")]


def whole(disk: FrozenDisk, result: pa.Table | FrozenFiles) -> pa.Table:
    """As `read_whole`."""
    if isinstance(result, pa.Table):
        return result
    return pa.concat_tables([result.schema.empty_table(), *disk.read(result)]).combine_chunks()


def read_here(checkpoint: Path, frozen: FrozenFiles) -> Iterator[pa.Table]:
    """As `read_frozen`, of the world that is simulated just now."""
    from tests.simulator.in_world import Worlds

    disk: FrozenDisk = Worlds.now.frozen_files
    return disk.read(frozen)


def secure_here(files: object, results: Iterable[FrozenFiles]) -> None:
    """As `secure`, of the world that is simulated just now."""
    from tests.simulator.in_world import Worlds

    disk: FrozenDisk = Worlds.now.frozen_files
    named = [f"{frozen.folder}/{file.name}" for frozen in results for file in frozen.files]
    if lacking := [name for name in named if name not in disk.files]:
        raise SparkFailedError(f"the driver does not find the file {lacking[0]} of an executor")


def written_here(
    batches: Iterator[pa.RecordBatch], files: object, folder: str, part: str, schema: pa.Schema
) -> FrozenFile:
    """As `write_frozen`, in the world that is simulated just now."""
    from tests.simulator.in_world import Worlds

    disk: FrozenDisk = Worlds.now.frozen_files
    return disk.add(folder, pa.Table.from_batches(list(batches), schema))
