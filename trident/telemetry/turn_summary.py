"""The summary of a commit turn, for progress events: its effect on each state, and each output's rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from trident.compiler.program import Stage
from trident.frozen.results import DebugTuples, StepWork
from trident.plan.nodes import Emitted, Node, StateQuery, sources_of
from trident.plan.states import state_traits
from trident.telemetry.event_time import WindowTime
from trident.telemetry.hottest_key import Hottest
from trident_spouts.executor import Emission


@dataclass(slots=True)
class StateSummary:
    """The effect of a commit on one state, for progress events: its keys, and how many of them were written."""

    keys: int = 0
    written: int = 0
    hottest: Hottest | None = None
    writers: Literal["driver", "executors"] = "driver"
    """The sender of the changes to the store."""
    dropped: int | None = None
    """The number of duplicate tuples that the state held back; None for a state that does not drop duplicates."""
    time: WindowTime | None = None
    """The event time of the window, if the state belongs to a window."""
    evicted: int = 0
    """The number of dead letters that the state removed because it keeps only the newest ones."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as progress events show it."""
        summary: dict[str, Any] = {"keys": self.keys, "written": self.written}
        if self.writers != "driver":
            summary["writers"] = self.writers
        if self.dropped is not None:
            summary["dropped"] = self.dropped
        summary |= {"evicted": self.evicted} if self.evicted else {}
        summary |= {} if self.hottest is None else {"hottest": self.hottest.as_dict()}
        return summary if self.time is None else summary | self.time.as_dict()


@dataclass(slots=True)
class TurnSummary:
    """The effect of a commit turn, for progress events: a summary of each state, the number of rows of each output."""

    states: dict[str, StateSummary] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    """The number of tuples for which executors queried a state, by the step of the query."""
    dead: dict[str, int] = field(default_factory=dict)
    """The number of dead letters, by the step that made them."""
    skipped: dict[str, int] = field(default_factory=dict)
    """The number of skipped tuples, by step. Tuples that stage 1 skipped are counted here only if its results came from
    the log; otherwise its attempt reported them."""
    steps: list[StepWork] = field(default_factory=list)
    """The work of the steps that ran in this turn."""
    shown: list[DebugTuples] = field(default_factory=list)
    """The tuples that Debug steps of later stages show."""
    engines: dict[int, str] = field(default_factory=dict)
    """The engines that ran stages in this turn, by the number of the stage; "" if the run has only one engine."""
    time: float | None = None
    """The time of the commit, in seconds since 1970."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as progress events show it. Only `states` is always present."""
        summary: dict[str, Any] = {"states": {name: written.as_dict() for name, written in self.states.items()}}
        if self.asked:
            summary["queries"] = {step: {"tuples": n, "readers": "executors"} for step, n in self.asked.items()}
        if self.outputs:
            summary["outputs"] = {name: {"rows": rows} for name, rows in self.outputs.items()}
        return summary | ({"deadLetters": self.dead} if self.dead else {})


def note_duplicates_dropped(
    stage: Stage,
    rows: Mapping[Node, int],
    tables: Mapping[Node, pa.Table | Emission],
    states: Mapping[str, StateSummary],
) -> None:
    """Record, for each state of this stage that drops duplicates, how many tuples it dropped.

    `rows` are the rows of all results so far. The rows of a query are its input tuples; its output is in `tables`,
    except in a turn that only repeats a commit.
    """
    for output in stage.updates:
        step = output.step
        if not isinstance(step, Emitted) or not state_traits(step.source).holds_back(step.source):
            continue
        update = step.source
        if update.state.name not in states or step not in rows:
            continue
        (source,) = sources_of(update)
        table = tables.get(source)  # the driver reads the tuples of an updater, unless executors do
        entered = table.num_rows if isinstance(table, pa.Table) else rows.get(source)
        if entered is not None and (isinstance(table, pa.Table) or not isinstance(source, StateQuery)):
            states[update.state.name].dropped = entered - rows[step]
