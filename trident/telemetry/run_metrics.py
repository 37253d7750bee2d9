"""The metrics of a run, computed from its progress events.

A run counts each event once, in the thread that made it and before any listener gets it. So no event is missed here,
however slow the listeners are. Tuples and rows are counted only by the event of their committed batch: attempts that
failed, and Spark tasks that were retried or speculated, add nothing.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from trident.base.metrics import MetricsRegistry
from trident.telemetry.event_time import DROPPED

logger = logging.getLogger(__name__)

_OF_A_STEP = (
    ("in", "trident_step_in_tuples_total", "Tuples that entered a step."),
    ("out", "trident_step_out_tuples_total", "Tuples that left a step."),
    ("seconds", "trident_step_seconds_total", "Seconds that a step took."),
)
"""The metrics of a step, each with the key of its number in a progress event."""


class RunMetrics:
    """Count the events of one run in a registry.

    >>> registry = MetricsRegistry()
    >>> counted = RunMetrics(registry)
    >>> counted.hear({"event": "committed", "name": "wc", "group": "words", "txid": 1, "attempt": 0,
    ...               "timestamp": "2024-01-01T00:00:00.000+00:00", "numInputRows": 16,
    ...               "durationMs": {"total": 30.5}, "states": {}})
    >>> registry.value("trident_input_rows_total", topology="wc", group="words")
    16.0
    """

    def __init__(self, registry: MetricsRegistry, then: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Create the counter. `then` is called with each event that was counted."""
        self.registry, self._then = registry, then

    def tell(self, event: dict[str, Any]) -> None:
        """Count an event and pass it to `then`. An error while counting is logged, and does not fail a batch."""
        try:
            self.hear(event)
        except Exception:
            logger.exception("metrics: an event was not counted")
        if self._then is not None:
            self._then(event)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Count one progress event."""
        labels = {"topology": event["name"], "group": event["group"]}
        if event["event"] == "committed":
            self._committed(event, labels)
        elif event["event"] == "failed":
            self.registry.count(
                "trident_failures_total",
                "Failed attempts at batches and at commits.",
                1,
                phase=event["phase"],
                **labels,
            )
        self._tuples(event, labels)

    def _committed(self, event: Mapping[str, Any], labels: dict[str, str]) -> None:
        count, gauge = self.registry.count, self.registry.set
        count("trident_batches_committed_total", "Batches that this run committed.", 1, **labels)
        count(
            "trident_batches_replayed_total",
            "Committed batches that needed more than one attempt.",
            int(event["attempt"] > 0),
            **labels,
        )
        if event["numInputRows"] is None:
            count("trident_batches_uncounted_total", "Committed batches whose input rows are unknown.", 1, **labels)
        else:
            count("trident_input_rows_total", "Input rows of committed batches.", event["numInputRows"], **labels)
        for phase, milliseconds in event["durationMs"].items():
            self.registry.observe(
                "trident_batch_seconds",
                "Seconds of committed batches by phase.",
                milliseconds / 1000,
                phase=phase,
                **labels,
            )
        gauge("trident_committed_txid", "Txid of the last committed batch.", event["txid"], **labels)
        gauge(
            "trident_committed_timestamp_seconds",
            "When the last batch was committed, in seconds since 1970.",
            _since_1970(event["timestamp"]),
            **labels,
        )
        for name, state in event["states"].items():
            self._state(state, {**labels, "state": name})
        for name, output in event.get("outputs", {}).items():
            count("trident_output_rows_total", "Rows that an output accepted.", output["rows"], output=name, **labels)
        for step in event.get("steps", []):
            self._step(step, {**labels, "step": step["name"]})
        for stream, latency in event.get("latencyMs", {}).items():
            self.registry.observe_many(
                "trident_message_latency_seconds",
                "Seconds from a source's own time of a message to the commit of its batch.",
                {float(bound) / 1000: number for bound, number in latency["buckets"].items()},
                latency["mean"] * latency["count"] / 1000,
                stream=stream,
                **labels,
            )
        for stream, source in event.get("sources", {}).items():
            about = {**labels, "stream": stream, "unit": source["unit"]}
            gauge(
                "trident_source_read",
                "The part of a source that was read, in the source's unit.",
                source["read"],
                **about,
            )
            gauge("trident_source_known", "The known size of a source, in the source's unit.", source["known"], **about)
            gauge(
                "trident_source_lag",
                "The part of a source that is not read yet, in the source's unit.",
                source["lag"],
                **about,
            )

    def _step(self, step: Mapping[str, Any], labels: dict[str, str]) -> None:
        for key, name, text in _OF_A_STEP:
            if key in step:
                self.registry.count(name, text, step[key], **labels)
        for name, by in step.get("counts", {}).items():
            text = "Counts of your functions."
            self.registry.count("trident_user_counts_total", text, by, counter=name, **labels)
        for name, warned in step.get("warnings", {}).items():
            text = "Warnings of your functions."
            self.registry.count("trident_user_warnings_total", text, warned["number"], warning=name, **labels)

    def _state(self, state: Mapping[str, Any], labels: dict[str, str]) -> None:
        count = self.registry.count
        count("trident_state_keys_total", "Keys of a state that batches touched.", state["keys"], **labels)
        count("trident_state_keys_written_total", "Keys that batches wrote to a state.", state["written"], **labels)
        if "dropped" in state:
            count("trident_state_dropped_tuples_total", "Tuples that a state held back.", state["dropped"], **labels)
        if "evicted" in state:
            text = "Dead letters that a state removed because it keeps only the newest ones."
            count("trident_dead_letters_evicted_total", text, state["evicted"], **labels)
        if DROPPED in state:
            count("trident_late_rows_total", "Rows that came too late for a window.", state[DROPPED], **labels)
        if state.get("watermark") is not None:
            self.registry.set(
                "trident_watermark_timestamp_seconds",
                "The watermark of a window, in seconds since 1970.",
                _since_1970(state["watermark"]),
                **labels,
            )

    def _tuples(self, event: Mapping[str, Any], labels: dict[str, str]) -> None:
        """Count the tuples on which steps failed, and which were left out of the stream."""
        for step, tuples in event.get("deadLetters", {}).items():
            self.registry.count(
                "trident_dead_letters_total", "Tuples that became dead letters.", tuples, step=step, **labels
            )
        for step, tuples in event.get("skipped", {}).items():
            self.registry.count(
                "trident_skipped_tuples_total", "Tuples that were skipped.", tuples, step=step, **labels
            )


def dropped_counter(registry: MetricsRegistry, topology: str) -> Callable[[], None]:
    """Return a function that counts one progress event that a slow listener did not get."""
    text = "Progress events that a slow listener did not get."
    return lambda: registry.count("trident_events_dropped_total", text, 1, topology=topology)


def _since_1970(text: str) -> float:
    """Return an ISO 8601 time as seconds since 1970. A time without a zone counts as UTC."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo is not None else datetime.fromisoformat(f"{text}+00:00")).timestamp()
