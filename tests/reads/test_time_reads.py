"""``asOf="2026-11-26 09:00"``: the last batch committed until a time, by the log or by the state's own files."""

import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import Fed, counting, fixed
from tests.support.server import RedisServer
from trident import openState, openTopology
from trident.errors import StateError, TxidNotKeptError
from trident.reads.time_reads import Moment, txid_at
from trident.state import DeltaMapState, MemoryMapState, RedisMapState, SqliteMapState

MICROSECOND = timedelta(microseconds=1)


def fed_slowly(state: Any, folder: Path, batches: int = 6) -> Fed:
    fed = Fed(state, checkpointLocation=folder)
    for _ in range(batches):
        fed.feed("dog")
        time.sleep(0.02)
    return fed


def committed(fed: Fed, txid: int) -> datetime:
    seconds = fed.running.commitTimes("words").of(txid)
    assert seconds is not None
    return datetime.fromtimestamp(seconds, UTC)


@pytest.mark.parametrize("kind", ["memory", "redis", "delta"])
def test_the_last_batch_until_a_time_is_read(kind: str, tmp_path: Path, shared_redis: RedisServer) -> None:
    state: Any = {
        "memory": MemoryMapState.opaque(),
        "redis": RedisMapState.opaque(shared_redis.url, buckets=64, groups=4),
        "delta": DeltaMapState.opaque(tmp_path / "tables"),
    }[kind]
    fed = fed_slowly(state, tmp_path)
    with fed.running:
        counts = fed.running.state("counts")
        assert counts.keptTxids[-1] == 6
        for txid in counts.keptTxids[1:]:
            at = committed(fed, txid) + MICROSECOND
            for named in (at, at.isoformat(), at.astimezone(timezone(timedelta(hours=5)))):
                past = counts.asOf(named)
                assert (past.asOfTxid, past.get("dog"), dict(past)) == (txid, txid, {"dog": txid})
            assert counts.asOf(at + timedelta(milliseconds=5)).asOfTxid == txid
            assert fed.running.state("counts", asOf=str(at))["dog"] == txid
        early = counts.asOf(committed(fed, 1) - timedelta(seconds=1))
        with pytest.raises(TxidNotKeptError, match="is before the batches that are kept; .* committed at 20") as error:
            early["dog"]
        assert error.value.kept == counts.keptTxids and "checkpointLocation" not in str(error.value)
        with openTopology(counting(fixed(), state), name="wc", checkpointLocation=tmp_path) as topology:
            assert topology.state("counts", asOf=committed(fed, 5) + MICROSECOND)["dog"] == 5


def test_a_state_in_memory_is_opened_as_of_a_time(tmp_path: Path) -> None:
    fed = fed_slowly(MemoryMapState.opaque(), tmp_path)
    with fed.running, openState("wc", "counts", tmp_path, asOf=committed(fed, 3) + MICROSECOND) as counts:
        assert (counts["dog"], counts.asOfTxid) == (3, 3)
        assert "as of txid 3" in repr(counts)


def test_a_delta_state_knows_times_without_a_log(tmp_path: Path) -> None:
    state = DeltaMapState.opaque(tmp_path / "tables")
    fed = fed_slowly(state, tmp_path, 20)
    with fed.running, openState("wc", "counts", factory=state) as outside:
        for txid in (1, 2, 7, 8, 9, 16, 19, 20):
            found = outside.asOf(committed(fed, txid) + MICROSECOND)
            assert (found.asOfTxid, found["dog"]) == (txid, txid)
        with pytest.raises(
            TxidNotKeptError, match="is before the batches that are kept; .* the txids 0 to 20"
        ) as error:
            dict(outside.asOf("2020-01-01"))
        assert "log" not in str(error.value), "the store itself knows the times"


def test_a_state_that_knows_no_times_needs_the_log(tmp_path: Path) -> None:
    state = SqliteMapState.opaque(tmp_path / "states.db")
    with (
        fed_slowly(state, tmp_path, 2).running,
        openState("wc", "counts", factory=state) as outside,
        pytest.raises(TxidNotKeptError, match="no log says when batches were committed; .* openTopology"),
    ):
        dict(outside.asOf("2020-01-01"))


def test_batches_that_the_log_has_forgotten_have_the_times_of_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = fed_slowly(DeltaMapState.opaque(tmp_path / "tables"), tmp_path, 12)
    with fed.running:
        counts, moments = fed.running.state("counts"), [committed(fed, txid) + MICROSECOND for txid in range(1, 13)]
        times = fed.running.commitTimes("words")
        known = times.of
        monkeypatch.setattr(times, "of", lambda txid: known(txid) if txid >= 9 else None)
        assert [counts.asOf(moment)["dog"] for moment in moments] == list(range(1, 13))
        source = fed.running._read_source
        monkeypatch.setattr(type(source.store("counts")), "last_written", lambda store, time: 12)
        assert txid_at(source, "counts", Moment("then", moments[3].timestamp())) == 8, "it is before batch 9"


def test_a_time_that_no_batch_can_have_is_refused(tmp_path: Path) -> None:
    fed = fed_slowly(MemoryMapState.opaque(), tmp_path, 1)
    with fed.running:
        counts = fed.running.state("counts")
        with pytest.raises(
            ValueError, match=r"a datetime without a time zone; .* datetime\.now\(\)\.astimezone\(\) for"
        ):
            counts.asOf(datetime.now())  # noqa: DTZ005
        with pytest.raises(ValueError, match=r"asOf='2999-01-01': this time is in the future"):
            counts.asOf("2999-01-01")
        for wrong in ("yesterday", "2026-13-01", "09:00", ""):
            with pytest.raises(ValueError, match="expected 'previous', .* or a time, such as '2026-11-26 09:00'"):
                counts.asOf(wrong)
    fed = fed_slowly(MemoryMapState.nonTransactional(), tmp_path / "other", 1)
    with fed.running, pytest.raises(StateError, match="is nonTransactional and keeps no previous values"):
        fed.running.state("counts", asOf="2020-01-01")


def test_times_of_a_clock_that_was_set_back_lead_to_the_last_batch_until_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = fed_slowly(DeltaMapState.opaque(tmp_path / "tables", keepTxids=20), tmp_path, 9)
    with fed.running:
        shown = [100.0, 110.0, 900.0, 910.0, 120.0, 130.0, 920.0, 140.0, 150.0]
        monkeypatch.setattr(fed.running.commitTimes("words"), "of", lambda txid: shown[txid - 1] if txid else None)
        for at, last in {100: 1, 115: 2, 120: 5, 125: 5, 135: 6, 140: 8, 500: 9, 905: 9, 930: 9}.items():
            assert txid_at(fed.running._read_source, "counts", Moment("then", float(at))) == last
