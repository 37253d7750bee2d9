"""A running topology as it is displayed: lines of text, or HTML with progress bars."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from trident.plan.watermark_names import without_watermarks
from trident.telemetry.progress import ProgressEvent, rows_per_second
from trident_spouts.executor import ReadSoFar

_DEBUG_LINES = 20

Condition = Literal["ACTIVE", "INACTIVE", "REBALANCING", "STOPPED", "FAILED"]
"""The condition of a run: it plans batches, plans no batches, is between two plans, or has ended."""


class Watched(Protocol):
    """A running topology, as the display sees it."""

    @property
    def name(self) -> str: ...

    @property
    def isActive(self) -> bool: ...

    @property
    def condition(self) -> Condition: ...

    @property
    def recentProgress(self) -> list[ProgressEvent]: ...

    @property
    def debugOutput(self) -> Sequence[str]:
        """The newest lines of Debug steps, oldest first."""
        ...

    @property
    def readSoFar(self) -> Mapping[str, ReadSoFar]:
        """Return how far each stream's source was read. Streams whose source has no known size are left out."""
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
        lines.append(
            GroupLine(
                group=group,
                txid=last.get("txid", 0),
                rows=last.get("numInputRows"),
                rate=rows_per_second(done),
                milliseconds=last.get("durationMs", {}).get("total"),
                states={name: states[name]["keys"] for name in without_watermarks(states)},
                watermarks={name: window["watermark"] for name, window in windows.items()},
                late=sum(_late(event) for event in done),
                failures=len(mine) - len(done),
            )
        )
    return lines


def _number(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:,.0f}{unit}"


def _late(event: ProgressEvent) -> int:
    """Return how many rows of a batch were dropped because they were too late for a window."""
    return sum(state.get("numRowsDroppedByWatermark") or 0 for state in event.get("states", {}).values())


def status_of(watched: Watched) -> str:
    """Return the status as one word: running, inactive, rebalancing, stopped, or failed with the error."""
    error = watched.exception()
    if error is not None:
        return f"failed: {type(error).__name__}: {error}"
    return "running" if watched.condition == "ACTIVE" else watched.condition.lower()


def text_of(watched: Watched) -> str:
    """Return the display as text, with one line for each group.

    For example ``wordcount (running) sentences: txid 12, 100,000 rows, 1,930,000 rows/s, 52 ms, counts 21,004 keys``.
    """
    head = f"{watched.name} ({status_of(watched)})"
    events = watched.recentProgress
    lines, growths = lines_of(events), growths_of(events)
    if not lines:
        return f"{head}: no batch yet"
    bars = [f"{head} {stream}: {_read_text(read, growths.get(stream))}" for stream, read in watched.readSoFar.items()]
    return "\n".join([*bars, *(f"{head} {line.group}: {_line_text(line)}" for line in lines)])


def growths_of(events: list[ProgressEvent]) -> dict[str, float]:
    """Return the latest growth per second of each stream's lag, for the streams for which it is known."""
    sources = [event["sources"] for event in events if "sources" in event]
    return {
        stream: source["lagGrowthPerSecond"]
        for each in sources
        for stream, source in each.items()
        if "lagGrowthPerSecond" in source
    }


def _read_text(read: ReadSoFar, growth: float | None) -> str:
    """Return how far a source was read: ``20 % of 1.3 MB read``. If the growth of the lag is known, the lag follows.

    >>> _read_text(ReadSoFar(1_000, 5_000, "rows"), 250.0)
    '20 % of 5,000 rows read, 4,000 rows behind, growing by 250 rows/s'
    """
    text = f"{percent(read):.0f} % of {_amount(read.total, read.unit)} read"
    if not read.lag or growth is None:
        return text
    change = f", {'growing' if growth > 0 else 'shrinking'} by {_amount(round(abs(growth)), read.unit)}/s"
    return f"{text}, {_amount(read.lag, read.unit)} behind{change if growth else ''}"


def percent(read: ReadSoFar) -> float:
    """Return how much of a source was read, in percent; 100 for an empty source.

    >>> percent(ReadSoFar(1, 4, "batches")), percent(ReadSoFar(0, 0, "bytes"))
    (25.0, 100.0)
    """
    return 100 * read.done / read.total if read.total else 100.0


def _amount(number: int, unit: str) -> str:
    """Return an amount of a source: ``25 batches``, ``1.3 MB``.

    >>> _amount(1_300_000, "bytes")
    '1.3 MB'
    """
    if unit != "bytes":
        return f"{number:,} {unit}"
    scale = next((scale for scale in (3, 2, 1) if number >= 1000**scale), 0)
    return f"{number / 1000**scale:.1f} {'kMG'[scale - 1]}B" if scale else f"{number} bytes"


def _line_text(line: GroupLine) -> str:
    parts = [f"txid {line.txid}", _number(line.rows, " rows"), _number(line.rate, " rows/s")]
    parts.append(_number(line.milliseconds, " ms"))
    parts += [f"{name} {_number(keys, ' keys')}" for name, keys in line.states.items()]
    parts += [f"watermark of {name} {time}" for name, time in line.watermarks.items() if time]
    parts.append(f"late rows: {line.late:,}" if line.late else "")
    parts.append(f"{line.failures} failed attempts" if line.failures else "")
    return ", ".join(part for part in parts if part)


def html_of(watched: Watched, picture: str = "") -> str:
    """Return the display as HTML: the status, a bar for each source, a row for each group, the newest Debug lines.

    A `picture` (SVG, trusted) is shown below them.
    """
    events = watched.recentProgress
    lines, growths = lines_of(events), growths_of(events)
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
    head = f"<b>{html.escape(watched.name)}</b> {html.escape(status_of(watched))}"
    return f"<div>{head} {_bars(watched.readSoFar, growths)}{table}{debug}{picture}</div>"


def _bars(read: Mapping[str, ReadSoFar], growths: Mapping[str, float]) -> str:
    """Return a progress bar for each source, one below the other."""
    if not read:
        return ""
    bars = {stream: _bar(so_far, growths.get(stream)) for stream, so_far in read.items()}
    rows = "".join(f"<span>{html.escape(stream)}</span>{bar}" for stream, bar in bars.items())
    columns = "max-content minmax(4em, 14em) 1fr"
    return f'<div style="display:grid;grid-template-columns:{columns};column-gap:.6em;align-items:center">{rows}</div>'


def _bar(read: ReadSoFar, growth: float | None) -> str:
    # An empty source has a full bar, because all of it was read.
    value, most = (read.done, read.total) if read.total else (1, 1)
    bar = f'<progress value="{value}" max="{most}" style="width:100%"></progress>'
    return f"{bar}<span>{html.escape(_read_text(read, growth))}</span>"


def _time_cells(line: GroupLine, timed: bool) -> str:
    """Return the cells of a group's watermarks and late rows; "" if no group has windows by event time."""
    times = ", ".join(f"{name} {time}" for name, time in line.watermarks.items() if time)
    return f"<td>{html.escape(times)}</td><td>{line.late:,}</td>" if timed else ""
