"""The run that gives new states the earlier tuples of their streams (`backfill=True`).

It is a separate topology: the steps that lead to these states, over sources that end at the positions of the running
topology's streams, into states in memory. It has a separate log below the topology's folder, so it continues after a
crash. It catches up while the previous driver still runs. At the end the start takes the log, the run reads the few
missing tuples, and its values become the initial content of the states.
"""

import contextlib
import hashlib
import json
import logging
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from trident.base.crash_points import reach
from trident.base.durable_files import make_folder
from trident.base.errors import BatchFailedError, SpoutError
from trident.compiler.program import Program
from trident.compiler.stages import cut_nodes
from trident.configuration.settings import Settings
from trident.log.protocol import TransactionLog
from trident.plan.functions_of_plan import functions_of
from trident.plan.nodes import SpoutSource, StateSpec, StateWriter
from trident.plan.plan_copy import PlanOfCopies, rebuilt
from trident.plan.topology_protocol import TopologyPlan
from trident.recovery.acquisition import check_start
from trident.recovery.backfills import (
    Fill,
    Pending,
    all_above,
    new_backfills,
    no_fill,
    pending_backfills,
    writers_of,
)
from trident.recovery.group_membership import join_log
from trident.recovery.takeover import explaining
from trident.run.running import RunningTopology
from trident_spouts.executor import Metadata
from trident_spouts.rereadable_sources import RereadSpout
from trident_state.memory.factory import MemoryMapState

logger = logging.getLogger(__name__)

FOLDER = "backfill"
"""The folder of these runs, below that of the topology."""

_NOTE = "upto.json"
"""The file in this folder that names the batches up to which the run reads, and the births of the other states."""

_CLOSE_SECS = 1.0
"""A round of at most this length has caught up: the last one, without the previous driver, takes no longer."""

_MOST_ROUNDS = 20
"""The most rounds, for a stream that grows about as fast as it is read again."""

_BATCH_SECS = 0.5
"""The target seconds of a batch of the run, unless the topology's options set it: short, to leave room for other
work."""

_POLL_SECS = 0.05


@dataclass(frozen=True, slots=True)
class Starts:
    """The functions that start other topologies for a start.

    `run` starts a plan with other options. `former` starts a part of the topology in its place, inactive; None if the
    previous driver is in this process, and so stops cleanly.
    """

    run: Callable[["PlanOfCopies", Mapping[str, Any]], RunningTopology]
    former: Callable[["PlanOfCopies"], RunningTopology] | None


@contextlib.contextmanager
def backfilled(
    topology: TopologyPlan,
    program: Program,
    settings: Settings,
    open_log: Callable[[Settings], TransactionLog],
    starts: Starts,
) -> Iterator[Fill]:
    """Catch up the new states of a program that need it, and yield the function that returns their contents.

    The checks of a start run first, so that a refusal comes before the work, and before a running driver is fenced out.
    """
    if not any(node.state.backfill for node in writers_of(program)) or not _may_have_log(settings):
        yield no_fill
        return
    backfill = Backfill(topology, program, settings, open_log, starts)
    try:
        with contextlib.closing(open_log(settings)) as log:
            if backfill.catch_up(log):
                backfill.commit_waiting(log)
        yield backfill.fill
        backfill.done()
    finally:
        backfill.close()


def _may_have_log(settings: Settings) -> bool:
    return settings.lasting or settings.log is not None


