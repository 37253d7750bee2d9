"""Files on HDFS: durable when their bytes are on the DataNodes' disks and their names in the NameNode's journal.

A new file is created on the condition that no file has its name. Each block is flushed to the disks of its DataNodes
(hsync) before the next block begins, and the last block before the file is closed. A file that several writers may
create is written under a unique name, and gets its name by a rename that fails if the name is taken. Unlike on an
object store, that rename copies nothing: it is one entry of the NameNode's journal, all or nothing.
docs/decisions/0048-files-on-hdfs.md has the reasons.
"""

import io
import logging
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Thread
from typing import Any

from trident.base.errors import (
    FilesError,
    FilesRefusedError,
    FilesUnavailableError,
    TopologyError,
)
from trident.base.forked_child import check_not_inherited
from trident.base.optional_packages import optional_package
from trident.files.object_options import Storage
from trident.files.store import Sink, StoredFile, listed_sizes

logger = logging.getLogger(__name__)

SCHEME = "hdfs://"

PATIENCE = 120.0
"""Seconds for one call of the client, as in Hadoop's client (``ipc.client.rpc-timeout.ms``). The client used here has
no limit for a NameNode that keeps its connection and does not answer."""

RETRIES = {"dfs.client.failover.sleep.max.millis": "2000"}
"""The client tries 15 times to reach a NameNode. With these pauses it gives up after about half a minute."""

BLOCK = 128 << 20
"""The bytes of a block. It is a multiple of `PIECE`."""

PIECE = 4 << 20
"""The bytes that are held in memory, and written by one call."""

_READ = 32 << 20

_ACTIVE = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"

_REFUSED = re.compile(
    r"(InvalidPath|InvalidArgument|UrlParseError|XmlParseError|SASLError|GSSAPIError|NoSASLMechanism)\b"
    r"|.*hsync is not supported"
    r'|(Fatal)?RPCError\("[\w.]*(AccessControl|Authorization|Sasl|InvalidPath|ParentNotDirectory|PathComponentTooLong'
    r'|HadoopIllegalArgument|UnsupportedOperation|SecretManager\$InvalidToken|GSS)\w*"'
)
"""The client's errors that every repetition would raise again. The cause of other errors (a safe mode, a full quota)
may end."""


