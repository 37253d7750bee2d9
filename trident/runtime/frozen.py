"""Frozen results as bytes: Arrow IPC with LZ4, small ones inside the log row, large ones by reference to files."""

import zlib
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from trident.base.errors import LogCorruptError
from trident.compiler.engine import FrozenFile, FrozenFiles, Result

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


def freeze(result: Result) -> FrozenOutput:
    """A stage's result as the log keeps it."""
    if isinstance(result, FrozenFiles):
        body = msgspec.json.encode(_Files(result.folder, list(result.files), result.schema.serialize().to_pybytes()))
        return FrozenOutput(body, True, sum(f.rows for f in result.files), zlib.crc32(body))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, result.schema, options=_LZ4) as writer:
        writer.write_table(result)
    body = sink.getvalue().to_pybytes()
    return FrozenOutput(body, False, result.num_rows, zlib.crc32(body))


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
