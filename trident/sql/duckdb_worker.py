"""The program of the DuckDB process: it parses and runs queries over tables that its parent passes to it.

The process has no environment and opens no file: DuckDB is sealed by its own settings, the process by limits of the
operating system. A single function of a query can request any amount of memory, which DuckDB's own limit does not
count (decision 0077); then this process fails, but its parent does not. It imports nothing of the library, so that it
starts fast.
"""

import array
import json
import mmap
import os
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")

_IDLE_SECONDS = 60.0
"""The seconds without a request after which the process ends."""

_SLACK = 64 << 20
"""Bytes in addition to the query's own: thread stacks, the parser, small allocations."""

_BATCH_ROWS = 10_000

_KEPT_BYTES = 256 << 20
"""The most memory that the process keeps for its next query. A larger process ends after its answer."""

_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "failed to allocate", "malloc of size")
"""The words in DuckDB's and Arrow's out-of-memory errors, which have no type in some releases."""

_STATUS = Path("/proc/self/status")

MOST_FILES = 250
"""The most open files in one message; Linux takes 253."""

_Answer = tuple[dict[str, Any], Any]
"""The head and the bytes of an answer."""

Message = tuple[dict[str, Any], bytes, list[int]]
"""The head, the bytes and the open files of a message."""

SETTINGS = (
    "temp_directory=''",
    "secret_directory=''",
    "TimeZone='UTC'",
    "python_enable_replacements=false",
    "python_scan_all_frames=false",
    "autoinstall_known_extensions=false",
    "autoload_known_extensions=false",
    "allow_community_extensions=false",
    "allow_unsigned_extensions=false",
    "allow_persistent_secrets=false",
    "enable_external_access=false",
    "disabled_filesystems='LocalFileSystem'",
    "lock_configuration=true",
)
"""DuckDB's settings for a query, in this order: after the last one none can be changed."""


def main() -> None:
    sys.path[:] = json.loads(sys.argv[2])
    # Arrow's own allocator reserves a gigabyte of addresses at once, which would count towards a query's limit.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    import duckdb  # only now are the parent's packages on the path
    import pyarrow

    parent = os.getppid()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    os.nice(5)  # batches go first
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(kind, (0, 0))
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _answer(connection, duckdb, pyarrow)


def _answer(connection: socket.socket, duckdb: Any, pyarrow: Any) -> None:
    """Answer requests until the parent has sent none for some time, or has ended."""
    most = _data_bytes() + _KEPT_BYTES
    engine = _Engine(duckdb, pyarrow)
    while _data_bytes() <= most:
        connection.settimeout(_IDLE_SECONDS)
        try:
            request, payload, files = receive(connection)
        except (TimeoutError, ConnectionError):
            return
        connection.settimeout(None)
        reply: dict[str, Any]
        try:
            if request["do"] == "parse":
                reply, content = {}, engine.parsed(request, payload.decode())
            else:
                reply, content = engine.run(request, payload, files)
        except MemoryError:
            reply, content = {"over": "bytes"}, b""
        except Exception as error:
            over = any(word in str(error).lower() for word in _OUT_OF_MEMORY)
            reply, content = {"over": "bytes"} if over else {"error": type(error).__name__, "message": str(error)}, b""
        finally:
            for file in files:
                os.close(file)
        send(connection, reply, content)


class _Unreadable(Exception):
    """A result has a type or a value that its readers do not support."""


class _Engine:
    """A sealed database in memory. Each request gets a separate connection, and leaves nothing behind."""

    def __init__(self, duckdb: Any, pyarrow: Any) -> None:
        self._duckdb, self._pyarrow = duckdb, pyarrow
        self._limits: tuple[str, ...] = ()
        self._database: Any = None

    def parsed(self, request: dict[str, Any], query: str) -> bytes:
        """Return the trees of a text's statements, in JSON, as DuckDB serializes them."""
        with self._connection(request) as connection:
            ((text,),) = connection.execute("select json_serialize_sql(cast(? as varchar))", [query]).fetchall()
        return bytes(text.encode())

    def run(self, request: dict[str, Any], payload: bytes, files: Iterable[int]) -> _Answer:
        """Return the result of a query as an Arrow stream.

        The query ends when it has more rows or bytes than allowed.
        """
        with self._connection(request) as connection, _memory_limited(request["maxBytes"]):
            for name, file in zip(request["tables"], files, strict=True):
                # Mapped, not read: the pages belong to the parent, and no row is copied.
                pages = self._pyarrow.py_buffer(mmap.mmap(file, 0, prot=mmap.PROT_READ))
                connection.register(name, self._pyarrow.ipc.open_file(pages).read_all())
            arguments = _arguments(self._pyarrow, payload)
            relation = _planned(self._duckdb, connection, request["query"], arguments)
            return _collected(self._pyarrow, relation, request["maxRows"], request["maxBytes"])

    def _connection(self, request: dict[str, Any]) -> Any:
        limits = (f"threads={int(request['threads'])}", f"memory_limit='{int(request['maxBytes'])}B'")
        if self._limits != limits:  # a sealed database keeps its limits
            self._database, self._limits = _sealed(self._duckdb, limits), limits
        return self._database.cursor()


