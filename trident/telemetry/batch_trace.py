"""The trace of batches: it gathers the reports of a run's threads about a batch into one progress event."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from trident.base.attempt import TransactionAttempt
from trident.base.clock import Clock
from trident.base.log_fields import RunLogger
from trident.frozen.results import DebugTuples, StageResult, StepWork
from trident.telemetry.commit_rate import CommitRate
from trident.telemetry.event_time import DROPPED
from trident.telemetry.latency import Latencies
from trident.telemetry.step_counts import steps_of
from trident.telemetry.turn_summary import TurnSummary
from trident_spouts.executor import ReadSoFar
from trident_spouts.source_times import SourceSpan

logger = logging.getLogger(__name__)
debug_logger = logging.getLogger("trident.debug")

_DEBUG_LINES = 1000


@dataclass(slots=True)
class _Open:
    """A batch that is not committed yet, and the reports about its newest attempt."""

    attempt: TransactionAttempt
    began: float
    rows: int | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    read: Mapping[str, ReadSoFar] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    times: Mapping[str, Sequence[SourceSpan]] = field(default_factory=dict)
    steps: tuple[StepWork, ...] = ()
    engine: str = ""


class Trace:
    """Makes progress events and passes them to `tell`. Thread-safe.

    `run` holds name, id, runId and engine, which are part of every event. In the event of a batch whose stages chose
    their engines, `engine` names these, and `stages` the engine of each stage. With `loud` the lines of each batch come
    with the tuples of Debug steps, under ``trident.debug`` at INFO, and not at DEBUG.
    """

    def __init__(
        self, run: Mapping[str, str], clock: Clock, tell: Callable[[dict[str, Any]], None], loud: bool = False
    ) -> None:
        self._run = dict(run)
        self._logger = RunLogger(logger, topology=run["name"])
        self._debug_logger = RunLogger(debug_logger, topology=run["name"])
        self._tell_batch = self._debug_logger.info if loud else self._logger.debug
        self._clock = clock
        self._tell = tell
        self._lock = threading.Lock()
        self._open: dict[tuple[str, int], _Open] = {}
        self._failed: dict[str, tuple[int, str, str]] = {}
        self._windows: dict[str, dict[str, dict[str, Any]]] = {}
        self._rates: dict[str, CommitRate] = {}
        self._lags: dict[tuple[str, str], tuple[int, float]] = {}
        """For each stream the lag after its group's last batch, and the time of that commit. Only the group's commit
        thread uses the entry."""
        self._began = clock.monotonic()
        self.debug_lines: deque[str] = deque(maxlen=_DEBUG_LINES)

    def began(self, group: str, attempt: TransactionAttempt, when: float) -> None:
        """Record when an attempt began, in monotonic seconds. Later reports of the same attempt are ignored."""
        with self._lock:
            known = self._open.get((group, attempt.txid))
            if known is not None and known.attempt == attempt:
                return
            self._open[group, attempt.txid] = _Open(attempt, when)
        self._tell_batch("group %r, batch %s: began", group, attempt, extra=_fields(group, attempt))

    def phase(self, group: str, txid: int, phase: str, seconds: float) -> None:
        """Record the seconds that a phase of the batch took."""
        with self._lock:
            known = self._open.get((group, txid))
            if known is not None:
                known.phases[phase] = seconds

    def ran(self, group: str, attempt: TransactionAttempt, result: StageResult, seconds: float) -> None:
        """Record that stage 1 of an attempt is computed, and show the tuples of its Debug steps."""
        with self._lock:
            known = self._open.get((group, attempt.txid))
            if known is not None and known.attempt == attempt:
                known.rows = result.rows
                known.skipped = result.skipped
                known.steps = result.steps
                known.engine = result.engine
                known.phases["run"] = seconds
        self._show(group, attempt, result.shown)

    def _show(self, group: str, attempt: TransactionAttempt, debug: Sequence[DebugTuples]) -> None:
        """Show the tuples of Debug steps."""
        for each in debug:
            for line in _debug_lines(each, attempt):
                self.debug_lines.append(line)
                self._debug_logger.info(line, extra=_fields(group, attempt))

    def read(
        self,
        group: str,
        attempt: TransactionAttempt,
        read: Mapping[str, ReadSoFar],
        times: Mapping[str, Sequence[SourceSpan]],
    ) -> None:
        """Record how far an attempt's batch reads the sources, and the times of its tuples, if sources know them."""
        with self._lock:
            known = self._open.get((group, attempt.txid))
            if known is not None and known.attempt == attempt:
                known.read, known.times = read, times

    def skipped(self, group: str, attempt: TransactionAttempt, phase: str, tuples: Mapping[str, int]) -> None:
        """Report how many tuples of a batch each step skipped, if that becomes known only after the commit."""
        self._tell(self._event(group, attempt) | {"event": "skipped", "phase": phase, "skipped": dict(tuples)})

    def failed(
        self, group: str, attempt: TransactionAttempt, phase: str, error: BaseException, rows: int | None = None
    ) -> None:
        """Report a failed attempt at a batch or at a commit. `rows` is the number of tuples that a branch lost.

        If a failure repeats, the log gets a warning only of the first failure.
        """
        with self._lock:
            before, self._failed[group] = self._failed.get(group), (attempt.txid, phase, str(error))
        fields = _fields(group, attempt)
        if before == (attempt.txid, phase, str(error)):
            self._logger.info("group %r, batch %s: %s failed in the same way", group, attempt, phase, extra=fields)
        else:
            self._logger.warning("group %r, batch %s: %s failed: %s", group, attempt, phase, error, extra=fields)
        event = self._event(group, attempt)
        event |= {"event": "failed", "phase": phase, "error": f"{type(error).__name__}: {error}"}
        self._tell(event if rows is None else event | {"numInputRows": rows})

    def committed(self, group: str, txid: int, summary: TurnSummary) -> None:
        """Send the event of a committed batch, and log the group's rate from time to time."""
        with self._lock:
            known = self._open.pop((group, txid), None)
            rate = self._rates.setdefault(group, CommitRate(self._began))
        if known is None:  # an earlier run froze the batch
            known = _Open(TransactionAttempt(txid, 0), self._clock.monotonic())
        line = rate.count(txid, known.rows, self._clock.monotonic())
        if line is not None:
            self._logger.info("group %r: %s", group, line, extra=_fields(group, known.attempt))
        durations = {phase: round(seconds * 1000, 3) for phase, seconds in known.phases.items()}
        durations["total"] = round((self._clock.monotonic() - known.began) * 1000, 3)
        event = self._event(group, known.attempt)
        event |= {"event": "committed", "numInputRows": known.rows, "durationMs": durations, **summary.as_dict()}
        if engines := {stage: engine for stage, engine in {1: known.engine, **summary.engines}.items() if engine}:
            event["engine"] = ", ".join(dict.fromkeys(engines.values()))
            event["stages"] = {str(stage): engine for stage, engine in engines.items()}
        if known.read:
            event["sources"] = {stream: self._source(group, stream, read) for stream, read in known.read.items()}
        if known.times:
            now = self._clock.time()
            event["latencyMs"] = {name: Latencies.of(spans, now).as_dict() for name, spans in known.times.items()}
        if known.skipped or summary.skipped:
            event["skipped"] = {**known.skipped, **summary.skipped}
        if steps := steps_of([*known.steps, *summary.steps], summary.dead, event.get("skipped", {})):
            event["steps"] = steps
        self._show(group, known.attempt, summary.shown)
        line = _committed_line(event)
        self._tell_batch("group %r, batch %s: %s", group, known.attempt, line, extra=_fields(group, known.attempt))
        self._note_windows(group, summary)
        self._tell(event)

    def _source(self, group: str, stream: str, read: ReadSoFar) -> dict[str, Any]:
        """Return how far a source is read, its lag, and the growth of the lag since the previous batch."""
        now = self._clock.monotonic()
        lag_before, then = self._lags.get((group, stream), (read.lag, now))
        self._lags[group, stream] = read.lag, now
        source: dict[str, Any] = {"unit": read.unit, "read": read.done, "known": read.total, "lag": read.lag}
        if now > then:
            source["lagGrowthPerSecond"] = round((read.lag - lag_before) / (now - then), 3)
        return source if read.lags is None else source | {"lags": dict(read.lags)}

    def windows(self, group: str) -> dict[str, dict[str, Any]]:
        """Return for each window of a group its watermark, and how many rows it dropped since the run began."""
        with self._lock:
            return {name: dict(window) for name, window in self._windows.get(group, {}).items()}

    def _note_windows(self, group: str, summary: TurnSummary) -> None:
        with self._lock:
            windows = self._windows.setdefault(group, {})
            for name, state in summary.states.items():
                if state.time is not None:
                    before = windows.get(name, {}).get(DROPPED, 0)
                    windows[name] = {**state.time.as_dict(), DROPPED: before + state.time.dropped}

    def _event(self, group: str, attempt: TransactionAttempt) -> dict[str, Any]:
        stamp = datetime.fromtimestamp(self._clock.time(), UTC).isoformat(timespec="milliseconds")
        return self._run | {"group": group, "txid": attempt.txid, "attempt": attempt.attempt, "timestamp": stamp}


