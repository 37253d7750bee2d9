"""The display of a running topology: a line of text, a piece of HTML, and a notebook cell that stays up to date."""

import html
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trident.run.progress import ProgressEvent, rows_per_second

_DEBUG_LINES = 20


class Watched(Protocol):
    """A running topology, as the display sees it."""

    @property
    def name(self) -> str: ...

    @property
    def isActive(self) -> bool: ...

    @property
    def recentProgress(self) -> list[ProgressEvent]: ...

    @property
    def debugOutput(self) -> Sequence[str]:
        """The newest lines of Debug steps, oldest first."""
        ...

    def exception(self) -> BaseException | None: ...


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One batch group's newest batch, its rate and its failures."""

    group: str
    txid: int
    rows: int | None
    rate: float | None
    milliseconds: float | None
    states: dict[str, int]
    watermarks: dict[str, str | None]
    late: int
    failures: int


def lines_of(events: list[ProgressEvent]) -> list[GroupLine]:
    """Return one line for each group, sorted by name.

    `failures` counts the failed attempts among these events, `late` the rows that came too late for a window.
    """
    lines = []
    for group in sorted({event["group"] for event in events}):
        mine = [event for event in events if event["group"] == group]
        done = [event for event in mine if event["event"] == "committed"]
        last = done[-1] if done else {}
        states = last.get("states", {})
        windows = {name: state for name, state in states.items() if "watermark" in state}
        internal = {f"{name}.watermark" for name in windows}  # one value each, which is shown with its window
        lines.append(
            GroupLine(
                group=group,
                txid=last.get("txid", 0),
                rows=last.get("numInputRows"),
                rate=rows_per_second(done),
                milliseconds=last.get("durationMs", {}).get("total"),
                states={name: states[name]["keys"] for name in states if name not in internal},
                watermarks={name: window["watermark"] for name, window in windows.items()},
                late=sum(_late(event) for event in done),
                failures=len(mine) - len(done),
            )
        )
    return lines


def _number(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:,.0f}{unit}"


def _late(event: ProgressEvent) -> int:
    """Return how many rows of a batch were dropped because they came too late for a window."""
    return sum(state.get("numRowsDroppedByWatermark") or 0 for state in event.get("states", {}).values())


def status_of(watched: Watched) -> str:
    """Return the status in a word: running, stopped, or failed, with the error."""
    error = watched.exception()
    if error is not None:
        return f"failed: {type(error).__name__}: {error}"
    return "running" if watched.isActive else "stopped"


def text_of(watched: Watched) -> str:
    """Return the display as text, with one line for each group.

    For example ``wordcount (running) sentences: txid 12, 100,000 rows, 1,930,000 rows/s, 52 ms, counts 21,004 keys``.
    """
    head = f"{watched.name} ({status_of(watched)})"
    lines = lines_of(watched.recentProgress)
    if not lines:
        return f"{head}: no batch yet"
    return "\n".join(f"{head} {line.group}: {_line_text(line)}" for line in lines)


def _line_text(line: GroupLine) -> str:
    parts = [f"txid {line.txid}", _number(line.rows, " rows"), _number(line.rate, " rows/s")]
    parts.append(_number(line.milliseconds, " ms"))
    parts += [f"{name} {_number(keys, ' keys')}" for name, keys in line.states.items()]
    parts += [f"watermark of {name} {time}" for name, time in line.watermarks.items() if time]
    parts.append(f"{line.late:,} late rows dropped" if line.late else "")
    parts.append(f"{line.failures} failed attempts" if line.failures else "")
    return ", ".join(part for part in parts if part)


def html_of(watched: Watched, picture: str = "") -> str:
    """Return the display as HTML: the status, a row for each group, the newest Debug lines.

    A `picture` (SVG, trusted) is shown below them.
    """
    lines = lines_of(watched.recentProgress)
    timed = any(line.watermarks for line in lines)
    rows = "".join(
        f"<tr><td>{html.escape(line.group)}</td><td>{line.txid}</td><td>{_number(line.rows)}</td>"
        f"<td>{_number(line.rate)}</td><td>{_number(line.milliseconds)}</td>"
        f"<td>{html.escape(', '.join(f'{n} {k:,}' for n, k in line.states.items()))}</td>{_time_cells(line, timed)}"
        f"<td>{line.failures}</td></tr>"
        for line in lines
    )
    time_names = ["watermark", "late rows"] if timed else []
    names = ["group", "txid", "rows", "rows/s", "ms", "keys of states", *time_names, "failed attempts"]
    head = "".join(f"<th>{name}</th>" for name in names)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else "<i>no batch yet</i>"
    shown = list(watched.debugOutput)[-_DEBUG_LINES:]
    debug = f"<pre>{html.escape(chr(10).join(shown))}</pre>" if shown else ""
    return f"<div><b>{html.escape(watched.name)}</b> {html.escape(status_of(watched))} {table}{debug}{picture}</div>"


def _time_cells(line: GroupLine, timed: bool) -> str:
    """Return the cells of a group's watermarks and late rows; "" if no group has windows by event time."""
    times = ", ".join(f"{name} {time}" for name, time in line.watermarks.items() if time)
    return f"<td>{html.escape(times)}</td><td>{line.late:,}</td>" if timed else ""


def in_notebook() -> bool:
    """Return whether this Python is a notebook's kernel (and not, say, a terminal's IPython)."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class LiveProgress:
    """Shows a running topology, and keeps what it shows up to date until the topology ends.

    In a notebook, the output below the cell that began this is replaced again and again. Elsewhere a line is printed
    whenever something has changed.

    Parameters
    ----------
    every : seconds between two looks.
    """

    def __init__(self, watched: Watched, every: float = 0.5) -> None:
        self._watched = watched
        self._every = every
        self._end = threading.Event()
        self._handle: Any = None
        if in_notebook():
            from IPython.display import display

            self._handle = display(self._bundle(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._print()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="trident-live-progress")
        self._thread.start()

    def stop(self, timeout: float | None = 5) -> None:
        """Show the newest status once more, then end."""
        self._end.set()
        self._thread.join(timeout)

    def _follow(self) -> None:
        shown = self._mark()
        while True:
            ended = self._end.wait(self._every) or not self._watched.isActive
            mark = self._mark()
            if mark != shown:
                shown = mark
                self._update()
            if ended:
                return

    def _mark(self) -> tuple[Any, ...]:
        """Return a value that changes whenever there is something new to show."""
        events, lines = self._watched.recentProgress, list(self._watched.debugOutput)
        newest = [(event["group"], event["txid"], event["attempt"], event["timestamp"]) for event in events[-1:]]
        return (*newest, len(lines), *lines[-1:], status_of(self._watched))

    def _update(self) -> None:
        if self._handle is None:
            self._print()
        else:
            self._handle.update(self._bundle(), raw=True)

    def _print(self) -> None:
        print(text_of(self._watched), flush=True)

    def _bundle(self) -> dict[str, str]:
        return {"text/plain": text_of(self._watched), "text/html": html_of(self._watched)}