def _planned(duckdb: Any, connection: Any, query: str, arguments: Any) -> Any:
    try:
        return connection.sql(query) if arguments is None else connection.sql(query, params=arguments)
    except duckdb.Error as error:
        if "\nLINE " in str(error):
            raise
        # Only `execute` reports the position of a wrong name. It fails just as early, before it runs anything.
        connection.execute(query, arguments)
        raise


def _collected(pyarrow: Any, relation: Any, most_rows: int, most_bytes: int) -> _Answer:
    kinds = list(relation.types)
    open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    reader = open_reader(_BATCH_ROWS)
    for field, kind in zip(reader.schema, kinds, strict=True):
        if _loses(kind) or not _is_known(pyarrow.types, field.type):
            raise _Unreadable(
                f"column {field.name!r} has the type {kind}, which results do not support: {_way_out(str(kind))}"
            )
    batches, rows, size = list[Any](), 0, 0
    for batch in reader:
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > most_rows:
            return {"over": "rows"}, b""
        if size > most_bytes:
            return {"over": "bytes"}, b""
    table = _with_known_types(pyarrow, pyarrow.Table.from_batches(batches, reader.schema), kinds)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return {}, sink.getvalue()


def _loses(kind: Any) -> bool:
    """Return whether Arrow's type for a DuckDB type loses a part of its values: an offset, the number of bits."""
    if kind.id in ("bit", "time with time zone"):
        return True
    nested = kind.id in ("list", "array", "struct", "tuple", "map")
    return nested and any(_loses(part) for _, part in kind.children if hasattr(part, "id"))


def _is_known(types: Any, kind: Any) -> bool:
    """Return whether readers support an Arrow type.

    They support no intervals, unions, or types that only DuckDB has.
    """
    if types.is_nested(kind) and not types.is_union(kind):
        return all(_is_known(types, kind.field(at).type) for at in range(kind.num_fields))
    known = (types.is_primitive, types.is_decimal, types.is_string, types.is_binary, types.is_dictionary, types.is_null)
    return not types.is_interval(kind) and any(is_one(kind) for is_one in known)


def _way_out(kind: str) -> str:
    if "INTERVAL" in kind:
        return "cast it to varchar, or ask for its seconds, epoch(...)"
    return "cast it to varchar" + (", or ask for a member, union_extract(..., 'name')" if "UNION" in kind else "")


def _with_known_types(pyarrow: Any, table: Any, kinds: list[Any]) -> Any:
    """Return the table with whole numbers as 64-bit numbers if they fit; otherwise they are decimals.

    DuckDB has unsigned numbers, and computes sums in 128 bits. Times in nanoseconds become times in microseconds.
    """
    for at, kind in enumerate(kinds):
        field, column = table.schema.field(at), table.column(at)
        for whole in (pyarrow.int64(), pyarrow.decimal128(38, 0)):
            target = whole if kind.id in ("hugeint", "uhugeint") else _known_type(pyarrow, field.type, whole)
            if target == field.type:
                break
            with suppress(pyarrow.ArrowInvalid):  # beyond 64 bits
                table = table.set_column(at, pyarrow.field(field.name, target), column.cast(target))
                break
        else:
            raise _Unreadable(
                f"column {field.name!r} has the type {kind}, with a value finer than a microsecond: cast it to "
                "varchar, or round it by a cast to timestamp or time"
            )
    return table


