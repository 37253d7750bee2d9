"""Entries that were lost before they were read: each way to lose them is noticed, and nothing else is taken for one."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.support.plans import logged
from tests.support.server import RedisServer
from trident.base.attempt import TransactionAttempt
from trident.errors import DataLossError, SourceUnreadableError
from trident.spouts import RedisStreamSpout
from trident_spouts.executor import Metadata, SpoutExecutor

Act = Callable[[redis.Redis], object]
"""What somebody does to the stream between two plans."""


class Reader:
    """A stream that is read batch by batch, by a spout that a restart makes anew at each batch."""

    def __init__(self, server: RedisServer, **options: Any) -> None:
        self.server, self.client = server, server.client
        self._options = {"maxEntriesPerBatch": 4, "idField": "id"} | options
        self.position: Metadata = None
        self.txid = 0

    def open(self, **options: Any) -> SpoutExecutor:
        return RedisStreamSpout(self.server.url, "s", "n long", **self._options | options).open()

    def plan(self, **options: Any) -> Any:
        """Return the next plan, as the log gives it back."""
        executor = self.open(**options)
        try:
            return logged(executor.plan(TransactionAttempt(self.txid + 1, 0), self.position, 0.0))
        finally:
            executor.close()

    def emit(self, plan: Metadata, **options: Any) -> list[int]:
        """Return the numbers of the entries of a plan."""
        executor = self.open(**options)
        return [row["n"] for row in executor.emit(TransactionAttempt(self.txid + 1, 0), plan).arrow().to_pylist()]

    def read(self, **options: Any) -> list[int] | None:
        """Read a batch, and return its numbers; None if there is none."""
        plan = self.plan(**options)
        if plan is None:
            return None
        numbers = self.emit(plan, **options)
        self.txid, self.position = self.txid + 1, plan
        return numbers

    def rest(self, **options: Any) -> list[int]:
        """Read until there is nothing more, and return the numbers."""
        numbers: list[int] = []
        while (batch := self.read(**options)) is not None:
            numbers += batch
        return numbers

    def add(self, *numbers: int, stream: str = "s") -> None:
        for n in numbers:
            self.client.xadd(stream, {"n": n}, id=f"{n}-1")


@pytest.fixture
def reader(shared_redis: RedisServer) -> Reader:
    """A stream of ten entries, 1-1 to 10-1, of which four were read."""
    reader = Reader(shared_redis)
    reader.add(*range(1, 11))
    assert reader.read() == [1, 2, 3, 4]
    return reader


def anew(first: int, last: int) -> Act:
    """Delete the stream, and make it anew with other entries of these ids."""

    def act(client: redis.Redis) -> None:
        client.delete("s")
        for n in range(first, last + 1):
            client.xadd("s", {"n": 100 + n}, id=f"{n}-1")

    return act


def both(*acts: Act) -> Act:
    return lambda client: [act(client) for act in acts]


def delete(*numbers: int) -> Act:
    return lambda client: client.xdel("s", *[f"{n}-1" for n in numbers])


def trim(length: int) -> Act:
    return lambda client: client.xtrim("s", maxlen=length, approximate=False)


def add(*numbers: int) -> Act:
    return lambda client: [client.xadd("s", {"n": n}, id=f"{n}-1") for n in numbers]


BEHIND: list[tuple[Act, str, list[int] | None]] = [
    (trim(5), "1 entry after 4-1 vanished before being read: trimmed or deleted", [6, 7, 8, 9, 10]),
    (trim(1), "5 entries after 4-1 vanished before being read", [10]),
    (trim(0), "6 entries after 4-1 vanished before being read", []),
    (both(trim(6), delete(7)), "1 entry after 4-1 vanished before being read", [5, 6, 8, 9, 10]),
    (delete(7), "the entry 7-1 was deleted before it was read, and possibly others after 4-1", [5, 6, 8, 9, 10]),
    (delete(10), "the entry 10-1 was deleted before it was read", [5, 6, 7, 8, 9]),
    (both(delete(4, 7), add(11)), "the entry 7-1 was deleted before it was read", [5, 6, 8, 9, 10, 11]),
    (both(delete(5), trim(5)), "1 entry after 4-1 vanished", [6, 7, 8, 9, 10]),
    (lambda client: client.delete("s"), "the stream is gone: it was deleted.*it was read up to 4-1", []),
    (anew(1, 3), "its last id is 3-1, but it was read up to 4-1: it was deleted and recreated,", []),
    (anew(1, 10), "its entry 4-1 is not the one that was read: the stream was deleted and recreated", None),
    (anew(5, 6), "2 entries were added to it in total, but 4 were read or trimmed before: it was deleted", [105, 106]),
    (anew(5, 14), "it has 4 more entries after 4-1 than were added since: it was deleted and recreated,", None),
    (
        both(lambda c: c.delete("s"), add(1, 2, 3, 5, 6)),
        "the entry 4-1, which was read, is missing, but was not deleted:",
        [5, 6],
    ),
]


@pytest.mark.parametrize(("act", "message", "left"), BEHIND)
def test_what_was_lost_between_two_plans_is_an_error_or_told(
    reader: Reader, caplog: pytest.LogCaptureFixture, act: Act, message: str, left: list[int] | None
) -> None:
    act(reader.client)
    with pytest.raises(DataLossError, match=f"RedisStreamSpout: stream 's': (?:{message})") as caught:
        reader.plan()
    assert "onDataLoss='warn'" in str(caught.value)
    with caplog.at_level(logging.WARNING, "trident.spouts"):
        first = reader.read(onDataLoss="warn")
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == 1 and "Reading continues after" in told[0], told
        numbers = (first or []) + reader.rest(onDataLoss="warn")
        assert len(caplog.records) == 1, "it is told once"
    assert left is None or numbers == left
    if reader.client.exists("s"):
        reader.add(50, 51)
    assert reader.rest() == ([50, 51] if reader.client.exists("s") else []), "nothing is lost any more"


def copied(client: redis.Redis) -> None:
    """Let the stream go through a dump, as when a cluster moves it to another server."""
    dump = client.dump("s")
    client.delete("s")
    client.restore("s", 0, dump)  # type: ignore[arg-type]


REST = [5, 6, 7, 8, 9, 10]
HARMLESS: list[tuple[Act, list[int]]] = [
    (lambda client: None, REST),
    (trim(6), REST),
    (delete(1, 2, 4), REST),
    (delete(1, 2, 3, 4), REST),
    (both(delete(2, 4), trim(7)), REST),
    (both(delete(4), add(11), delete(3)), [*REST, 11]),
    (copied, REST),
    (both(trim(6), copied), REST),
]


@pytest.mark.parametrize(("act", "left"), HARMLESS)
def test_what_happens_to_entries_that_were_read_is_no_loss(reader: Reader, act: Act, left: list[int]) -> None:
    act(reader.client)
    assert reader.rest() == left
    both(delete(*left), copied)(reader.client)
    reader.add(20)
    assert reader.rest() == [20]


def test_entries_that_were_gone_before_reading_began_are_no_loss(shared_redis: RedisServer) -> None:
    reader = Reader(shared_redis)
    reader.add(*range(1, 15))
    both(trim(12), delete(5, 9, 14))(reader.client)
    assert reader.rest() == [3, 4, 6, 7, 8, 10, 11, 12, 13]
    reader.add(15)
    assert reader.rest() == [15]


@pytest.mark.parametrize("start", ["earliest", "1-1", "5-1", "latest"])
@pytest.mark.parametrize("act", [delete(11, 14), trim(2), both(trim(10), delete(11, 13)), delete(12), anew(11, 12)])
def test_a_loss_is_noticed_wherever_reading_began(shared_redis: RedisServer, start: str, act: Act) -> None:
    reader = Reader(shared_redis, startingIds=start, maxEntriesPerBatch=3)
    reader.add(*range(1, 11))
    delete(2, 7)(reader.client)
    reader.read()
    reader.add(*range(11, 15))
    act(reader.client)
    with pytest.raises(DataLossError):
        reader.rest()


@pytest.mark.parametrize("act", [trim(2), trim(0), lambda client: client.delete("s")])
def test_an_id_ahead_of_the_stream_is_a_start_too(shared_redis: RedisServer, act: Act) -> None:
    """Entries up to it are not wanted, though they are added later."""
    reader = Reader(shared_redis, startingIds="12-0")
    reader.add(*range(1, 6))
    act(reader.client)
    assert reader.read() == []
    assert reader.read() is None
    reader.add(*range(6, 15))
    assert reader.rest() == [12, 13, 14]
    reader.add(15, 16)
    delete(15)(reader.client)
    with pytest.raises(DataLossError, match="1 entry after 14-1 vanished"):
        reader.rest()


def test_a_first_batch_that_is_replanned_begins_where_it_began(shared_redis: RedisServer) -> None:
    """The log has no place yet: an opaque spout remembers what "latest" was for the attempt before."""
    reader = Reader(shared_redis, startingIds="latest", kind="opaque")
    reader.add(1, 2)
    executor = reader.open()
    executor.plan(TransactionAttempt(1, 0), None, 0.0)
    reader.add(3)
    again: Any = logged(executor.plan(TransactionAttempt(1, 1), None, 0.0))
    assert reader.emit(again) == [3]


def test_a_stream_that_is_gone_is_read_from_its_beginning_when_it_is_made_anew(reader: Reader) -> None:
    reader.client.delete("s")
    assert reader.read(onDataLoss="warn") == [], "the place is kept, so that nothing is told again"
    assert reader.read() is None
    reader.add(1, 2)
    assert reader.rest() == [1, 2]


def test_an_entry_that_another_plan_told_as_lost_is_not_told_again(reader: Reader) -> None:
    delete(9)(reader.client)
    assert reader.read(onDataLoss="warn") == [5, 6, 7, 8]
    assert reader.rest() == [10], "a later start is strict again"


# --- what was planned ---------------------------------------------------------------------------------------------

PLANNED: list[tuple[Act, str]] = [
    (delete(6), "1 of them are missing"),
    (delete(5, 6, 7, 8), "4 of them are missing"),
    (trim(3), "3 of them are missing"),
    (lambda client: client.delete("s"), "4 of them are missing"),
    (anew(1, 10), "other entries are there now"),
    (
        both(lambda c: c.delete("s"), lambda c: c.xadd("s", {"n": 4}, id="4-5"), add(*range(5, 9))),
        "other entries are there now",
    ),
    (both(delete(5), lambda client: client.delete("s"), add(*range(1, 5), 6, 7, 8), add(9)), "1 of them are missing"),
]


@pytest.mark.parametrize(("act", "message"), PLANNED)
def test_a_batch_never_holds_other_entries_than_were_planned(reader: Reader, act: Act, message: str) -> None:
    plan = reader.plan()
    assert reader.emit(plan) == [5, 6, 7, 8]
    act(reader.client)
    expected = "stream 's': the batch was planned with 4 entries after 4-1 up to 8-1, and "
    with pytest.raises(DataLossError, match=f"{expected}{message}.*the next start plans it again") as caught:
        reader.emit(plan)
    assert caught.value.hopeless
    with pytest.raises(SourceUnreadableError, match=f"{expected}{message}.*; the batch is planned again"):
        reader.emit(plan, kind="opaque")


def test_what_is_added_behind_a_plan_is_no_part_of_it(reader: Reader) -> None:
    reader.rest()
    reader.add(11)
    plan = reader.plan()
    reader.add(12)
    trim(2)(reader.client)
    assert reader.emit(plan) == [11]


def test_a_plan_is_metadata_that_names_no_secret(tmp_path: Any) -> None:
    with RedisServer(tmp_path, "none", password="hidden") as server:
        reader = Reader(server)
        reader.add(1)
        plan = reader.plan()
        assert plan["pages"] == [["s", "0-0", "1-1", 1, plan["pages"][0][4]]]
        assert plan["positions"] == {"s": ["1-1", plan["positions"]["s"][1], 1, None, "0-0"]}
        assert "hidden" not in str(plan)
        emission = reader.open().emit(TransactionAttempt(1, 0), plan)
        assert "hidden" not in repr(emission) and "***" in repr(emission)


# --- servers that lack what was read ------------------------------------------------------------------------------


def test_a_replica_that_takes_over_without_the_last_entries_is_noticed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at_once = ("--repl-diskless-sync-delay", "0")
    with RedisServer(tmp_path / "a", "none", *at_once) as first, RedisServer(tmp_path / "b", "none", *at_once) as other:
        monkeypatch.setenv("STREAMS", first.url)
        reader = Reader(first)
        reader.add(1, 2)
        other.client.replicaof("127.0.0.1", str(first.port))
        first.client.wait(1, 10_000)
        while not other.client.exists("s"):
            pass
        options: dict[str, Any] = {"retrySecs": 0}
        reader.server = _At("env:STREAMS")  # type: ignore[assignment]
        assert reader.rest(**options) == [1, 2]
        other.client.replicaof("NO", "ONE")
        reader.add(3, 4)
        assert reader.rest(**options) == [3, 4]
        monkeypatch.setenv("STREAMS", other.url)
        with pytest.raises(
            DataLossError, match="its last id is 2-1, but it was read up to 4-1.*a replica without them"
        ):
            reader.rest(**options)
        other.client.xadd("s", {"n": 5}, id="5-1")
        with pytest.raises(DataLossError, match="the entry 4-1, which was read, is missing, but was not deleted:"):
            reader.rest(**options)
        assert reader.rest(**options, onDataLoss="warn") == [5]
        assert "is missing, but was not deleted:" in caplog.text


class _At:
    def __init__(self, url: str) -> None:
        self.url = url


def test_a_replica_is_not_read(tmp_path: Any) -> None:
    with RedisServer(tmp_path / "a", "none") as first, RedisServer(tmp_path / "b", "none") as other:
        other.client.replicaof("127.0.0.1", str(first.port))
        reader = Reader(other, retrySecs=0.1)
        with pytest.raises(
            SourceUnreadableError, match="it is a replica, which may lack entries; the url must lead to"
        ):
            reader.plan()


def test_a_server_that_comes_back_empty_is_no_end_of_the_stream(tmp_path: Any) -> None:
    with RedisServer(tmp_path, "none") as server:
        reader = Reader(server)
        reader.add(1, 2, 3)
        assert reader.rest() == [1, 2, 3]
        server.restart()
        with pytest.raises(DataLossError, match="the stream is gone: it was deleted, or the server has lost its data"):
            reader.plan()
