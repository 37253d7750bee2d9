"""Segments, the files of a snapshot, and the manifest that names them.

A segment is an Arrow IPC file (LZ4) of entries: key, txid, value, prev. The file is written once. It is durable before
a manifest names it, and it is deleted only after a manifest was published that does not name it.
"""

import re
import secrets
import zlib
from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.discard_advice import RESET
from trident.base.durable_files import Summed
from trident.base.errors import StateCorruptError, StateLostError
from trident.files.store import FileStore
from trident_state.document_header import Header
from trident_state.expiry import Expiry

FORMAT = 2

_NAME = re.compile(r"(\d+)-(\d+)-([0-9A-Za-z_-]+)-[0-9a-f]{8}\.arrow")
"""The name of a segment: txid, epoch, and uuid of the log that counts both."""


class Segment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A segment as a manifest describes it.

    It holds the entries that changed after batch `since`, up to batch `txid`.
    """

    name: str
    since: int
    txid: int
    rows: int
    bytes: int
    checksum: int


class Manifest(Header, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A snapshot of a state as of batch `txid`: its segments, and its expiry.

    An entry in a later segment replaces the entry of the same key in an earlier segment. `ttl` is the time to live of
    the driver that wrote the manifest (seconds), and `replaces` says that a batch's value replaces the stored value, so
    that no aggregator is needed to apply a batch. Readers outside the run use both.
    """

    txid: int
    segments: tuple[Segment, ...]
    expiry: Expiry = Expiry()
    ttl: float | None = None
    replaces: bool = False


def read_manifest(text: bytes, where: str) -> Manifest:
    """Return the manifest in `text`.

    Raises StateCorruptError if `text` is not a manifest, has another format, or names a file that cannot be a segment.
    """
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.DecodeError as error:
        raise StateCorruptError(
            f"{where}: the manifest of its last snapshot cannot be read: {error}. Restore the log from a copy, or "
            f"discard log and states with {RESET}"
        ) from None
    if manifest.format != FORMAT:
        raise StateCorruptError(
            f"{where}: its last snapshot has format {manifest.format}, this version reads format {FORMAT}; "
            f"start it with the version that wrote it"
        )
    for segment in manifest.segments:
        if _NAME.fullmatch(segment.name) is None:  # such as a path: files in a manifest are opened and deleted
            raise StateCorruptError(
                f"{where}: the manifest of its last snapshot names {segment.name!r}, which is not a segment. Restore "
                f"the log from a copy, or discard log and states with {RESET}"
            )
    return manifest


def write_segment(
    files: FileStore, log: str, lease: Lease, since: int, txid: int, batches: Iterable[pa.RecordBatch]
) -> Segment:
    """Write the entries in `batches` as a new segment, durably. Return its description for a manifest.

    The name of the file holds `txid`, the epoch of `lease` and the uuid `log`. On failure no file remains.
    """
    name = f"{txid}-{lease.epoch}-{log}-{secrets.token_hex(4)}.arrow"
    with files.writer(name) as file:
        sink = Summed(file)
        rows = _write_batches(sink, batches)
    return Segment(name, since, txid, rows, sink.bytes, sink.checksum)


def read_segment(files: FileStore, segment: Segment, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
    """Yield the entries of a segment, after a check of the file's size and checksum.

    Raises StateLostError if the file is gone, StateCorruptError if it is damaged.
    """
    try:
        buffer = pa.py_buffer(files.read(segment.name))
    except FileNotFoundError:
        raise StateLostError(
            f"{where}: file {segment.name} of its snapshot at txid {segment.txid} is missing in {files.address}; "
            f"restore it from a copy; if it is elsewhere, start with that checkpointLocation or filesLocation; or "
            f"discard log and states with {RESET}"
        ) from None
    if buffer.size != segment.bytes or zlib.crc32(buffer) != segment.checksum:
        raise _damaged(where, segment, files, f"{buffer.size} bytes with a wrong checksum")
    try:
        with pa.ipc.open_file(buffer) as reader:
            if not reader.schema.equals(schema):
                raise _damaged(where, segment, files, f"its columns are {reader.schema.names}")
            for at in range(reader.num_record_batches):
                batch = reader.get_batch(at)
                batch.validate(full=True)
                yield batch
    except pa.ArrowException as error:
        raise _damaged(where, segment, files, str(error)) from None


def delete_segments(files: FileStore, names: Iterable[str]) -> None:
    """Delete segments that no manifest names any more. Files that are already gone are not an error."""
    files.delete(names)


def unnamed_segments(files: FileStore, manifest: Manifest | None, log: str, epoch: int | None) -> list[str]:
    """Return the names of segments in `files` that `manifest` does not name and that drivers before `epoch` wrote.

    Only segments of `log` are returned ("": of any log), because epochs of different logs cannot be compared. A segment
    of a later driver is left out, because that driver may be about to publish a manifest that names it. If `epoch` is
    None, segments of all epochs are returned.
    """
    named = {segment.name for segment in manifest.segments} if manifest else set()
    matches = (_NAME.fullmatch(file.name) for file in files.files())
    return [
        match[0]
        for match in matches
        if match
        and match[0] not in named
        and (log == "" or match[3] == log)
        and (epoch is None or int(match[2]) < epoch)
    ]


def _write_batches(sink: Summed, batches: Iterable[pa.RecordBatch]) -> int:
    rows, writer = 0, None
    for batch in batches:
        if writer is None:
            writer = pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        writer.write_batch(batch)
        rows += batch.num_rows
    if writer is not None:
        writer.close()
    return rows


def _damaged(where: str, segment: Segment, files: FileStore, what: str) -> StateCorruptError:
    return StateCorruptError(
        f"{where}: file {segment.name} of its snapshot at txid {segment.txid} is damaged ({what}); restore the file in "
        f"{files.address} from a copy, or discard log and states with {RESET}"
    )
