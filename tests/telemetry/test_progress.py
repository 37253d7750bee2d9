"""What a run tells of itself is kept, handed out as copies, and passed to who wants to hear it."""

import json
import logging
import threading
import time
from typing import Any

import pytest

from trident.telemetry.progress import Progress, rows_per_second


def batch(txid: int, second: int = 0, rows: int | None = 10, group: str = "sentences") -> dict[str, Any]:
    return {
        "event": "committed",
        "name": "wordcount",
        "id": "a",
        "runId": "b",
        "group": group,
        "txid": txid,
        "attempt": 0,
        "timestamp": f"2024-01-01T00:00:{second:02}.000+00:00",
        "numInputRows": rows,
        "durationMs": {"plan": 1.0, "run": 20.0, "freeze": 2.0, "commit": 5.0, "total": 30.5},
        "states": {"counts": {"keys": 7, "written": 7}},
    }


def failure(txid: int) -> dict[str, Any]:
    return {
        "event": "failed",
        "group": "sentences",
        "txid": txid,
        "attempt": 0,
        "timestamp": "2024-01-01T00:00:30.000+00:00",
        "phase": "run",
        "error": "UserFunctionError: no",
    }


def test_the_newest_events_are_kept_and_the_last_is_the_last_committed_batch() -> None:
    progress = Progress(capacity=3)
    assert progress.last is None
    assert progress.recent == []
    for txid in range(1, 5):
        progress.tell(batch(txid))
    progress.tell(failure(5))
    assert [(e["event"], e["txid"]) for e in progress.recent] == [("committed", 3), ("committed", 4), ("failed", 5)]
    assert progress.last == batch(4)
    assert json.loads(json.dumps(progress.recent)) == progress.recent


def test_the_last_batch_is_remembered_when_failures_have_pushed_it_out_of_the_ring() -> None:
    progress = Progress(capacity=2)
    progress.tell(batch(1))
    for _ in range(3):
        progress.tell(failure(2))
    assert progress.last == batch(1)


def test_what_is_handed_out_can_be_changed_without_harm() -> None:
    progress = Progress()
    heard: list[dict[str, Any]] = []
    progress.listen(heard.append)
    progress.tell(batch(1))
    progress.flush(10)
    progress.recent[0]["states"]["counts"]["keys"] = 0
    assert progress.last is not None
    progress.last["durationMs"].clear()
    heard[0]["states"].clear()
    assert progress.last == batch(1) == progress.recent[0]


def test_a_listener_hears_until_it_is_ended_and_its_error_is_logged_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    progress = Progress()
    heard: list[int] = []

    def broken(event: dict[str, Any]) -> None:
        raise ZeroDivisionError("listener")

    progress.listen(broken)
    end = progress.listen(lambda event: heard.append(event["txid"]))
    with caplog.at_level(logging.ERROR):
        progress.tell(batch(1))
        progress.flush(10)
    end()
    end()
    progress.tell(batch(2))
    progress.flush(10)
    assert heard == [1]
    assert "a progress listener raised" in caplog.text and "ZeroDivisionError" in caplog.text


def test_many_threads_tell_and_ask() -> None:
    progress = Progress(capacity=50)
    threads = [threading.Thread(target=lambda: [progress.tell(batch(n)) for n in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert len(progress.recent) <= 50
    assert len(progress.recent) == 50


def test_the_rate_counts_the_rows_after_the_first_batch() -> None:
    assert rows_per_second([batch(1)]) is None
    assert rows_per_second([batch(1, 0, 99), batch(2, 1, 30), failure(3), batch(3, 4, 50)]) == 20.0
    assert rows_per_second([batch(1, 0), batch(2, 0)]) is None
    assert rows_per_second([batch(1, 0, None), batch(2, 2, 10)]) == 5.0
    assert rows_per_second([batch(1, 0), batch(2, 2, 10), batch(3, 4, None)]) is None, "nobody counted batch 3"


def test_every_event_that_a_hanging_listener_loses_is_counted_and_telling_stays_quick() -> None:
    hang, dropped = threading.Event(), list[None]()
    progress = Progress(whenDropped=lambda: dropped.append(None))
    progress.listen(lambda event: hang.wait(30) and None)
    progress.tell(batch(0))
    began = time.monotonic()
    for txid in range(1, 1501):
        progress.tell(batch(txid))
    assert time.monotonic() - began < 2  # a listener that is waited for would take 30 s
    hang.set()
    progress.flush(10)
    # The first event may be in the listener's hands or still in its queue of 1000 when the others come.
    assert len(dropped) in (500, 501)