class Backfill:
    """The run for the new states of one start."""

    def __init__(
        self,
        topology: TopologyPlan,
        program: Program,
        settings: Settings,
        open_log: Callable[[Settings], TransactionLog],
        starts: Starts,
    ) -> None:
        self._topology, self._program, self._settings, self._starts = topology, program, settings, starts
        self._open_log = open_log
        self._births: dict[str, int] = {}
        """The epochs in which the other states were born when the run began to catch up."""
        self._ends: dict[str, Metadata] = {}
        """The positions up to which the streams are read at present."""
        self._run: tuple[frozenset[str], RunningTopology] | None = None
        self._temporary: Path | None = None

    def catch_up(self, log: TransactionLog) -> bool:
        """Bring the run close to the streams' positions, while another driver may advance them.

        Return whether the previous driver must be replaced in two steps, which is also the case before its first
        batch, because it may freeze one at any moment. Raises the errors of `check_start` first.
        """
        self._births = _epochs_of_births(log)
        pending, new = self._pending(log), new_backfills(self._program, log)
        if not (pending or (new and log.holder() is not None)):
            return False
        check_start(self._program, cut_nodes(self._former(new).sinks, {}), log, self._settings)
        if not pending:
            return True
        self._forget_later(log)
        for number in range(_MOST_ROUNDS):
            began = time.monotonic()
            self._write_note(log)
            self._read_up_to(pending)
            took = time.monotonic() - began
            text = "topology %r: round %d of the backfill of %s took %.1f s"
            logger.info(text, self._settings.name, number + 1, ", ".join(sorted(pending)), took)
            pending = self._pending(log)
            if took <= _CLOSE_SECS:
                break
        return True

    @property
    def _note(self) -> Path:
        """The file that names the last batch of each group up to which a start's run has read."""
        return self._settings.folder / FOLDER / _NOTE

    def _forget_later(self, log: TransactionLog) -> None:
        """Delete a run that an earlier start left if the log is an older copy than the one that the run read.

        The run may have tuples after the streams' positions, which the new states would get twice. The same holds if
        the topology was restored to a savepoint since, by which every state was born again.
        """
        if not self._settings.lasting or not self._note.exists():
            return
        try:
            noted = json.loads(self._note.read_bytes())
            batches, births = noted["batches"], noted["births"]
        except (ValueError, LookupError):  # a crash interrupted the write
            batches, births = {"": math.inf}, {}
        last = _last_batches(log)
        if any(last.get(group, 0) < txid for group, txid in batches.items()) or births != _epochs_of_births(log):
            text = "topology %r: the log is not that of the remains of a backfill, which begins again"
            logger.warning(text, self._settings.name)
            shutil.rmtree(self._note.parent)

    def _write_note(self, log: TransactionLog) -> None:
        """Record the batches up to which the run reads next."""
        if self._settings.lasting:
            make_folder(self._note.parent)
            self._note.write_text(json.dumps({"batches": _last_batches(log), "births": _epochs_of_births(log)}))

    def commit_waiting(self, log: TransactionLog) -> None:
        """Take over from the previous driver, and commit its batches under way with the steps that froze them.

        Only these steps can commit them (docs/decisions/0017): the batches have no results for the new states.
        """
        former = self._former(new_backfills(self._program, log))
        under_way = log.holder() is not None or any(log.history(group).frozen for group in log.groups())
        if self._starts.former is None or not under_way or not former.sinks:
            return
        reach("backfill.caught.up")
        with self._starts.former(former) as running:
            while running.isActive and any(log.history(group).frozen for group in log.groups()):
                time.sleep(_POLL_SECS)
        reach("backfill.former.committed")
        if (error := running.exception()) is not None:
            raise error

    def _former(self, new: Collection[str]) -> PlanOfCopies:
        """Return the part of the topology that does not depend on the new states."""
        writers = {id(node) for node in writers_of(self._program) if node.state.name in new}
        ends = [sink for sink in self._topology.sinks if not writers.intersection(map(id, all_above(sink)))]
        return PlanOfCopies(self._topology, tuple(ends))

    def fill(self, pending: Pending) -> dict[str, pa.Table]:
        """Return the contents of the states as of these positions, which no driver advances any more.

        If a state was born since the run began, the run begins again: the topology may have been restored to a
        savepoint, and the run may have later tuples. A driver that founded its states in the meantime looks the same.
        """
        with contextlib.closing(self._open_log(self._settings)) as log:
            if (births := _epochs_of_births(log)) != self._births:
                text = "topology %r was restored, or states came or went, during the backfill of %s, which begins again"
                logger.warning(text, self._settings.name, ", ".join(sorted(pending)))
                self.done()
                self._births = births
        run = self._read_up_to(pending)
        return {name: _content(run, name) for name in pending}

    def done(self) -> None:
        """Delete the run: the states have begun."""
        self.close()
        if self._settings.lasting:
            shutil.rmtree(self._settings.folder / FOLDER, ignore_errors=True)

    def close(self) -> None:
        """Stop the run. Its log stays, so that the next start continues it."""
        if self._run is not None:
            self._run[1].stop()
            self._run = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _pending(self, log: TransactionLog) -> Pending:
        with explaining(log, log.lease()):
            joined = join_log(self._program, log, self._settings)
            return pending_backfills(joined.program, joined.members, log)

    def _read_up_to(self, pending: Pending) -> RunningTopology:
        """Let the run read the streams up to these positions, and return it."""
        for positions in pending.values():
            self._ends.update(positions)
        names = frozenset(pending)
        if self._run is None or self._run[0] != names:
            self.close()
            self._run = names, self._begin(names)
        try:
            self._run[1].processAllAvailable()
        except BatchFailedError as error:  # the batch belongs to the run, not to the topology
            cause = error.__cause__ if isinstance(error.__cause__, SpoutError) else error
            cause.add_note(
                f"This happened while the states {', '.join(sorted(names))} were filled with earlier tuples."
            )
            raise cause from None
        return self._run[1]

    def _begin(self, names: frozenset[str]) -> RunningTopology:
        settings = self._settings
        if settings.lasting:
            above = settings.folder / FOLDER
        else:  # without a lasting folder, a start after a crash reads everything again
            above = self._temporary = Path(tempfile.mkdtemp(prefix="trident-backfill-"))
        nodes = [node for node in writers_of(self._program) if node.state.name in names]
        plan = PlanOfCopies(self._topology, rebuilt(nodes, self._reread, _in_memory))
        options = {
            "name": f"{settings.name[:200]}.{FOLDER}",
            "checkpointLocation": above / _digest(plan, nodes),
            "targetBatchSecs": settings.targetBatchSecs or _BATCH_SECS,
            **{name: getattr(settings, name) for name in _OPTIONS},
        }
        logger.info("topology %r: backfill of %s begins", settings.name, ", ".join(sorted(names)))
        return self._starts.run(plan, options)

    def _reread(self, source: SpoutSource) -> SpoutSource:
        spout = RereadSpout(source.spout, lambda: self._ends.get(source.stream))
        return replace(source, spout=spout, formerly=None, anew=False)


