"""Objects of S3 and of stores with the same interface: listed by prefix, and read only if unchanged."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from trident.base.errors import SourceUnreadableError, SpoutContractError, TridentError
from trident.files.object_client import bucket_of, failures, obstore, open_bucket, reason
from trident.files.object_options import Storage
from trident_spouts.files.glob_patterns import literal_start, matches, wild_at
from trident_spouts.files.listing import is_hidden
from trident_spouts.files.remote_file import BUFFER, RangeReader
from trident_spouts.files.storage import ListedFile, OpenFile

_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """A prefix of a bucket, and a pattern below it."""

    bucket: str
    """The URL of the bucket: ``s3://bucket``."""

    folder: str
    """The part of all keys before the names, without a slash at its end. It may be empty."""

    pattern: str
    """A glob below `folder`; if it is empty, all objects of that folder."""

    storage: Storage = Storage()

    grows = False
    sorted = True
    opening_bytes = 256 << 10

    @classmethod
    def at(cls, url: str, storage: Storage) -> "ObjectStorage":
        """Return the ObjectStorage of a URL, which names a prefix, an object or a glob.

        Raises SourceUnreadableError if the URL is not a glob and there is no such object or prefix.

        >>> ObjectStorage.at("s3://books/2024-*/part?.txt", Storage())
        ObjectStorage(bucket='s3://books', folder='', pattern='2024-*/part?.txt', storage=Storage(options=()))
        """
        bucket, key = bucket_of(url)
        parts = key.strip("/").split("/")
        wild = wild_at(parts)
        if wild is not None:
            return cls(bucket, "/".join(parts[:wild]), "/".join(parts[wild:]), storage)
        if key and not key.endswith("/"):
            with suppress(FileNotFoundError):
                cls(bucket, "", "", storage).look(key)
                return cls(bucket, "/".join(parts[:-1]), glob.escape(parts[-1]), storage)
        place = cls(bucket, "/".join(parts), "", storage)
        if next(place._objects(""), None) is None:
            raise SourceUnreadableError(f"FileSpout: there is no object and no prefix {url}")
        return place

    def is_there(self) -> bool:
        """Return True, because a prefix exists even without objects."""
        return True

    def deep(self) -> "ObjectStorage":
        """Return the same prefix with a pattern that matches all objects under it."""
        return replace(self, pattern="**/*")

    @property
    def address(self) -> str:
        """Return the bucket and the prefix as a URL."""
        return f"{self.bucket}/{self.folder}".rstrip("/")

    def path(self, name: str) -> str:
        """Return the URL of the object with the given name."""
        return f"{self.address}/{name}"

    def __str__(self) -> str:
        return self.path(self.pattern) if self.pattern else self.address

    # --- listing --------------------------------------------------------------------------------------------------

    def files(self, hidden: bool, after: str) -> Iterator[ListedFile]:
        """Yield the objects that exist now, with names after `after`, in the order of their names.

        The store lists a thousand objects per request, from the first name that may fit the pattern.
        """
        start = literal_start(self.pattern)
        for file in self._objects(max(after, start[:-1])):
            if not file.name.startswith(start):
                if file.name > start:
                    return
                continue
            if file.name > after and is_hidden(file.name) == hidden and matches(file.name, self.pattern or "*"):
                yield file

    def _objects(self, after: str) -> Iterator[ListedFile]:
        prefix = f"{self.folder}/" if self.folder else ""
        with self._asking(f"cannot list {self}"):
            for page in self._store.list(
                self.folder or None, offset=prefix + after if after else None, chunk_size=_PAGE
            ):
                for about in page:
                    yield self._listed(about["path"].removeprefix(prefix), about)

    def look(self, name: str) -> ListedFile:
        """Return the object with the given name as it is now. Raises FileNotFoundError if there is none."""
        with self._asking(f"cannot read {self.path(name)}"):
            return self._listed(name, self._store.head(self._key(name)))

    def _listed(self, name: str, about: Any) -> ListedFile:
        tag = about["e_tag"] or about["version"]
        if not tag:
            raise SourceUnreadableError(
                f"FileSpout: {self.bucket} returns no ETags for its objects, and FileSpout needs them to detect a "
                f"replaced object"
            )
        # In whole seconds: some stores return fractions in listings but not for single objects.
        time = int(about["last_modified"].timestamp()) * 10**9  # only the store sets it
        return ListedFile(time, name, about["size"], tag=tag, changed=time)

    def _key(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    # --- reading --------------------------------------------------------------------------------------------------

    def open(self, file: ListedFile) -> "ObjectFile":
        """Return the content of the object with the ETag of `file`. No request is sent before the first read."""
        return ObjectFile(self, file)

    def for_arrow(self, file: ListedFile) -> "ObjectFile":
        """Return the opened object."""
        return self.open(file)

    def fetch(self, file: ListedFile, start: int, end: int) -> memoryview:
        """Return the bytes of an object from `start` to `end`.

        Raises SpoutContractError if the object has another ETag by now, SourceUnreadableError if it is gone.
        """
        options = {"range": (start, end), "if_match": file.tag}
        with self._asking(f"cannot read {self.path(file.name)}"):
            try:
                return memoryview(obstore().get(self._store, self._key(file.name), options=options).bytes())
            except FileNotFoundError:
                raise SourceUnreadableError(
                    f"FileSpout: cannot read {self.path(file.name)}: deleted after listing; "
                    f"restore the file, or restart the topology, which then plans the batch again"
                ) from None
            except failures().PreconditionError:
                raise SpoutContractError(
                    f"FileSpout: {self.path(file.name)} was planned with {file.size} bytes and the ETag {file.tag}, "
                    f"but has since been replaced; an object must not change. This attempt is discarded. Restore the "
                    f"old object, or restart the topology, which then plans the batch again. Write new content under a "
                    f"new name"
                ) from None

    @property
    def _store(self) -> Any:
        return open_bucket(
            self.bucket, *self.storage.read(lambda problem: SourceUnreadableError(f"FileSpout: {problem}"))
        )

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Raise errors of the store as SourceUnreadableError within the block.

        If an object does not exist, raise FileNotFoundError.
        """
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(2, "there is no such object") from None
        except TridentError:
            raise
        except (OSError, ValueError, failures().BaseError) as error:
            raise SourceUnreadableError(f"FileSpout: {what}: {reason(error)}") from None


class ObjectFile(OpenFile):
    """An object that is read by ranges. Every request demands the ETag that the listing showed."""

    def __init__(self, place: ObjectStorage, file: ListedFile) -> None:
        super().__init__(RangeReader(file.size, lambda start, end: place.fetch(file, start, end)), BUFFER)
        self._listed_file = file

    def status(self) -> ListedFile:
        """Return the object as it was listed."""
        return self._listed_file
