"""Windows by time: the positions of panes and windows on the clock, and the watermark."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.years import FIRST, LAST
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import shape_of
from trident.compiler.states.update_types import Clock, RunWindow, WindowBatch
from trident.compiler.states.updates import InState, Updated
from trident.compiler.windows import zoned_days
from trident.compiler.windows.tuple_lists import Ids, microseconds
from trident.operations.windows import (
    CountWindow,
    EventTime,
    SessionWindow,
    TimeWindow,
    Timing,
    WindowConfig,
    timestamp_field,
)
from trident.plan.nodes import Watermark, Window, WindowPanes
from trident.plan.window_schema import LATEST
from trident_state.binary_arrays import one_chunk

NEVER = -(2**63)
"""The watermark before the first tuple. All windows end after it."""

_GLOBAL = pa.table({"": pa.nulls(1)}).select([])
"""The only key of a state without key fields."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Windows of `length` that begin at every multiple of `slide`, made of panes.

    All three are in microseconds; times are microseconds since 1970. With a `zone` windows begin at midnights of the
    zone, and a window has as many days as `length` has days of 24 hours.
    """

    length: int
    slide: int
    pane: int
    zone: str | None = None

    @classmethod
    def of(cls, config: TimeWindow) -> "Lattice":
        """Return the lattice of the windows of this configuration."""
        return cls(config.length, config.slide, config.pane, config.timeZone)

    def panes(self, times: Ids) -> Ids:
        """Return the start of the pane that contains each time."""
        return times // self.pane * self.pane if self.zone is None else self.last_starts(times)

    def last_starts(self, times: Ids) -> Ids:
        """Return the start of the last window that contains each time."""
        if self.zone is None:
            return times // self.slide * self.slide
        return zoned_days.starts(self.zone, self.length // zoned_days.DAY, times)

    def ends(self, starts: npt.ArrayLike) -> Ids:
        """Return the ends of the windows that begin at these starts."""
        begin: Ids = np.asarray(starts, np.int64)
        if self.zone is None:
            return begin + self.length
        return zoned_days.ends(self.zone, self.length // zoned_days.DAY, begin)

    def last_end(self, times: Ids) -> Ids:
        """Return the end of the last window that contains each time."""
        return self.ends(self.last_starts(times))

    def number(self, start: int) -> int:
        """Return the number of the window that begins at `start`."""
        if self.zone is None:
            return start // self.slide
        return zoned_days.number(self.zone, self.length // zoned_days.DAY, start)

    def windows_of(self, panes: Ids) -> tuple[Ids, Ids]:
        """Return every window that contains a pane, as two arrays: the row of the pane, and the start of the window."""
        if self.length == self.slide:
            rows = np.flatnonzero(known(panes))
            return rows, panes[rows]
        last = panes // self.slide * self.slide
        back = np.arange(-(-self.length // self.slide), dtype=np.int64) * self.slide
        starts = last[:, None] - back[None, :]
        inside = (starts + self.length > panes[:, None]) & known(starts)
        rows = np.broadcast_to(np.arange(len(panes))[:, None], starts.shape)
        return rows[inside], starts[inside]


def known(times: Ids) -> npt.NDArray[np.bool_]:
    """Return for each time whether it is in the years 1 to 9999.

    In data the first and the last such time often stand for "no time" and "never". No window begins outside these
    years. The watermark stays inside them, so a window that would end later never closes.
    """
    return (times >= FIRST) & (times <= LAST)


def held_by_any(config: Timing, times: Ids) -> npt.NDArray[np.bool_]:
    """Return for each time whether its last window (without windows: the time itself) begins in the years 1 to 9999."""
    return known(Lattice.of(config).last_starts(times) if isinstance(config, TimeWindow) else times)


def last_end(config: Timing, times: Ids) -> Ids:
    """Return for each time the end of the last window that can contain it: from this watermark on, the time is late."""
    if isinstance(config, EventTime):
        return times + 1
    if isinstance(config, SessionWindow):
        return times + config.gap
    return Lattice.of(config).last_end(times)


def on_time(config: Timing, times: pa.ChunkedArray, before: int) -> pa.Array:
    """Return for each time whether a tuple of this time is not late. `before` is the watermark before the batch."""
    column = one_chunk(times)
    micros = microseconds(column.fill_null(0))
    return pc.and_(column.is_valid(), pa.array((last_end(config, micros) > before) & held_by_any(config, micros)))


# --- the watermark ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mark:
    """A watermark as its state holds it, in microseconds since 1970.

    With `idleAfter` also: `seen`, the time of the batch in which the silence began, and `then`, the watermark after
    that batch. Both are None before the first event time, and without `idleAfter`. If the clock was behind the time of
    an earlier batch then, `then` is later than the watermark by that difference.

    For windows by batch time `seen` is the time of the batch that last found the clock set back, and `then` the
    watermark after that batch. Both are None while the clock is right.
    """

    watermark: int = NEVER
    seen: int | None = None
    then: int | None = None

    def silent_since(self, watermark: int, now: int) -> "Mark":
        """Return the mark with this watermark after a batch at `now`; the stream counts as silent from `now` on."""
        behind = 0
        if self.seen is not None and self.then is not None:
            # The latest time of a batch: the silence has moved the watermark from `then` on as far as the time has gone
            # since `seen`; or the clock was behind, and `then` is ahead of the watermark by the difference.
            behind = self.seen + abs(self.then - self.watermark) - now
        return Mark(watermark, now, min(watermark + max(0, behind), LAST))

    @property
    def is_behind(self) -> bool:
        """True if the clock was behind an earlier batch when the silence began."""
        return self.then is not None and self.then > self.watermark


def clock_of(config: WindowConfig | EventTime, latest: int | None, batch: WindowBatch) -> Clock:
    """Return the clock of a batch in which `latest` is the latest event time.

    `latest` is None if the batch has no event time, or if the windows follow batch time. It is not used if the batch
    has a clock.
    """
    if batch.clock is not None:
        return batch.clock
    assert batch.watermark is not None
    before = mark_in(batch.watermark)
    after = watermark_after(config, before, latest, batch)
    return Clock(before.watermark, after.watermark, due_of(config, after))


def due_of(config: WindowConfig | EventTime, mark: Mark) -> InState | None:
    """Return the rule by which the clock of a step advances with batch time while no tuple arrives.

    The rule converts a time of the clock into the batch time at which the clock reaches it. None if only tuples advance
    the clock.
    """
    assert not isinstance(config, CountWindow)
    if config.timestampField is None:
        return InState(_set_back(mark))
    if config.idleAfter is None or mark.seen is None or mark.then is None:
        return None
    return InState(mark.seen - min(mark.then, mark.watermark), mark.seen + config.idleAfter)


def watermark(stored: Stored) -> int:
    """Return the watermark from its state, in microseconds since 1970; NEVER if the state is empty."""
    return mark_in(stored).watermark


def mark_in(stored: Stored) -> Mark:
    """Return the content of a watermark's state."""
    record = one_chunk(stored.read(_GLOBAL))
    micros, seen, then = (record.field(at).cast(pa.int64())[0].as_py() for at in range(3))
    return Mark() if micros is None or not record[0].is_valid else Mark(micros, seen, then)