def _known_type(pyarrow: Any, kind: Any, whole: Any) -> Any:
    """Return the Arrow type in which readers get a type of a result; `whole`: for unsigned 64-bit numbers."""
    types = pyarrow.types
    if types.is_struct(kind) or types.is_map(kind) or types.is_list(kind) or types.is_fixed_size_list(kind):
        parts = [kind.field(at) for at in range(kind.num_fields)]
        inner = [part.with_type(_known_type(pyarrow, part.type, whole)) for part in parts]
        if types.is_struct(kind):
            return pyarrow.struct(inner)
        if types.is_map(kind):
            return pyarrow.map_(*(inner[0].type.field(at) for at in range(2)))
        return pyarrow.list_(inner[0], kind.list_size if types.is_fixed_size_list(kind) else -1)
    if types.is_unsigned_integer(kind):
        return whole if kind == pyarrow.uint64() else pyarrow.int64()
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pyarrow.timestamp("us", kind.tz)
    return pyarrow.time64("us") if kind == pyarrow.time64("ns") else kind


def _arguments(pyarrow: Any, payload: bytes) -> Any:
    """Return the arguments of a query: a list for ``?``, a dict for ``$name``; None if there are none."""
    if not payload:
        return None
    table = pyarrow.ipc.open_stream(payload).read_all()
    values = [column[0].as_py() for column in table.columns]
    named = (table.schema.metadata or {}).get(b"named") == b"true"
    return dict(zip(table.column_names, values, strict=True)) if named else values


def _sealed(duckdb: Any, limits: Iterable[str]) -> Any:
    """Return a new in-memory database without access to anything outside itself."""
    connection = duckdb.connect(":memory:")
    known = {name.lower() for (name,) in connection.execute("select name from duckdb_settings()").fetchall()}
    for setting in (*limits, *SETTINGS):
        # An earlier version of DuckDB lacks a few of these settings, and the features that they forbid.
        if setting.partition("=")[0].lower() in known:
            # For all connections: with `set` alone, some settings would apply to this one only.
            connection.execute(f"set global {setting}")
    return connection


@contextmanager
def _memory_limited(most: int) -> Iterator[None]:
    """Within the block, limit this process to this many bytes of memory beyond its present ones."""
    if not _STATUS.exists():  # no Linux: DuckDB's own limit alone
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + most + _SLACK, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """Return the bytes that count towards the limit now."""
    if not _STATUS.exists():
        return 0
    return next(int(line.split()[1]) << 10 for line in _STATUS.read_text().splitlines() if line.startswith("VmData"))


def _end_with(parent: int) -> None:
    """End this process if its parent is gone, even in the middle of a query."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


# --- messages ------------------------------------------------------------------------------------------------------


def send(connection: socket.socket, head: dict[str, Any], content: Any = b"", files: Iterable[int] = ()) -> None:
    """Send a message: its head in JSON, bytes, and open files."""
    encoded = json.dumps({**head, "bytes": len(content)}).encode()
    start = struct.pack(">I", len(encoded))
    if files := list(files):
        socket.send_fds(connection, [start], files)
        connection.sendall(encoded)
    else:
        connection.sendall(start + encoded)
    if len(content):
        connection.sendall(content)


def receive(connection: socket.socket, wait: Callable[[], None] | None = None) -> Message:
    """Return the next message. Raises ConnectionError at the end of the connection.

    `wait` is called whenever nothing has come within the connection's timeout; None: TimeoutError is raised.
    """
    space = socket.CMSG_SPACE(MOST_FILES * array.array("i").itemsize)
    start, data, _, _ = _waiting(lambda: connection.recvmsg(4, space), wait)
    files = array.array("i")
    for level, kind, content in data:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            files.frombytes(content[: len(content) - len(content) % files.itemsize])
    if not start:
        raise ConnectionError("the other side is gone")
    start += _exactly(connection, 4 - len(start), wait)
    head = json.loads(_exactly(connection, struct.unpack(">I", start)[0], wait))
    return head, _exactly(connection, head["bytes"], wait), list(files)


def _exactly(connection: socket.socket, count: int, wait: Callable[[], None] | None) -> bytes:
    content = bytearray()
    while len(content) < count:
        part = _waiting(partial(connection.recv, min(count - len(content), 1 << 20)), wait)
        if not part:
            raise ConnectionError("the other side is gone")
        content += part
    return bytes(content)


def _waiting(read: Callable[[], _T], wait: Callable[[], None] | None) -> _T:
    while True:
        try:
            return read()
        except TimeoutError:
            if wait is None:
                raise
            wait()


if __name__ == "__main__":
    main()
