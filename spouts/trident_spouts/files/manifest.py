"""A manifest: a file that names the files of a stream, in the order in which they are read."""

import json
import os
import posixpath
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from trident.base.errors import MalformedInputError, SourceUnreadableError, SpoutContractError
from trident_spouts.files.file_ranges import unreadable_error
from trident_spouts.files.storage import FileStorage, ListedFile

_AT_ONCE = 16
"""The number of named files that are looked up at the same time. On an object store, each look-up is a request."""


@dataclass(slots=True)
class ManifestFile:
    """A file in `place` that names other files in it: one in each line, or in the JSON form of Redshift's COPY."""

    place: FileStorage
    name: str
    _known: tuple[ListedFile | None, list[str]] = field(default_factory=lambda: (None, []))
    """The manifest file (with its status when it was last read), and the names in it."""

    def __str__(self) -> str:
        return self.place.path(self.name)

    def names(self, time: float, complete_after: float) -> list[str]:
        """Return the names of all files that the manifest names, each once, in its order and its first spelling.

        A last line without a newline may be incomplete; it counts `complete_after` seconds after the last write, or at
        once if files of this place do not grow. `time` is the present time (seconds since 1970). Raises
        SourceUnreadableError if the manifest cannot be read, and MalformedInputError if it is not a manifest.
        """
        try:
            now = self.place.look(self.name)
            waits = self.place.grows and now.age(time) < complete_after
            if waits or now != self._known[0]:
                with self.place.open(now) as file:
                    text = self._decoded(file.read())
                paths = self._in_json(text) if text.lstrip()[:1] in ("{", "[") else _in_lines(text, waits)
                once = dict[str, str]()
                for name in map(self._name_of, paths):
                    once.setdefault(self._place_of(name), name)
                self._known = (None if waits else now, list(once.values()))
        except SpoutContractError:  # the object was replaced after the look-up: the next plan reads the new object
            pass
        except SourceUnreadableError:
            raise
        except OSError as error:
            raise unreadable_error(str(self), error) from error
        return self._known[1]

    def checksum(self, names: Sequence[str]) -> int:
        """Return the checksum by which the first names of the manifest are recognized."""
        return zlib.crc32("\n".join(names).encode())

    def check_read(self, names: Sequence[str], read: int, checksum: int) -> None:
        """Raise SpoutContractError unless the first `read` of the `names` have this checksum."""
        if len(names) < read or self.checksum(names[:read]) != checksum:
            raise SpoutContractError(
                f"FileSpout: {self}: the first {read} names were changed after their files were read; names may "
                f"only be added at the end. Restore the earlier names, or give the stream another name, with "
                f"newStream(..., anew=True), to read the files that the manifest names now"
            )

    def _place_of(self, name: str) -> str:
        """Return the path to which a name leads. It is the same for all spellings: `a`, `./a`, the absolute path."""
        path = self.place.path(name)
        if "://" in self.place.address:
            return path
        folder, base = os.path.split(os.path.normpath(path))
        return os.path.join(os.path.realpath(folder), base)

    def files(self, names: Sequence[str]) -> Iterator[ListedFile]:
        """Yield the named files as they are now. Raises SourceUnreadableError if a file is missing."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for start in range(0, len(names), _AT_ONCE):
                yield from threads.map(self._look, names[start : start + _AT_ONCE])

    def _look(self, name: str) -> ListedFile:
        try:
            return self.place.look(name)
        except FileNotFoundError:
            raise SourceUnreadableError(
                f"FileSpout: {self} names {self.place.path(name)}, which does not exist; add a file to the manifest "
                f"when the file is complete, and keep it until the stream has read it"
            ) from None
        except SourceUnreadableError:
            raise
        except OSError as error:
            raise unreadable_error(self.place.path(name), error) from error

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise MalformedInputError(
                f"{self}: invalid UTF-8 at byte {error.start}; a manifest is UTF-8 text"
            ) from None

    def _in_json(self, text: str) -> list[str]:
        try:
            return [str(entry["url"]) for entry in json.loads(text)["entries"]]
        except (ValueError, LookupError, TypeError):
            raise MalformedInputError(
                f'{self}: expected a manifest: the path of a file in each line, or {{"entries": [{{"url": "path"}}]}}'
            ) from None

    def _name_of(self, path: str) -> str:
        """Return the name in `place` of the file at `path`, which may be relative to the manifest's folder."""
        root = self.place.address
        if "://" not in root:
            plain = "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
            if "://" not in plain:
                return plain
        else:
            url = path.replace("s3a://", "s3://", 1) if path.startswith("s3a://") else path
            if "://" not in url:
                return posixpath.normpath(posixpath.join(posixpath.dirname(self.name), url.lstrip("/")))
            if url.startswith(f"{root.rstrip('/')}/"):
                return url[len(root.rstrip("/")) + 1 :]
        raise MalformedInputError(
            f"{self} names {path}, which is not in the same store as the manifest; expected a path relative to the "
            f"manifest's folder, or one that begins with {root if '://' in root else '/'}"
        )


def _in_lines(text: str, waits: bool) -> list[str]:
    *lines, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in (lines if waits else [*lines, last])]
    return [line for line in lines if line.strip()]