def watermark_after(config: WindowConfig | EventTime, mark: Mark, latest: int | None, batch: WindowBatch) -> Mark:
    """Return the watermark after the batch. It never decreases, even if a clock or the times of tuples do.

    A stream that has been silent for `idleAfter` counts as if it continued with the delay of its last tuples: its
    watermark advances with the batch time since then. So a stream that returns with tuples as fresh as before has no
    late ones.

    When a clock that was set back is right again, the silence begins again. Otherwise a machine whose clock begins in
    1970, until it asks for the time, would move the watermark by decades.
    """
    assert not isinstance(config, CountWindow)
    now = round(batch.time() * 1_000_000)
    if config.timestampField is None:
        assert isinstance(config, TimeWindow)
        return _by_batches(config, mark, now)
    if latest is not None:
        after = max(mark.watermark, min(max(latest - config.lateness, FIRST), LAST))
        return Mark(after) if config.idleAfter is None else mark.silent_since(after, now)
    if config.idleAfter is None:
        return Mark(mark.watermark)
    return _silent(config.idleAfter, mark, now)


def _silent(idle_after: int, mark: Mark, now: int) -> Mark:
    """Return the watermark after a batch at `now` without event times."""
    if mark.seen is None or mark.then is None:
        return mark
    again = mark.silent_since(mark.watermark, now)
    if now < mark.seen or (mark.is_behind and not again.is_behind):  # the clock was set back, or is right again
        return again
    if now - mark.seen < idle_after:
        return mark
    if mark.is_behind:
        return mark.silent_since(min(mark.watermark + now - mark.seen, LAST), now)
    return replace(mark, watermark=max(mark.watermark, min(mark.then + now - mark.seen, LAST)))


def _by_batches(config: TimeWindow, mark: Mark, now: int) -> Mark:
    """Return the watermark of windows by batch time after a batch that was planned at `now`.

    If the clock went back by more than a window, it was wrong before, or is wrong now. From then on the progress of the
    clock counts, until the clock reaches the watermark; otherwise all tuples would enter one window until then. The
    windows still begin at the same times of a minute or a day, because the difference is a multiple of the slide.
    """
    if now >= mark.watermark:
        return Mark(now)
    moved = now - _set_back(mark)
    if moved >= mark.watermark - config.length:
        return replace(mark, watermark=max(mark.watermark, moved))
    moved += -((moved - mark.watermark) // config.slide) * config.slide
    return Mark(moved, now, moved)


def _set_back(mark: Mark) -> int:
    """Return the time by which windows by batch time are ahead of the clock, as a negative number."""
    return 0 if mark.seen is None or mark.then is None else mark.seen - mark.then


def latest_of(table: pa.Table, field: str | None) -> int | None:
    """Return the latest time in a column, in microseconds since 1970; None if there is none."""
    if field is None or not table.num_rows:
        return None
    micros = pc.max(table.column(field)).cast(pa.int64()).as_py()
    return None if micros is None else int(micros)


def field_of_latest(node: Watermark | Window) -> str | None:
    """Return the field of a step's input in which its latest event time is found; None for windows by batch time."""
    config = node.windowing.config
    field = None if config is None else timestamp_field(config)
    return LATEST if field is not None and isinstance(node.source, WindowPanes) else field


def watermark_update(node: Watermark) -> RunWindow:
    """Return the function that updates a watermark, by the latest event time of a batch or by the batch's own time."""
    config, shape, field = node.windowing.config, shape_of(node), field_of_latest(node)
    assert isinstance(config, Timing)
    schema = pa.schema([pa.field(node.schema.names[-1], shape.value)])

    def update(table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        before = mark_in(stored)
        after = watermark_after(config, before, latest_of(table, field), batch)
        if after == before:
            return Updated(schema.empty_table(), None)
        times = [None if time is None else int(time) for time in (after.watermark, after.seen, after.then)]
        arrays = [pa.array([time], pa.int64()).cast(field.type) for time, field in zip(times, shape.value, strict=True)]
        record = pa.StructArray.from_arrays(arrays, fields=list(shape.value))
        return Updated(pa.Table.from_arrays([record], schema=schema), None)

    return update
