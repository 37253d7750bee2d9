"""Traces for OpenTelemetry: a span for each committed batch, with its phases, and a span for each failed attempt."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

logger = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The standard variables of OpenTelemetry that name the receiver of traces. If neither is set, there are no spans."""

_PATIENCE = 2.0
"""Seconds that the end of a run waits for its last spans."""

_PHASES = ("plan", "run", "freeze")
_NANOSECONDS = 1_000_000
"""Nanoseconds in a millisecond."""


def provider_of(environment: Mapping[str, str]) -> "TracerProvider | None":
    """Return a provider that exports spans to the endpoint that the standard variables name.

    None if they name no endpoint.

    If the packages for it are missing, this warns and returns None: the variables may be meant for other programs.
    """
    wanted = any(environment.get(name) for name in ENDPOINTS)
    if not wanted or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        logger.warning(
            "there will be no traces, because the package of %r is missing: pip install 'trident-pyspark[otel]'",
            error.name,
        )
        return None
    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "trident"}
    # A separate provider, because the global provider belongs to the program.
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class BatchSpans:
    """A listener that makes spans from the events of committed batches and failed attempts."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    def hear(self, event: Mapping[str, Any]) -> None:
        """Make the spans of one event.

        No span holds a value of a tuple, or an error's text, which may quote such values.

        The phases plan, run and freeze are placed one after the other from the batch's beginning on, and commit just
        before its end. The time in between is the wait for earlier batches. The lengths of the phases are exact.
        """
        from opentelemetry.trace import StatusCode, set_span_in_context

        kind = event["event"]
        if kind not in ("committed", "failed"):
            return
        end = round(datetime.fromisoformat(event["timestamp"]).timestamp() * 1000) * _NANOSECONDS
        durations: Mapping[str, float] = event.get("durationMs", {})
        begin = end - _nanoseconds(durations.get("total", 0.0))
        about = {f"trident.{key}": event[key] for key in ("name", "runId", "engine", "group", "txid", "attempt")}
        span = self._tracer.start_span("batch", start_time=begin, attributes=about)
        if kind == "failed":
            span.set_attribute("trident.phase", event["phase"])
            span.set_attribute("error.type", event["error"].partition(":")[0])
            span.set_status(StatusCode.ERROR)
        elif event["numInputRows"] is not None:
            span.set_attribute("trident.numInputRows", event["numInputRows"])
        within, at = set_span_in_context(span), begin
        for phase in _PHASES:
            if phase in durations:
                until = at + _nanoseconds(durations[phase])
                self._tracer.start_span(phase, within, start_time=at).end(until)
                at = until
        if "commit" in durations:
            self._tracer.start_span("commit", within, start_time=end - _nanoseconds(durations["commit"])).end(end)
        span.end(end)


def exporting(listen: Callable[[Callable[[dict[str, Any]], None]], Callable[[], None]]) -> Callable[[], None]:
    """Export spans of the events that `listen` passes on, if OTEL_ variables ask for it.

    Return a function that ends this.

    That function gives waiting spans to the exporter, and waits at most 2 seconds for it.
    """
    provider = provider_of(os.environ)
    if provider is None:
        return lambda: None
    leave = listen(BatchSpans(provider.get_tracer("trident")).hear)

    def end() -> None:
        leave()
        last = threading.Thread(target=provider.shutdown, name="trident-spans", daemon=True)
        last.start()
        last.join(_PATIENCE)  # an exporter without an answer would continue to retry

    return end


def _nanoseconds(milliseconds: float) -> int:
    return round(milliseconds * _NANOSECONDS)