@dataclass(frozen=True, slots=True)
class HdfsFiles:
    """A folder of HDFS. `system` is a URL (``hdfs://namenode:8020``), `folder` has no slash at its ends."""

    system: str
    folder: str

    @property
    def address(self) -> str:
        return f"{self.system}/{self.folder}".rstrip("/")

    def __str__(self) -> str:
        return self.address

    def below(self, folder: str) -> "HdfsFiles":
        return replace(self, folder=f"{self.folder}/{folder}".strip("/"))

    def path(self, name: str) -> str:
        return f"{self.address}/{name}"

    # --- writing --------------------------------------------------------------------------------------------------

    @contextmanager
    def writer(self, name: str) -> Iterator[Sink]:
        """Write a new file; see `FileStore.writer`. If the block raises, no file is left."""
        what = f"cannot write {self.path(name)}"
        try:
            new = self._ask(what, "create", self._at(name), _hdfs_native().WriteOptions(block_size=BLOCK))
        except FileExistsError:
            raise FilesError(f"{self.path(name)} exists already; nothing was overwritten") from None
        content = _Content(new, what)
        try:
            yield content
            content.finish()
        except BaseException:
            with suppress(FilesError):
                self.delete([name])
            raise
        finally:
            content.let_go()

    def create(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists; see `FileStore.create`."""
        what = f"cannot write {self.path(name)}"
        folder, slash, last = name.rpartition("/")
        aside = f"{folder}{slash}.{last}-{secrets.token_hex(8)}"
        with self.writer(aside) as file:
            file.write(content)
        try:
            self._ask(what, "rename", self._at(aside), self._at(name))  # without overwrite
            return True
        except (FileExistsError, FileNotFoundError, FilesError) as error:
            # If the reply of a rename was lost, the rename was done before this deletion, or it fails because the file
            # is gone.
            self.delete([aside])
            with suppress(FileNotFoundError):
                return memoryview(self.read(name)) == memoryview(content)
            if isinstance(error, FilesError):
                raise
            raise FilesUnavailableError(f"{what}: {error}") from None

    def sync(self, folder: str) -> None:
        """Do nothing: a folder's name is in the NameNode's journal before the NameNode answers."""

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Any:
        what = f"cannot read {self.path(name)}"
        file = self._ask(what, "read", self._at(name))
        size = len(file)
        content = bytearray(size)
        for start in range(0, size, _READ):
            length = min(_READ, size - start)
            content[start : start + length] = _within(what, file.read_range, start, length)
        return content

    def size(self, name: str) -> int | None:
        try:
            about = self._ask(f"cannot read {self.path(name)}", "get_file_info", self._at(name))
        except FileNotFoundError:
            return None
        return None if about.isdir else int(about.length)

    def sizes(self, names: Collection[str]) -> dict[str, int]:
        return listed_sizes(self, names)

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        for name, about in self._list(folder):
            if about.isdir:
                yield from self.files(name)
            else:
                yield StoredFile(name, int(about.length))

    def folders(self, folder: str) -> list[str]:
        return [name.rpartition("/")[2] for name, about in self._list(folder) if about.isdir]

    def _list(self, folder: str) -> list[tuple[str, Any]]:
        """Return the entries directly in a folder, each with its name relative to this folder.

        No entries if the folder is missing.
        """

        def listed() -> list[Any]:
            return list(self._client.list_status(self._at(folder)))

        try:
            found = _within(f"cannot list {self.path(folder)}", listed)
        except FileNotFoundError:
            return []
        return [(f"{folder}/{about.path.rpartition('/')[2]}".lstrip("/"), about) for about in found]

    # --- deleting -------------------------------------------------------------------------------------------------

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._ask(f"cannot delete {self.path(name)}", "delete", self._at(name))

    def remove(self, folder: str) -> None:
        try:
            self._ask(f"cannot delete {self.path(folder)}", "delete", self._at(folder), True)
        except FilesError as error:
            logger.warning("unused files could not be deleted, and are left for the next start: %s", error)

    def remove_empty(self) -> None:
        try:
            self.delete([""])
        except FilesError as error:
            if "PathIsNotEmptyDirectory" not in str(error):
                raise

    # --- the client -----------------------------------------------------------------------------------------------

    @property
    def _client(self) -> Any:
        check_not_inherited("hdfs-native")  # the client may be cached
        return open_client(self.system)

    def _at(self, name: str) -> str:
        return f"/{self.folder}/{name}".rstrip("/").replace("//", "/") or "/"

    def _ask(self, what: str, method: str, *args: Any) -> Any:
        return _within(what, getattr(self._client, method), *args)


class _Content:
    """The content of a new file. `file` is the client's file object, `what` the beginning of error messages."""

    def __init__(self, file: Any, what: str) -> None:
        self._file, self._what = file, what
        self._held = bytearray()
        self._sent = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        start = 0
        while start < view.nbytes:
            part = view[start : start + PIECE - len(self._held)]
            self._held += part
            start += part.nbytes
            if len(self._held) == PIECE:
                self._send()
        return view.nbytes

    def flush(self) -> None: ...

    def _send(self) -> None:
        _within(self._what, self._file.write, bytes(self._held))
        self._sent += len(self._held)
        self._held.clear()
        if self._sent % BLOCK == 0:
            self._sync()  # this is the last chance, because the next write goes to another block

    def _sync(self) -> None:
        _within(self._what, self._file.hsync)

    def finish(self) -> None:
        """Write the rest, flush it to the disks, and close the file. After that readers see the whole file."""
        if self._held:
            self._send()
        if self._sent % BLOCK:
            self._sync()
        _within(self._what, self._file.close)

    def let_go(self) -> None:
        """Mark the file's Python object as closed.

        Otherwise its finalizer would close the file and wait for the NameNode.
        """
        io.RawIOBase.close(self._file)


def _within(what: str, call: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a call of the client.

    The call runs in a thread, which is abandoned if it takes longer than `PATIENCE`.

    Raises the client's FileNotFoundError and FileExistsError. Other errors become FilesErrors whose messages begin with
    `what`.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(call(*args))
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=run, name="hdfs", daemon=True).start()
    if not wait([outcome], PATIENCE).done:
        open_client.cache_clear()  # the next call gets a new connection
        raise FilesUnavailableError(f"{what}: HDFS has not answered for {PATIENCE:g} s")
    try:
        return outcome.result()
    except FileNotFoundError:
        raise FileNotFoundError(2, "there is no such file") from None
    except FileExistsError as error:
        raise FileExistsError(17, reason(error)) from None
    except (OSError, RuntimeError, ValueError, NotImplementedError) as error:
        if _is_refusal(error):
            raise FilesRefusedError(f"{what}: {reason(error)}") from None
        check = "; check that HDFS runs, and its address" if isinstance(error, OSError) else ""
        raise FilesUnavailableError(f"{what}: {reason(error)}{check}") from None


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, ValueError | NotImplementedError) or _REFUSED.match(str(error)) is not None


