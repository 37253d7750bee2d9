"""A real S3 server and a real HDFS, with a prefix or folder for each test; results in files, however small."""

from collections.abc import Iterator

import pytest

from tests.support.hdfs import Hdfs, hdfs, hdfs_server
from tests.support.objects import Objects, objects, s3_server
from trident.files import object_client
from trident.log import frozen_results


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every result be as a large one."""
    monkeypatch.setattr(frozen_results, "MOST_IN_LOG", -1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process ask a store only twice, so that the run and not the client waits for one that is away."""
    monkeypatch.setattr(object_client, "PATIENT", {"max_retries": 1})
    object_client.open_bucket.cache_clear()
    yield
    object_client.open_bucket.cache_clear()


__all__ = ["Hdfs", "Objects", "hdfs", "hdfs_server", "objects", "s3_server"]
