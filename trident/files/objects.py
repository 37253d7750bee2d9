"""Files as objects of S3, or of a store with an interface like it: durable when the store has confirmed them.

An object of up to `WHOLE` bytes is written by one request, on the condition that no object has its name
(``If-None-Match: *``). A larger object is sent in parts, and appears as a whole with the last request. It has no
condition and needs none, because no other writer uses its name. If a store does not support such a condition, `create`
is refused, and `writer` works without it.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from trident.base.errors import FilesError, FilesRefusedError, FilesUnavailableError, TopologyError, TridentError
from trident.files.object_client import SCHEMES, bucket_of, failures, obstore, open_bucket, pauses, reason, refused
from trident.files.object_options import Storage
from trident.files.store import Sink, StoredFile, listed_sizes

logger = logging.getLogger(__name__)

WHOLE = 32 << 20
"""The most bytes that are sent in one request. They are held in memory until then."""

_PART = 8 << 20
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class ObjectFiles:
    """A prefix of a bucket. `bucket` is a URL (``s3://bucket``), `prefix` has no slash at its ends and may be empty."""

    bucket: str
    prefix: str
    storage: Storage = Storage()

    @property
    def address(self) -> str:
        return f"{self.bucket}/{self.prefix}".rstrip("/")

    def __str__(self) -> str:
        return self.address

    def below(self, folder: str) -> "ObjectFiles":
        return replace(self, prefix=self._key(folder))

    def path(self, name: str) -> str:
        return f"{self.address}/{name}"

    # --- writing --------------------------------------------------------------------------------------------------

    @contextmanager
    def writer(self, name: str) -> Iterator[Sink]:
        """Write a new object; see `FileStore.writer`. If the block raises, no object is left."""
        what = f"cannot write {self.path(name)}"
        content = _Content(lambda: self._open_parts(name), lambda: self._asking(what))
        try:
            yield content
        except BaseException as error:
            content.give_up(error)
            raise
        with self._asking(what):
            if content.parts is None:
                self._put(name, content.held)
                return
            content.finish()
        if (size := self.size(name)) != content.size:
            raise FilesUnavailableError(f"{self.path(name)} has {size} bytes, but {content.size} were sent")

    def _put(self, name: str, content: Any) -> None:
        """Write an object with a name that no other writer uses."""
        try:
            there = self._create(name, content)
        except (failures().NotSupportedError, NotImplementedError):
            obstore().put(self._store, self._key(name), content, use_multipart=False)
            return
        if not there:
            raise FilesError(f"{self.path(name)} exists already with other content; nothing was overwritten")

    def _open_parts(self, name: str) -> Any:
        return obstore().open_writer(self._store, self._key(name), buffer_size=_PART, max_concurrency=4)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless it exists; see `FileStore.create`.

        Raises FilesRefusedError for a store without conditional writes, because it cannot decide which writer came
        first.
        """
        with self._asking(f"cannot write {self.path(name)}"):
            return self._create(name, content)

    def _create(self, name: str, content: Any) -> bool:
        """Write an object unless the name is taken, and return whether the object of this name has this content now.

        The client does not send a conditional request again after a lost reply, since it cannot know the meaning of the
        second reply. Here it is known: an object of this name with this content is the wanted result.
        """
        store, key = self._store, self._key(name)
        for pause in (*pauses(), None):
            try:
                obstore().put(store, key, content, mode="create", use_multipart=False)
                return True
            except failures().AlreadyExistsError as error:
                try:
                    return memoryview(obstore().get(store, key).bytes()) == memoryview(content)
                except FileNotFoundError:  # another writer's request was in progress, and failed
                    failure: Exception = error
            except (OSError, failures().BaseError) as error:
                if refused(error):
                    raise
                failure = error
            if pause is None:
                break
            time.sleep(pause)
        raise FilesUnavailableError(f"cannot write {self.path(name)}: {reason(failure)}")

    def sync(self, folder: str) -> None:
        """Do nothing: an object has no folder, and its name is as durable as its content."""

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Any:
        with self._asking(f"cannot read {self.path(name)}"):
            return obstore().get(self._store, self._key(name)).bytes()

    def size(self, name: str) -> int | None:
        try:
            with self._asking(f"cannot read {self.path(name)}"):
                return int(obstore().head(self._store, self._key(name))["size"])
        except FileNotFoundError:
            return None

    def sizes(self, names: Collection[str]) -> dict[str, int]:
        return listed_sizes(self, names)

    def files(self, folder: str = "") -> Iterator[StoredFile]:
        prefix = f"{self.prefix}/" if self.prefix else ""
        with self._asking(f"cannot list {self.path(folder)}"):
            for page in obstore().list(self._store, self._key(folder) or None, chunk_size=_PAGE):
                for about in page:
                    yield StoredFile(about["path"].removeprefix(prefix), about["size"])

    def folders(self, folder: str) -> list[str]:
        with self._asking(f"cannot list {self.path(folder)}"):
            found = obstore().list_with_delimiter(self._store, self._key(folder) or None)["common_prefixes"]
        return [name.rstrip("/").rpartition("/")[2] for name in found]

    # --- deleting -------------------------------------------------------------------------------------------------

    def delete(self, names: Iterable[str]) -> None:
        keys = [self._key(name) for name in names]
        what = f"cannot delete files below {self.address}"
        try:
            with self._asking(what):
                if keys:
                    obstore().delete(self._store, keys)
        except FileNotFoundError:  # a store without bulk deletion stops at the first missing object
            for key in keys:
                with suppress(FileNotFoundError), self._asking(what):
                    obstore().delete(self._store, key)

    def remove(self, folder: str) -> None:
        try:
            self.delete([file.name for file in self.files(folder)])
        except FilesError as error:
            logger.warning("unused files could not be deleted, and are left for the next start: %s", error)

    def remove_empty(self) -> None:
        """Do nothing: a prefix exists only as long as an object has it."""

    # --- the store ------------------------------------------------------------------------------------------------

    @property
    def _store(self) -> Any:
        return open_bucket(self.bucket, *self.storage.read(FilesRefusedError), patient=True)

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}".strip("/")

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Raise errors of the store in the block as FilesErrors; as FileNotFoundError if an object does not exist."""
        try:
            yield
        except TridentError:
            raise
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                raise FilesRefusedError(f"{what}: {reason(error)}") from None
            raise FileNotFoundError(2, "there is no such object") from None
        except (OSError, ValueError, NotImplementedError, failures().BaseError) as error:
            kind = FilesRefusedError if refused(error) else FilesUnavailableError
            raise kind(f"{what}: {reason(error)}") from None


class _Content:
    """The content of a new object: held up to `WHOLE` bytes, then sent in parts.

    `open_parts` returns the writer of the parts. `asking` returns a context that translates the store's errors.
    """

    def __init__(self, open_parts: Callable[[], Any], asking: Callable[[], AbstractContextManager[None]]) -> None:
        self._open_parts, self._asking = open_parts, asking
        self.held = bytearray()
        self.parts: Any = None
        self.size = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.size += view.nbytes
        if self.parts is None and len(self.held) + view.nbytes <= WHOLE:
            self.held += view
            return view.nbytes
        with self._asking():
            if self.parts is None:
                self.parts = self._open_parts()
                self.parts.write(bytes(self.held))
                self.held = bytearray()
            self.parts.write(bytes(view))
        return view.nbytes

    def flush(self) -> None: ...

    def finish(self) -> None:
        self.parts.close()

    def give_up(self, error: BaseException) -> None:
        """Tell the store to forget the parts. If it does not answer, they stay until the bucket's rule removes them."""
        if self.parts is None:
            return
        parts: AbstractContextManager[Any] = self.parts
        try:
            with self._asking():
                parts.__exit__(type(error), error, error.__traceback__)
        except FilesError as failure:
            logger.warning("the parts of an unfinished file could not be deleted: %s", failure)


def is_object_url(text: str) -> bool:
    """Return whether a text is a URL of an object store."""
    return text.startswith(SCHEMES)


def object_files(option: str, url: str, storage: Storage) -> ObjectFiles:
    """Return the ObjectFiles of a URL, which is the value of `option`. Raises TopologyError if the URL is invalid.

    >>> object_files("filesLocation", "s3://books/runs/", Storage()).address
    's3://books/runs'
    """
    bucket, key = bucket_of(url) if is_object_url(url) else ("", "")
    host = bucket.partition("://")[2]
    if "@" in host and not url.startswith(("abfs://", "abfss://")):
        raise TopologyError(
            f"{option}: the URL contains credentials; set them in the environment or in the storage options"
        )
    if not host:
        raise TopologyError(
            f"{option}={url!r}: expected the URL of a bucket and a prefix, such as s3://bucket/prefix, or of a folder "
            f"on HDFS, such as hdfs://namenode:8020/folder (supported: {', '.join(SCHEMES)}, hdfs://)"
        )
    return ObjectFiles(bucket, key.strip("/"), storage)