def reason(error: Exception) -> str:
    r"""Return an error's message as one line, without the server's stack.

    >>> reason(RuntimeError('RPCError("org.apache.hadoop.security.AccessControlException", "denied\\n\\tat x")'))
    'AccessControlException: denied'
    """
    said = str(error).replace("\\n", "\n").replace('\\"', '"').partition("\n")[0].strip()
    from_server = re.match(r'(?:Fatal)?RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*?)(?:"\))?$', said)
    return f"{from_server[1]}: {from_server[2]}" if from_server else said


@lru_cache(maxsize=16)
def open_client(system: str) -> Any:
    """Return a client of HDFS, which keeps its connections. It reads Hadoop's configuration files.

    Raises FilesRefusedError if this machine knows no HDFS at the address.
    """
    host = system.removeprefix(SCHEME).partition(":")[0]
    # An observer NameNode may not know yet what another machine has just written.
    config = {**RETRIES, f"dfs.client.failover.proxy.provider.{host}": _ACTIVE}
    package = _hdfs_native()
    try:
        return package.Client(system, config)
    except (OSError, RuntimeError, ValueError) as error:
        raise FilesRefusedError(
            f"cannot open {system}: {reason(error)}; name a NameNode with its port, or a nameservice of the "
            f"hdfs-site.xml in the folder HADOOP_CONF_DIR, which the driver and every worker must have (here "
            f"{_configured()})"
        ) from None


def _configured() -> str:
    """Return the folder from which a client of this process reads Hadoop's configuration, in words for messages."""
    home = os.environ.get("HADOOP_HOME")
    named = os.environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else "")
    return f"it is {named!r}" if named else "it is not set"


def _hdfs_native() -> Any:
    """Return the package hdfs-native. Raises MissingPackageError, and the error of `check_not_inherited`."""
    check_not_inherited("hdfs-native")
    return optional_package("hdfs_native", "hdfs", "HDFS needs the package hdfs-native, also where Spark's workers run")


def without_user(url: str) -> str:
    """Return a URL for messages, without a user and a password.

    >>> without_user("hdfs://me:secret@namenode/runs")
    'hdfs://***@namenode/runs'
    """
    return re.sub(r"(?<=://)[^/]*@", "***@", url)


def hdfs_files(option: str, url: str, storage: Storage) -> HdfsFiles:
    """Return the folder that a URL names. The URL is the value of `option`. Raises TopologyError if the URL is invalid.

    >>> hdfs_files("filesLocation", "hdfs://namenode:8020/streams//runs/", Storage()).address
    'hdfs://namenode:8020/streams/runs'
    """
    host, _, path = url.removeprefix(SCHEME).partition("/")
    folder = "/".join(filter(None, path.split("/")))  # folders are compared by their addresses
    if storage.options:
        raise TopologyError(
            f"{storage.argument}= is for object stores. HDFS takes its options from core-site.xml and "
            f"hdfs-site.xml in the folder HADOOP_CONF_DIR, on the driver and on every worker"
        )
    if not host or "@" in host:
        raise TopologyError(
            f"{option}={without_user(url)!r}: expected the NameNode or the nameservice, and a folder, such as "
            f"hdfs://namenode:8020/folder; set the user with HADOOP_USER_NAME or Kerberos"
        )
    return HdfsFiles(f"{SCHEME}{host}", folder)
