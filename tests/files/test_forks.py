"""Savepoints and forks with files on a real S3 server and logs in Redis: no disk has anything that is needed."""

from pathlib import Path

import pytest

from tests.files.kit import BATCHES, EXPECTED, options, state_of, topology
from tests.support.objects import Objects
from tests.support.server import RedisServer
from trident import dropSavepoint, forkTopology, listSavepoints
from trident.errors import SavepointError
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("in_files")


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_a_savepoint_and_its_fork_on_an_object_store(
    kind: str, objects: Objects, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(shared_redis, objects)
    with start_local(topology(state_of(kind, shared_redis)), **given) as running:
        running.processAllAvailable(timeout=60)
        assert running.savepoint("before").txids == {"words": len(BATCHES)}
        with pytest.raises(SavepointError, match="there is a savepoint 'before'"):
            running.savepoint("before")
    assert [info.name for info in listSavepoints("t", **objects.options)] == ["before"]
    forkTopology("t", "before", "trial", **objects.options, toLog=given["log"])
    assert objects.names("trial/frozen")
    monkeypatch.setattr("tests.files.kit.BATCHES", [*BATCHES, ["word0"]])
    for _ in range(2):
        with start_local(topology(state_of(kind, shared_redis)), **{**given, "name": "trial"}) as running:
            running.processAllAvailable(timeout=60)
            assert dict(running.state("counts").items()) == {**EXPECTED, "word0": EXPECTED["word0"] + 1}
    dropSavepoint("t", "before", **objects.options)
    assert not objects.names("t/savepoints") and objects.names("t/frozen")


def test_a_reset_deletes_the_savepoints(objects: Objects, shared_redis: RedisServer, tmp_path: Path) -> None:
    given, made = options(shared_redis, objects), topology(state_of("memory", shared_redis))
    with start_local(made, **given) as running:
        running.savepoint("before")
    made.reset("t", log=given["log"], **objects.options)
    assert not objects.names("t/savepoints")
