"""Frozen results as bytes: Arrow IPC with LZ4. Small results are in the log, large ones in files that the log names.

Three facts are frozen with them: the time to live of a state's values, the number of tuples that each step skipped, and
the number of rows that came too late for a window.
"""

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from trident.base.errors import LogCorruptError
from trident.frozen.files import FileFolder, write_frozen
from trident.frozen.results import FrozenFile, FrozenFiles, Result

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
_LZ4_HERE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ_HERE = pa.ipc.IpcReadOptions(use_threads=False)
_SMALL = 1 << 20
"""The most bytes of a result that the calling thread compresses alone. Starting other threads would take longer, and
much longer on a busy machine."""


@dataclass(frozen=True, slots=True)
class FrozenOutput:
    """The result of one output of a stage, as the log holds it.

    `body` is an Arrow stream or, if `files` is set, the JSON list of the result's files.
    """

    body: bytes
    files: bool
    rows: int
    checksum: int

    @property
    def size(self) -> int:
        """The bytes that the result occupies, including its files."""
        return sum(f.bytes for f in _files_of(self.body).files) if self.files else len(self.body)


class _Files(msgspec.Struct):
    folder: str
    files: list[FrozenFile]
    schema: bytes


MOST_IN_LOG = 64 << 20
"""The largest result (uncompressed bytes) that is stored in the log itself. SQLite can hold 1 GB in a row, Redis 512
MB."""

_PART_ROWS = 65_536


def freeze(result: Result, beside: FileFolder | None = None) -> FrozenOutput:
    """Return a stage's result in the form in which the log stores it.

    If the result is large, it goes to a file in the folder `beside`. The file is durable when this returns: the log
    must never name a file that a power loss can remove.
    """
    if isinstance(result, pa.Table) and beside is not None and result.nbytes > MOST_IN_LOG:
        file = write_frozen(_parts(result), beside.files, beside.folder, "driver", result.schema)
        beside.sync()
        result = FrozenFiles(beside.folder, () if file is None else (file,), result.schema)
    if isinstance(result, FrozenFiles):
        body = msgspec.json.encode(_Files(result.folder, list(result.files), result.schema.serialize().to_pybytes()))
        return FrozenOutput(body, True, result.num_rows, zlib.crc32(body))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, result.schema, options=_LZ4_HERE if result.nbytes <= _SMALL else _LZ4) as writer:
        writer.write_table(result)
    body = sink.getvalue().to_pybytes()
    return FrozenOutput(body, False, result.num_rows, zlib.crc32(body))


def _parts(table: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches(max_chunksize=_PART_ROWS))


def thaw(output: FrozenOutput, where: str) -> Result:
    """Return a result from its frozen bytes.

    Raises LogCorruptError, which begins with `where`, if the checksum is wrong.
    """
    if zlib.crc32(output.body) != output.checksum:
        raise LogCorruptError(f"{where}: the checksum of a frozen result does not match; restore the log from a copy")
    if not output.files:
        options = _READ_HERE if len(output.body) <= _SMALL else None
        return pa.ipc.open_stream(output.body, options=options).read_all()
    return _files_of(output.body)


def folder_of(output: FrozenOutput) -> str:
    """Return the folder of a frozen result's files, relative to the checkpoint."""
    return _files_of(output.body).folder


def _files_of(body: bytes) -> FrozenFiles:
    files = msgspec.json.decode(body, type=_Files)
    return FrozenFiles(files.folder, tuple(files.files), pa.ipc.read_schema(pa.py_buffer(files.schema)))


# --- the time to live of values ---------------------------------------------------------------------------------------

_TTL_KEY = b"trident.ttlSecs"


def with_life(result: Result, ttl: float | None) -> Result:
    """Return a state's result with the time to live of its values in the metadata of its schema.

    `ttl` is in seconds; None: values never expire.

    The time to live is frozen, too, so that every replay of the batch has the same effect, even under a driver with
    another ttlSecs.
    """
    return result if ttl is None else _marked(result, _TTL_KEY, repr(float(ttl)))


def ttl_of(result: Result) -> float:
    """Return the time to live of values that was frozen with a result, in seconds; infinity if values never expire."""
    seconds = (result.schema.metadata or {}).get(_TTL_KEY)
    return math.inf if seconds is None else float(seconds)


# --- the shape of values, and the content with which a state begins -------------------------------------------------

_SHAPE_KEY = b"trident.shape"
_TIME_KEY = b"trident.time"


def with_shape(result: Result, fingerprint: str | None) -> Result:
    """Return the result of a state that may evolve, with its fingerprint; unchanged if `fingerprint` is None.

    With it a start knows whether a waiting batch was frozen by an earlier program.
    """
    return result if fingerprint is None else _marked(result, _SHAPE_KEY, fingerprint)


def shape_of_result(result: Result) -> str | None:
    """Return the fingerprint that was frozen with a result; None if the state could not evolve."""
    shape = (result.schema.metadata or {}).get(_SHAPE_KEY)
    return None if shape is None else shape.decode()


def with_time(result: Result, time: float) -> Result:
    """Return the initial content of a state, with the time (seconds since 1970) from which its values age."""
    return _marked(result, _TIME_KEY, repr(time))


def time_of(result: Result) -> float | None:
    """Return the time of an initial content; None for the result of a batch, whose time is in its plan."""
    time = (result.schema.metadata or {}).get(_TIME_KEY)
    return None if time is None else float(time)


def _marked(result: Result, key: bytes, value: str) -> Result:
    """Return a result with an added entry in the metadata of its schema."""
    metadata = {**(result.schema.metadata or {}), key: value.encode()}
    if isinstance(result, FrozenFiles):
        return replace(result, schema=result.schema.with_metadata(metadata))
    return result.replace_schema_metadata(metadata)


# --- late rows ------------------------------------------------------------------------------------------------------

_DROPPED_KEY = b"trident.numRowsDroppedByWatermark"


def with_dropped(result: Result, rows: int) -> Result:
    """Return a result with the number of rows that a window left out because they were late.

    For a state of dead letters, it is the number of letters that it removed to have room for others.

    The number is frozen with the result, so that a driver that did not compute the result can report it, too.
    """
    return _marked(result, _DROPPED_KEY, str(rows)) if rows else result


def dropped_of(result: Result) -> int:
    """Return the number of late rows, or of evicted dead letters, that was frozen with a result."""
    return int((result.schema.metadata or {}).get(_DROPPED_KEY, 0))


# --- skipped tuples -------------------------------------------------------------------------------------------------

SKIPPED = "!skipped"
"""The name of a table, stored beside a stage's outputs, with the number of skipped tuples by step. No output can have
this name."""


def with_skipped(results: Mapping[str, Result], skipped: Mapping[str, int]) -> dict[str, Result]:
    """Return a stage's results with an added table of skipped tuples, so that all are frozen together."""
    if not skipped:
        return dict(results)
    counts = pa.table({"step": list(skipped), "tuples": pa.array(skipped.values(), pa.int64())})
    return {**results, SKIPPED: counts}


def without_skipped(results: Mapping[str, Result]) -> tuple[dict[str, Result], dict[str, int]]:
    """Undo `with_skipped`: return the results, and the numbers of skipped tuples by step."""
    outputs = dict(results)
    counts = outputs.pop(SKIPPED, None)
    if not isinstance(counts, pa.Table):
        return outputs, {}
    return outputs, dict(zip(counts["step"].to_pylist(), counts["tuples"].to_pylist(), strict=True))
