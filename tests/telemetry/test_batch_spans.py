"""Spans as a collector of OpenTelemetry gets them: over HTTP, in its own format."""

import gzip
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.telemetry.batch_spans import provider_of


class Collector(ThreadingHTTPServer):
    """A collector that keeps the spans that it gets, and answers only while it may."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receives)
        self.spans: list[Any] = []
        self.may_answer = threading.Event()
        self.may_answer.set()


class _Receives(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.rfile.read(int(self.headers["content-length"]))
        body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        self.server.may_answer.wait(30)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs trident-pyspark[otel]")
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.may_answer.set()
        server.shutdown()


def run_flaky(folder: Path) -> None:
    calls: list[int] = []

    def flaky(word: str) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(f"the secret is {word}")
        return len(word)

    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"]]))
    sizes = words.each("word", flaky, "size int")
    sizes.groupBy("size").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with topology.start(engine="embedded", name="spans", checkpointLocation=folder, maxAttempts=3) as running:
        running.processAllAvailable()


def test_a_batch_is_a_span_with_its_phases_and_a_failed_attempt_one_that_quotes_nothing(
    collector: Collector, tmp_path: Path
) -> None:
    run_flaky(tmp_path)
    failed, committed = (span for span in collector.spans if span.name == "batch")
    names = [span.name for span in collector.spans if span.parent_span_id == committed.span_id]
    assert names == ["run", "freeze", "commit"]  # the second attempt keeps the plan of the first one
    about = {each.key: each.value for each in committed.attributes}
    assert (about["trident.txid"].int_value, about["trident.attempt"].int_value) == (1, 1)
    assert about["trident.numInputRows"].int_value == 2
    for span in collector.spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    assert failed.status.code == 2
    assert {each.key: each.value.string_value for each in failed.attributes}["error.type"] == "UserFunctionError"
    assert "secret" not in str(collector.spans)


def test_a_collector_that_does_not_answer_holds_up_neither_batches_nor_the_end(
    collector: Collector, tmp_path: Path
) -> None:
    collector.may_answer.clear()
    began = time.monotonic()
    run_flaky(tmp_path)
    assert time.monotonic() - began < 6


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_the_variables_nothing_is_exported(environment: dict[str, str]) -> None:
    assert provider_of(environment) is None
