"""Frozen results as bytes: Arrow IPC with LZ4, small ones inside the log row, large ones by reference to files."""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from trident.base.errors import LogCorruptError
from trident.compiler.engine import FrozenFile, FrozenFiles, Result
from trident.compiler.spark.frozen_files import FileFolder, write_frozen

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class FrozenOutput:
    """One output of a stage as the log holds it: `body` is an Arrow stream, or (`files`) the JSON list of its files."""

    body: bytes
    files: bool
    rows: int
    checksum: int

    @property
    def size(self) -> int:
        """Bytes that keeping it costs, files included."""
        return sum(f.bytes for f in _files_of(self.body).files) if self.files else len(self.body)


class _Files(msgspec.Struct):
    folder: str
    files: list[FrozenFile]
    schema: bytes


MOST_IN_LOG = 64 << 20
"""Bytes of a result, not compressed, that go into the log itself; SQLite takes 1 GB in a row, a server 512 MB."""

_PART_ROWS = 65_536


def freeze(result: Result, beside: FileFolder | None = None) -> FrozenOutput:
    """A stage's result as the log keeps it: within it, or where it is large in a file beside it, which is durable when
    this returns."""
    if isinstance(result, pa.Table) and beside is not None and result.nbytes > MOST_IN_LOG:
        file = write_frozen(iter(result.to_batches(max_chunksize=_PART_ROWS)), beside.path, "driver", result.schema)
        beside.sync()
        result = FrozenFiles(beside.place, () if file is None else (file,), result.schema)
    if isinstance(result, FrozenFiles):
        body = msgspec.json.encode(_Files(result.folder, list(result.files), result.schema.serialize().to_pybytes()))
        return FrozenOutput(body, True, result.num_rows, zlib.crc32(body))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, result.schema, options=_LZ4) as writer:
        writer.write_table(result)
    body = sink.getvalue().to_pybytes()
    return FrozenOutput(body, False, result.num_rows, zlib.crc32(body))


_LIFE = b"trident.ttlSecs"


def with_life(result: Result, ttl: float | None) -> Result:
    """A state's result with how long values live by the rule that it is frozen under (seconds; None: for ever): what a
    batch does is the same at every replay, also under a driver with another rule."""
    if ttl is None:
        return result
    told = {_LIFE: repr(float(ttl)).encode()}
    if isinstance(result, FrozenFiles):
        return replace(result, schema=result.schema.with_metadata(told))
    return result.replace_schema_metadata(told)


def life_of(result: Result) -> float:
    """How long values live by the rule that a result was frozen under, in seconds; infinity: for ever."""
    told = (result.schema.metadata or {}).get(_LIFE)
    return math.inf if told is None else float(told)


SKIPPED = "!skipped"
"""Stands beside a stage's outputs: how many tuples each step left out. No output can be called so."""


def with_skipped(results: Mapping[str, Result], skipped: Mapping[str, int]) -> dict[str, Result]:
    """A stage's results with what was left out of them, which is as frozen as they are."""
    if not skipped:
        return dict(results)
    told = pa.table({"step": list(skipped), "tuples": pa.array(skipped.values(), pa.int64())})
    return {**results, SKIPPED: told}


def without_skipped(results: Mapping[str, Result]) -> tuple[dict[str, Result], dict[str, int]]:
    """What `with_skipped` was given."""
    left = dict(results)
    told = left.pop(SKIPPED, None)
    if not isinstance(told, pa.Table):
        return left, {}
    return left, dict(zip(told["step"].to_pylist(), told["tuples"].to_pylist(), strict=True))


def thaw(output: FrozenOutput, where: str) -> Result:
    """What was frozen. Raises LogCorruptError naming `where` if a bit changed."""
    if zlib.crc32(output.body) != output.checksum:
        raise LogCorruptError(f"{where}: the checksum of a frozen result does not fit; restore the log from a copy")
    if not output.files:
        return pa.ipc.open_stream(output.body).read_all()
    return _files_of(output.body)


def folder_of(output: FrozenOutput) -> str:
    """Where the files of a result by reference lie, relative to the checkpoint."""
    return _files_of(output.body).folder


def _files_of(body: bytes) -> FrozenFiles:
    files = msgspec.json.decode(body, type=_Files)
    return FrozenFiles(files.folder, tuple(files.files), pa.ipc.read_schema(pa.py_buffer(files.schema)))
