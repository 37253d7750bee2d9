"""A start goes on from what earlier versions left behind."""

import warnings
from pathlib import Path

import pytest

from tests.data.recorded import program, store
from tests.support.server import RedisServer


@pytest.mark.parametrize("recording", [name for name in store.recordings() if not name.endswith("frozen")])
def test_a_start_goes_on_from_a_recorded_store(recording: str, tmp_path: Path, shared_redis: RedisServer) -> None:
    in_redis = "redis" in recording
    expected = store.restore(recording, tmp_path, shared_redis.client if in_redis else None)
    source = program.rows(program.COMMITTED, program.LAST, program.MORE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        running = program.start(tmp_path, source, shared_redis.url if in_redis else None)
    with running:
        running.processAllAvailable(timeout=60)
        contents = program.contents(running)
    after = expected["contents after more"]
    assert {name: contents[name] for name in after} == after
    assert program.handed(tmp_path) == expected["handed after more"]
