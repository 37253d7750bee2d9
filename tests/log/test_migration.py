"""Logs of version 0.1.0: what that version wrote is brought into today's format, or refused and left as it is."""

import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest

import trident
from tests.access.small_topologies import everything
from tests.data.recorded import program, store
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.errors import BatchFailedError, LogError
from trident.log import RedisLog
from trident.log.protocol import TransactionLog
from trident.log.sqlite_log import SqliteLog
from trident.spouts import PollingSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

WAITING = r"written by version 0\.1\.0, and batch \d of group '\w+' is frozen and not committed: start .* with that"


class Place:
    """Where a recording was put back."""

    def __init__(self, folder: Path, server: RedisServer | None) -> None:
        self.folder, self.server = folder, server

    @property
    def url(self) -> str | None:
        return None if self.server is None else self.server.url

    def restore(self, end: str) -> dict[str, Any]:
        kind = "memory" if self.server is None else "redis"
        return store.restore(f"v0.1/{kind}-{end}", self.folder, None if self.server is None else self.server.client)

    def start(self) -> Any:
        source = program.rows(program.COMMITTED, program.LAST, program.MORE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return program.start(self.folder, source, self.url)

    def log(self) -> TransactionLog:
        if self.url is not None:
            return RedisLog(self.url, requireDurable=False).open(program.NAME)
        return SqliteLog(self.folder / "checkpoint" / program.NAME / "log.sqlite", program.NAME)

    def content(self) -> Any:
        """Everything that is there, to the byte; of a log that a killed driver left, what it says."""
        if self.server is not None:
            client = self.server.client
            return {key: client.hgetall(key) for key in client.scan_iter()}, everything(self.folder)
        db = sqlite3.connect(f"file:{self.folder}/checkpoint/{program.NAME}/log.sqlite?mode=ro", uri=True)
        said = list(db.iterdump())
        db.close()
        return said, {name: data for name, data in everything(self.folder).items() if "log.sqlite" not in str(name)}


@pytest.fixture(params=["memory", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.getfixturevalue("shared_redis") if request.param == "redis" else None)


@pytest.mark.parametrize("end", ["clean", "planned"])
def test_a_start_goes_on_exactly(place: Place, end: str) -> None:
    expected = place.restore(end)
    with place.start() as running:
        running.processAllAvailable(timeout=60)
        contents = program.contents(running)
    after = expected["contents after more"]
    assert {name: contents[name] for name in after} == after
    assert program.handed(place.folder) == expected["handed after more"]


@pytest.mark.parametrize("end", ["clean", "planned"])
def test_positions_stand_by_stream_and_batches_keep_what_they_are(place: Place, end: str) -> None:
    groups = place.restore(end)["groups"]
    log = place.log()
    assert log.groups() == sorted(groups)
    streams = log.members().streams
    assert {name: each.position for name, each in streams.items()} == {
        stream: position for told in groups.values() for stream, position in told["positions"].items()
    }
    assert {streams[name].group for name in ("ads", "clicks")} == {"ads"}
    for group, told in groups.items():
        history = log.history(group)
        assert (history.committed, history.frozen) == (told["committed"], ())
        assert log.attempts(group) == {}
        last = log.batch(group, told["committed"])
        assert last is not None and set(last.plan) >= set(told["positions"]) and last.time > 0 and last.outline == ""
        assert log.batch(group, told["committed"] + 1) is None, "plans of which nothing was frozen are gone"
        assert log.frozen(group, told["committed"], 1)
    uuid = log.uuid
    log.close()
    again = place.log()
    assert again.uuid == uuid and again.members().streams == streams, "it is migrated once"
    again.close()


def other_source(place: Place, **how: Any) -> dict[Any, Any]:
    """Start the recording's topology with another kind of source under a stream's name; what a state has of it."""
    topology = TridentTopology()
    stream = topology.newStream("orders", PollingSpout("page string", {"p": ["a", "b", "c"]}, maxRows=2), **how)
    stream.groupBy("page").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="fresh")
    log = None if place.url is None else RedisLog(place.url, requireDurable=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        running = start_local(topology, name=program.NAME, checkpointLocation=place.folder / "checkpoint", log=log)
    with running:
        running.processAllAvailable(timeout=20)
        return dict(running.state("fresh").items())


def test_another_kind_of_source_that_was_started_by_mistake_takes_nothing(place: Place) -> None:
    """The former version did not write down the kinds of sources."""
    expected = place.restore("clean")
    with pytest.raises(BatchFailedError, match="the log belongs to another spout"):
        other_source(place)
    with place.start() as running:
        running.processAllAvailable(timeout=60)
        contents = program.contents(running)
    after = expected["contents after more"]
    assert {name: contents[name] for name in after} == after


@pytest.mark.parametrize("mistaken", [False, True])
def test_another_kind_of_source_may_begin_anew(place: Place, mistaken: bool) -> None:
    place.restore("clean")
    if mistaken:
        with pytest.raises(BatchFailedError):
            other_source(place)
    assert other_source(place, anew=True) == {"a": 1, "b": 1, "c": 1}
    assert other_source(place) == {"a": 1, "b": 1, "c": 1}, "once"


def test_the_driver_of_the_former_version_is_fenced_with_it(place: Place) -> None:
    """It was killed here, so its lease is in force; one that runs would go on writing the former fields."""
    place.restore("planned")
    log = place.log()
    lease = log.lease()
    assert lease is not None and lease.epoch == 2 and lease.token == ""
    assert log.take().epoch == 3
    log.close()


def test_batches_that_wait_are_refused_and_nothing_is_written(place: Place) -> None:
    place.restore("frozen")
    before = place.content()
    for use in (place.start, place.log):
        with pytest.raises(LogError, match=WAITING):
            use()
        assert place.content() == before


@pytest.mark.parametrize("end", ["clean", "frozen"])
def test_a_reset_gives_it_up_even_where_batches_wait(place: Place, end: str) -> None:
    place.restore(end)
    topology = program.topology(place.folder, program.rows(program.COMMITTED), place.url)
    log = None if place.url is None else RedisLog(place.url, requireDurable=False)
    topology.reset(program.NAME, place.folder / "checkpoint", log=log)
    assert not (place.folder / "checkpoint" / program.NAME).exists()
    assert place.server is None or place.server.held("") == {}


def test_a_last_write_that_looks_like_a_number_is_no_number(tmp_path: Path, shared_redis: RedisServer) -> None:
    """Version 0.1.0 wrote down its token and the number; a token may be all digits."""
    place = Place(tmp_path, shared_redis)
    place.restore("clean")
    shared_redis.client.hset(f"trident:{{{program.NAME}}}:log:m", "last", "1234567890123456.12")
    log = place.log()
    assert log.take().epoch > 0
    log.close()


@pytest.mark.parametrize("end", ["clean", "frozen"])
def test_a_reader_tells_what_to_do_and_writes_nothing(place: Place, end: str) -> None:
    place.restore(end)
    before = place.content()
    log = None if place.url is None else RedisLog(place.url)
    with pytest.raises(LogError, match=r"written by version 0\.1\.0: start its topology once with this version"):
        trident.openState(program.NAME, "spent", place.folder / "checkpoint", log=log)
    assert place.content() == before
