"""A stored checkpoint, unpacked: its folder is the present one, its keys and tables are on servers of the tests."""

from pathlib import Path

import pytest

from tests.compatibility import sent
from tests.compatibility.cases import Case
from tests.compatibility.messages import load_topic
from tests.compatibility.programs import Places
from tests.compatibility.shelf import (
    DISK,
    FOLDER,
    KAFKA,
    NOWHERE,
    POSTGRES,
    REDIS,
    load_keys,
    load_tables,
    new_database,
    unpack,
)


def restored(
    case: Case, archive: Path, request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Places:
    """Unpack an archive, and return the places of a program that has two parts of its input."""
    unpack(archive, folder)
    monkeypatch.chdir(folder / FOLDER)
    case.moved(NOWHERE, folder / FOLDER, folder / FOLDER)
    redis = postgres = kafka = ""
    if case.redis:
        server = request.getfixturevalue("shared_redis")
        load_keys(server.client, (folder / REDIS).read_text())
        redis = server.url
    if case.postgres:
        tables = request.getfixturevalue("postgres")
        postgres = new_database(tables, "golden")
        load_tables(tables, "golden", (folder / POSTGRES).read_text())
    if case.kafka:
        kafka = load_topic(request.getfixturevalue("kafka"), (folder / KAFKA).read_text())
    if case.disk:
        broker = sent.restored(folder / DISK, folder / "broker")
        request.addfinalizer(broker.kill)
        kafka = broker.servers
    return Places(2, redis, postgres, kafka)