_OPTIONS = (
    "engine", "maxAttempts", "retrySecs", "maxSpoutPending", "messageTimeoutSecs", "commitRetrySecs", "autoRows",
    "autoBytes", "driverRows", "ledger", "user",
)  # fmt: skip
"""The options of a start that also apply to its run for earlier tuples."""


def _in_memory(state: StateSpec) -> StateSpec:
    return replace(state, factory=MemoryMapState.transactional(), evolve=())


def _digest(plan: PlanOfCopies, nodes: list[StateWriter]) -> str:
    """Return a name for the run that changes with its states, steps, functions or sources."""
    groups = cut_nodes(plan.sinks, {}).groups
    spouts = [(source.stream, source.spout) for group in groups for source in group.spouts]
    sources = sorted((stream, repr(spout), getattr(spout, "rows_digest", "")) for stream, spout in spouts)
    steps = [[group.outline.encode() for group in groups], [functions_of(node) for node in plan.nodes]]
    parts = [steps, sources, sorted(node.state.name for node in nodes)]
    return hashlib.blake2b(json.dumps(parts, default=str).encode(), digest_size=8).hexdigest()


def _last_batches(log: TransactionLog) -> dict[str, int]:
    return {group: log.history(group).last_frozen for group in log.groups()}


def _epochs_of_births(log: TransactionLog) -> dict[str, int]:
    """Return the epoch in which each state was born. A return to a savepoint changes all of them."""
    return {state: birth.epoch for state, birth in log.births().items() if birth.founded}


def _content(run: RunningTopology, state: str) -> pa.Table:
    """Return the stored values of a state of the run."""
    pages = list(run._read_source.store(state).scan(None))  # noqa: SLF001  # the view has presented values
    content = pa.concat_tables(pages) if pages else pa.table({"value": []})
    return content.filter(content.column("value").is_valid())
