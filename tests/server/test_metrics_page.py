"""``/metrics`` as Prometheus reads it: parsed by its own parser, over HTTP."""

import threading
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.server.conftest import Serving
from tests.server.counting import counting
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident import openTopology
from trident.base.metrics import MetricsRegistry
from trident.errors import FencedError
from trident.log.sqlite_log import SqliteLog
from trident.run.start import LOG_FILE
from trident.state import MemoryMapState, RedisMapState, StateFactory


def samples_of(metrics: MetricsRegistry, name: str) -> list[Sample]:
    return [sample for metric in metrics.collect() for sample in metric.samples if sample.name == name]


def scraped(text: str) -> dict[tuple[str, str], float]:
    """Return the samples by name and one label that tells them apart here."""
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            apart = labels.get("le") or labels.get("state") or labels.get("phase") or labels.get("path") or ""
            samples[sample.name, apart] = sample.value
    return samples


def test_metrics_of_a_run_tell_rows_batches_states_and_requests(serving: Serving) -> None:
    serving.feed("cow", "dog")
    assert serving.get("/state/counts/dog").status_code == 200
    assert serving.get("/state/counts/unicorn").status_code == 404
    answer = serving.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    samples = scraped(answer.text)
    assert samples["trident_batches_committed_total", ""] == 2
    assert samples["trident_input_rows_total", ""] == 5
    assert samples["trident_state_keys_written_total", "counts"] == 4
    assert samples["trident_served_txid", ""] == samples["trident_committed_txid", ""] == 2
    assert samples["trident_ready", ""] == 1
    assert samples["trident_group_active", ""] == 1 and ("trident_group_failed", "") not in samples
    assert samples["trident_state_keys", "counts"] == 3
    assert samples["trident_log_bytes", ""] > 4096
    assert samples["trident_http_request_seconds_count", "/state/{state}/{key:text}"] == 2
    assert 'path="/state/{state}/{key:text}",status="404"} 1.0' in answer.text
    phase = [line for line in answer.text.splitlines() if 'phase="commit"' in line and 'le="+Inf"' in line]
    assert len(phase) == 1 and phase[0].endswith(" 2.0")


def test_a_server_without_a_driver_tells_what_its_reads_are_as_of(tmp_path: Path) -> None:
    topology, feeder = counting()
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed([("dog",)])
        running.processAllAvailable()
    from trident.server.http_server import serve

    with (
        openTopology(counting()[0], name="wc", checkpointLocation=tmp_path) as opened,
        serve(opened, 0, "127.0.0.1", "a token of some length", (), None, False) as server,
    ):
        assert httpx.get(f"{server.url}/metrics").status_code == 401
        bearer = {"Authorization": "Bearer a token of some length"}
        samples = scraped(httpx.get(f"{server.url}/metrics", headers=bearer).text)
        assert samples["trident_served_txid", ""] == 1
        assert samples["trident_http_requests_total", "/metrics"] == 1
        assert not any(name == "trident_input_rows_total" for name, _ in samples)


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_a_driver_that_was_taken_over_says_so(kind: str, shared_redis: RedisServer, tmp_path: Path) -> None:
    factory: StateFactory = MemoryMapState.opaque() if kind == "memory" else RedisMapState.opaque(shared_redis.url)
    topology, feeder = counting(factory)
    running = topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path)
    feeder.feed([("dog",), ("cat",)])
    running.processAllAvailable()
    assert [each.value for each in samples_of(running.metrics, "trident_state_keys")] == [2]
    (path,) = tmp_path.rglob(LOG_FILE)
    other = SqliteLog(path, "wc")
    other.take()
    wait_until(lambda: not running.isActive)
    (failed,) = samples_of(running.metrics, "trident_group_failed")
    assert failed.labels["error"] == "FencedError"
    assert [each.value for each in samples_of(running.metrics, "trident_group_active")] == [0]
    running.stop()
    other.close()
    assert isinstance(running.exception(), FencedError)


def test_a_listener_that_hangs_holds_up_neither_batches_nor_their_counts(serving: Serving) -> None:
    hang = threading.Event()
    end = serving.running.progress.listen(lambda event: hang.wait(30) and None)
    try:
        for _ in range(5):
            serving.feed("dog")
        wait_until(lambda: serving.running.metrics.value("trident_input_rows_total", topology="wc", group="words") == 8)
    finally:
        hang.set()
        end()
