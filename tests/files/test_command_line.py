"""The command line finds states in memory whose snapshots lie on a real S3 server."""

import json

import pytest
from click.testing import CliRunner

from tests.files.kit import EXPECTED, options, state_of, topology
from tests.support.objects import Objects
from tests.support.server import RedisServer
from trident.cli.main import main
from trident.testing.local import start_local


def test_states_are_listed_read_and_dropped(objects: Objects, redis_server: RedisServer) -> None:
    with start_local(topology(state_of("memory", redis_server)), **options(redis_server, objects)) as running:
        running.processAllAvailable(timeout=60)
    storage = ",".join(f"{name}={value}" for name, value in objects.server.storage.items())
    log = ["--log-url", redis_server.url]
    places = [*log, "--files-location", objects.url, "--files-storage", storage]

    def ran(*words: str) -> str:
        done = CliRunner().invoke(main, ["state", *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "counts" in ran("list", "t", *places)
    found = [json.loads(line) for line in ran("scan", "t", "counts", *places, "--format", "json").splitlines()]
    assert {row["word"]: row["value"] for row in found} == EXPECTED
    said = CliRunner().invoke(main, ["state", "scan", "t", "counts", *log])
    assert said.exit_code != 0 and "checkpointLocation or filesLocation" in str(said.output) + str(said.exception)
    ran("drop", "t", "counts", *places, "--yes")
    assert objects.names("t/states") == []


def test_the_environment_sets_the_place(
    objects: Objects, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = ",".join(f"{name}={value}" for name, value in objects.server.storage.items())
    monkeypatch.setenv("TRIDENT_START_FILES_LOCATION", objects.url)
    monkeypatch.setenv("TRIDENT_START_FILES_STORAGE", storage)
    given = options(shared_redis, objects)
    made = topology(state_of("memory", shared_redis))
    with made.start(engine="embedded", name="t", log=given["log"]) as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == EXPECTED
    assert objects.names("t/states")