def _fields(group: str, attempt: TransactionAttempt) -> dict[str, object]:
    """Return the fields of a log record about an attempt."""
    return {"group": group, "txid": attempt.txid, "attempt": attempt.attempt}


def _committed_line(event: Mapping[str, Any]) -> str:
    """Return a committed batch's event as a line: its rows, the milliseconds of each phase, and the costs of its parts.

    >>> states = {"counts": {"keys": 2, "written": 2}}
    >>> _committed_line({"numInputRows": 3, "durationMs": {"run": 1.25, "total": 4.0}, "states": states})
    'committed, 3 rows; run 1.25 ms, total 4.0 ms; counts: 2 keys'
    """
    rows = event["numInputRows"]
    parts = ["committed" if rows is None else f"committed, {rows:,} rows"]
    parts += [", ".join(f"{phase} {took} ms" for phase, took in event["durationMs"].items())]
    parts += [f"{name}: {state['keys']:,} keys" for name, state in event["states"].items()]
    parts += [f"{name}: {output['rows']:,} rows" for name, output in event.get("outputs", {}).items()]
    return "; ".join(parts)


def _debug_lines(debug: DebugTuples, attempt: TransactionAttempt) -> list[str]:
    """Return tuples as lines in the form in which Trident's Debug prints them, and a line if some are left out."""
    head, columns = f"DEBUG({debug.label}) {attempt}:", [column.to_pylist() for column in debug.tuples.columns]
    lines = [f"{head} {list(row)!r}" for row in zip(*columns, strict=True)]
    return [*lines, f"{head} the tuples after the first {len(lines):,} are left out"] if debug.more else lines
