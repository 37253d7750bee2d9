"""A bucket of a real S3 server, with a prefix of its own for each test: fixtures that a conftest imports."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("obstore", reason="tests of objects need the package obstore")

from tests.support.s3 import BUCKET, S3Server  # noqa: E402
from trident.files.object_options import Storage  # noqa: E402
from trident.files.objects import ObjectFiles, object_files  # noqa: E402
from trident.spouts import FileSpout, Manifest  # noqa: E402

_numbers = itertools.count()


@dataclass
class Objects:
    """The objects below one prefix."""

    server: S3Server
    prefix: str = field(default_factory=lambda: f"test{next(_numbers):04}")

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    def put(self, name: str, content: bytes | str) -> None:
        self.server.put(f"{self.prefix}/{name}", content.encode() if isinstance(content, str) else content)

    def delete(self, name: str) -> None:
        self.server.delete(f"{self.prefix}/{name}")

    def spout(self, pattern: str = "", *args: Any, manifest: bool = False, **options: Any) -> FileSpout:
        path = f"{self.url}/{pattern}" if pattern else self.url
        return FileSpout(Manifest(path) if manifest else path, *args, **{"storage": self.server.storage, **options})

    def files(self, **storage: str) -> ObjectFiles:
        """Return the prefix as a place of a run's files."""
        return object_files("files", self.url, Storage.of({**self.server.storage, **storage}))

    @property
    def options(self) -> dict[str, Any]:
        """The options of a start that keeps its files here."""
        return {"filesLocation": self.url, "filesStorage": self.server.storage}

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the objects that are there now, sorted."""
        return sorted(file.name for file in self.files().files(folder))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def objects(s3_server: S3Server) -> Objects:
    return Objects(s3_server)
