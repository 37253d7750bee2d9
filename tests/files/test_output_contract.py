"""The contract of outputs, for Parquet on a real S3 server and on a real HDFS."""

import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.hdfs import Hdfs
from tests.support.objects import Objects
from tests.support.parquet_outputs import parquet_output
from trident import publishedFiles
from trident.files.object_options import Storage
from trident.outputs.run_identity import RunIdentity
from trident.testing import OutputContract, OutputPlace
from trident.testing.contracts.outputs import Take


class Manifested:
    """A Parquet output on an object store or on HDFS."""

    def __init__(self, place: Objects | Hdfs, storage: dict[str, str]) -> None:
        self._place, self._storage, self._url = place, storage, f"{place.url}/out"
        self._files: Any = place.files()

    def open(self, run: RunIdentity) -> Take:
        return parquet_output(self._url, run, Storage.of(self._storage))

    def words(self) -> list[str]:
        urls = publishedFiles(self._url, storage=self._storage)
        contents = [bytes(self._files.read(url.removeprefix(f"{self._place.url}/"))) for url in urls]
        return [word for each in contents for word in pq.ParquetFile(io.BytesIO(each)).read()["word"].to_pylist()]

    def save(self) -> dict[str, bytes]:
        return {name: bytes(self._files.read(name)) for name in self._place.names("out")}

    def restore(self, saved: dict[str, bytes]) -> None:
        self._files.delete(self._place.names("out"))
        for name, content in saved.items():
            self._files.create(name, content)

    def take_away(self) -> None:
        batches = [name for name in self._place.names("out") if "/txid=" in name or "/_trident/batches/" in name]
        self._files.delete(batches)


class TestParquetOnAnObjectStore(OutputContract):
    @pytest.fixture
    def place(self, objects: Objects) -> OutputPlace:
        return Manifested(objects, objects.server.storage)


class TestParquetOnHdfs(OutputContract):
    @pytest.fixture
    def place(self, hdfs: Hdfs) -> OutputPlace:
        return Manifested(hdfs, {})
