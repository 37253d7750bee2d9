"""The start of a topology: check the options, take log and states, make the groups and launch them."""

import contextlib
import functools
import logging
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace as replace_field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from trident.base.clock import Clock, SystemClock
from trident.base.errors import GuaranteeError, StateUnavailableError, TopologyError
from trident.base.log_fields import RunLogger
from trident.base.metrics import MetricsRegistry
from trident.base.run_facts import RunFacts
from trident.base.user_config import UserConfig
from trident.base.verb_call import user_level
from trident.batches.attempt_slots import Slots
from trident.batches.bootstrapping import without_effect
from trident.batches.group_run import GroupRun
from trident.batches.run_context import GroupContext, RunContext
from trident.batches.sources import Sources
from trident.commits.committer import Committer
from trident.commits.executor_requirements import check_writers
from trident.commits.output_memory import LogMemory
from trident.commits.query_answers import Answers, CommittedAnswers
from trident.commits.user_code import AnswerCommitted, UserCode
from trident.compiler.engine_choice import check_engine
from trident.compiler.failed_tuples import check_read
from trident.compiler.program import Group, Program, hints_in_groups
from trident.compiler.stages import cut
from trident.configuration.settings import NOWHERE, Settings
from trident.configuration.start_options import StartOptions, checked
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.log.protocol import LogBusyError, TransactionLog
from trident.log.returned_lease import give_back
from trident.log.sqlite_log import SqliteLog
from trident.outputs.outlets import HandOver, Outlets, raise_no_outputs
from trident.outputs.parquet_storage import check_outside
from trident.outputs.run_identity import RunIdentity
from trident.plan.guarantee import check_exactly_once
from trident.plan.nodes import WriteParquet
from trident.plan.parallelism_hints import named_hints
from trident.plan.spout_options import with_spout_options
from trident.plan.topology_protocol import TopologyPlan
from trident.reads.static_states import close_statics, open_statics
from trident.recovery.acquisition import Begun, begin, close_all
from trident.recovery.backfills import Fill
from trident.recovery.change_readers import late_outputs, outdated_outputs
from trident.recovery.changed_steps import changed_steps, check_accepted, keep_steps
from trident.recovery.evolving_store import changing_states
from trident.recovery.folder_owner import (
    check_log_there,
    check_own_folder,
    check_own_objects,
    record_own_objects,
)
from trident.recovery.lease_renewal import LeaseRenewal
from trident.recovery.takeover import OvertakenError, explaining
from trident.run import registry, sigterm
from trident.run.backfill import Starts, backfilled
from trident.run.engines import EngineMaker, engine_maker
from trident.run.log_durability import check_lasting
from trident.run.read_source import RunReadSource
from trident.run.removed_partitions import left_behind
from trident.run.running import RunningTopology
from trident.run.standby import Standby, check_turn
from trident.telemetry.batch_trace import Trace, debug_logger
from trident.telemetry.progress import Progress
from trident.telemetry.run_metrics import RunMetrics, dropped_counter
from trident.user_calls.daemon_threads import Threads
from trident.user_calls.watched_calls import WatchedCalls
from trident.user_calls.watched_store import WatchedStore, unwatched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trident.compiler.spark.warm_up import WarmUp

logger = logging.getLogger(__name__)

LOG_FILE = "log.sqlite"


def start(
    topology: TopologyPlan,
    spark: "SparkSession | None" = None,
    warm_up: "WarmUp | None" = None,
    /,
    *,
    clock: Clock | None = None,
    **options: "Unpack[StartOptions]",
) -> RunningTopology:
    """Start a topology on the engine that the options name. The options are those of ``TridentTopology.start``.

    `warm_up` has begun to warm up Spark; it ends with the run, or if the start fails.
    """
    try:
        values = checked(options)
        topology, engine = with_spout_options(topology, values.spouts), values.engine
        check_engine(engine, spark, topology.nodes)
        return start_on(engine_maker(engine, topology, spark, warm_up), topology, clock, **options)
    except BaseException as error:
        if warm_up is not None:
            warm_up.end()
        if isinstance(error, StateUnavailableError):
            logger.debug("topology %r did not start", options.get("name"), exc_info=error)
            # The message has the reason, which 80 lines of client and library frames would hide.
            raise error.with_traceback(None) from None
        raise


def start_on(
    engine_of: EngineMaker,
    topology: TopologyPlan,
    clock: Clock | None = None,
    known_as: str | None = None,
    **options: "Unpack[StartOptions]",
) -> RunningTopology:
    """Start a topology on the engine that `engine_of` creates.

    `known_as`: the name of the topology for the user's code, if this run is a backfill of that topology.
    """
    values = checked(options)
    program = cut(topology, values.debug).in_run(RunFacts(known_as or values.name, values.user or UserConfig()))
    if not program.groups and not program.requests:
        raise TopologyError(
            "nothing to run: no stream from a spout leads to a state or an output, and there is no DRPC function"
        )
    hints = named_hints("parallelismHints", values.parallelismHints or {}, hints_in_groups(program.groups))
    settings = Settings.of(values, hints, clock or SystemClock())
    check_fit(topology, program, settings)
    waiting = Standby(settings) if settings.standby else None

    def start_backfill(plan: TopologyPlan, more: Mapping[str, Any]) -> RunningTopology:
        return start_on(engine_of, plan, clock, settings.name, **more)

    def start_former(plan: TopologyPlan) -> RunningTopology:
        states = {node.state.name for group in cut(plan).groups for node in group.states}
        accepted = [name for name in settings.acceptSteps or () if name in states]
        kept: StartOptions = {
            **options, "active": False, "availableNow": False, "parallelismHints": None, "acceptSteps": accepted,
            "debug": bool(values.debug),
        }  # fmt: skip
        return start_on(engine_of, plan, clock, **kept)

    here = registry.check_free(settings.name, settings.replace)
    starts = Starts(start_backfill, None if here else start_former)
    # first, because the previous driver continues meanwhile
    with backfilled(topology, program, settings, open_log, starts) as fill:
        return _reserved(topology, program, settings, engine_of, waiting, fill)


def check_fit(topology: TopologyPlan, program: Program, settings: Settings) -> None:
    """Raise an error if options contradict each other, or do not fit the topology."""
    kept, outside = settings.lasting or settings.log is not None, settings.objects is not None
    if settings.requireExactlyOnce:
        check_exactly_once(topology)
        if not kept:
            raise GuaranteeError(
                "requireExactlyOnce=True needs a checkpointLocation: without one the guarantee ends with the process"
            )
    if outside and not kept:
        raise TopologyError(
            f"filesLocation={settings.filesLocation!r} needs a log that outlives this process, because only the log "
            f"says which files are valid: give start(..., log=RedisLog(...)) or checkpointLocation=..."
        )
    check_lasting(program, settings)
    check_accepted(program, settings)
    check_writers(program, settings.lasting or outside)
    check_read(topology.nodes, settings.maxAttempts)
    check_turn(settings)


def _reserved(
    topology: TopologyPlan,
    program: Program,
    settings: Settings,
    engine_of: EngineMaker,
    waiting: Standby | None,
    fill: Fill,
) -> RunningTopology:
    """Start under the topology's name, which is reserved first. A run without a location gets a temporary folder."""
    name, mine = settings.name, object()
    # All resources that must be given back are taken within the `try`, because an interrupt may come at any line.
    try:
        registry.reserve(name, settings.replace, mine)
        if not settings.lasting:
            settings = replace_field(settings, folder=Path(tempfile.mkdtemp(prefix="trident-")) / name)
        if waiting is not None:
            registry.enter(name, waiting)
        sigterm.watch()  # set before the call, because from then on the start may hold the log
        return _start(topology, program, settings, engine_of, waiting, fill)
    except BaseException:
        registry.unreserve(name, mine)
        if waiting is not None:
            registry.release(name, waiting)
            waiting.failed()
        sigterm.unwatch()
        if not settings.lasting and settings.folder != NOWHERE:
            shutil.rmtree(settings.folder.parent, ignore_errors=True)
        raise


def _start(
    topology: TopologyPlan,
    program: Program,
    settings: Settings,
    engine_of: EngineMaker,
    waiting: Standby | None,
    fill: Fill,
) -> RunningTopology:
    """Open everything that a run needs, create the run, and launch it.

    If `waiting` is given, first wait until this start may take the log.

    Everything that must be closed again if a later step fails is put on `undo`.
    """
    with contextlib.ExitStack() as undo:
        log = open_log(settings)
        undo.callback(log.close)
        _check_outputs(program, settings)
        check_own_folder(settings, log.uuid)
        kept_at = check_own_objects(settings, log)
        settings = replace_field(settings, uuid=log.uuid)
        renewal = LeaseRenewal(log, settings.name, settings.leaseSecs)
        undo.callback(renewal.stop)
        begun = _begin(program, log, settings, renewal, waiting, fill)
        undo.callback(give_back, log, begun.lease)
        undo.callback(renewal.stop)
        undo.callback(close_all, begun.stores)
        shutil.rmtree(settings.scratch, ignore_errors=True)
        statics = open_statics(begun.program)
        undo.callback(close_statics, statics)
        engine = engine_of(settings)
        undo.callback(engine.close)
        state_threads = Threads("trident-states", max(2, len(begun.stores)))
        undo.callback(state_threads.close, 0)
        runId, metrics = uuid4().hex, MetricsRegistry()
        progress = Progress(whenDropped=dropped_counter(metrics, settings.name))
        identity = {"name": settings.name, "id": log.uuid, "runId": runId, "engine": engine.name}
        counted = RunMetrics(metrics, progress.tell)
        trace = Trace(identity, settings.clock, counted.tell, bool(settings.debug))
        context = RunContext(
            topology,
            settings,
            runId,
            log,
            begun,
            engine,
            state_threads,
            progress,
            trace,
            LogMemory.of(begun, log, settings.leaseSecs),
            statics,
            metrics=metrics,
            renewal=renewal,
        )
        _tell(context)
        runs: dict[str, GroupRun] = {}
        outlets: list[Outlets] = []
        committed = CommittedAnswers()
        for group in begun.program.groups:
            calls = WatchedCalls(group.name, settings.clock, settings.messageTimeoutSecs, topology=settings.name)
            undo.callback(calls.close, 0)
            sources = Sources(group.spouts, calls, settings.targetBatchSecs, settings.active, group.facts)
            undo.callback(sources.close)
            outlets.append(_outlets(group, context))
            undo.callback(outlets[-1].close)
            runs[group.name] = _group_run(group, context, sources, outlets[-1], committed)
        # Last, when the outputs are open and the states hold all batches of the log: only then do the files that the
        # log names exist.
        _record(context, kept_at)
        source = RunReadSource(settings.name, runs, unwatched(begun.stores), statics, begun.births)
        committed.source = source
        running = RunningTopology(context, runs, source, functools.partial(_close, context, outlets))
        if waiting is not None:
            waiting.check()
        undo.callback(registry.release, settings.name, running)
        registry.enter(settings.name, running)
        undo.pop_all()
    running.launch()
    if waiting is not None:
        waiting.became(running)
    return running


def _record(context: RunContext, kept_at: str) -> None:
    """Record in the log the changes of this start for outputs and files. No later check refuses the start."""
    keep_steps(context.begun.program, context.log, context.begun.lease)
    context.memory.keep()
    record_own_objects(context.settings, context.log, context.begun.lease, kept_at)


def _begin(
    program: Program,
    log: TransactionLog,
    settings: Settings,
    renewal: LeaseRenewal,
    waiting: Standby | None,
    fill: Fill,
) -> Begun:
    """Take the log and the states. `fill` returns the contents of states that begin with earlier tuples.

    With `waiting`, wait until the log is free. Wait again if another driver took it first.
    """
    taken = renewal.begin if settings.lasting or settings.log is not None else _nothing
    if waiting is None:
        return begin(program, log, settings, taken=taken, fill=fill)
    while True:
        try:
            return begin(program, log, settings, waiting.wait(log), taken, fill)
        except OvertakenError:
            logger.info("topology %r: another driver took the log first; this driver waits as a standby", settings.name)
        except LogBusyError as error:
            # A driver was suspended during a write. Until it continues or dies, no other process can write the file.
            logger.warning("topology %r cannot take over: %s; this driver waits as a standby", settings.name, error)


def _tell(context: RunContext) -> None:
    """Log warnings, the start of the run, and the batches that the run must recover."""
    _warn(context)
    begun, settings, log = context.begun, context.settings, RunLogger(logger, topology=context.settings.name)
    known = ", ".join(f"{name} at txid {history.committed}" for name, history in begun.histories.items())
    where, epoch, engine = settings.log_at, begun.lease.epoch, context.engine.name
    log.info("topology %r starts on engine %r, log %s, epoch %d; %s", settings.name, engine, where, epoch, known)
    if begun.died:
        log.info("the driver of epoch %d did not release the log: it died, or is now fenced out", epoch - 1)
    for name, history in begun.histories.items():
        if history.frozen:
            first, last = history.frozen[0], history.last_frozen
            waiting = "group %r: batches %d to %d are frozen but not committed; they are committed first"
            log.info(waiting, name, first, last, extra={"group": name})


def _close(context: RunContext, outlets: list[Outlets], written: bool) -> None:
    """Close the resources that `_start` opened. `written` says that no write to a store is running any more."""
    with contextlib.ExitStack() as last:  # closes all of them, even if closing one fails
        if not context.settings.lasting:
            last.callback(shutil.rmtree, context.settings.folder.parent, ignore_errors=True)
        last.callback(context.log.close)
        last.callback(give_back, context.log, context.begun.lease)
        if context.renewal is not None:
            last.callback(context.renewal.stop)
        last.callback(context.engine.close)
        last.callback(close_statics, context.statics)
        for outlet in outlets:
            last.callback(outlet.close)
        if written:
            close_all(context.begun.stores)
        else:  # the stores stay open, as after the driver is killed
            for store in context.begun.stores.values():
                getattr(store, "leave", _nothing)()


def _nothing(*_: object) -> None: ...


def _group_run(
    group: Group,
    context: RunContext,
    sources: Sources,
    outlets: HandOver = raise_no_outputs,
    committed: AnswerCommitted | None = None,
) -> GroupRun:
    """Create the run of one group, and heal its states up to the last committed batch."""
    settings, log, begun = context.settings, context.log, context.begun
    slots = Slots(
        lambda hints: context.engine.slot(replace_field(group, hints=hints)), settings.scratch, settings.hints
    )
    stores = {step.state.name: begun.stores[step.state.name] for step in group.states}
    answers = Answers({**stores, **context.statics})
    committed = committed or CommittedAnswers()
    code = UserCode(sources.calls, slots, answers, committed, outlets, context.state_threads)
    for store in stores.values():
        if isinstance(store, WatchedStore):
            store.join(sources.calls, lambda: code.tries)
    waiting, files = begun.waiting[group.name], settings.files
    committer = Committer(
        group,
        log,
        begun.lease,
        stores,
        begun.births,
        settings.place,
        code,
        waiting,
        settings.clock,
        context.engine.puts,
        context.statics,
        files,
        settings.name,
    )
    history = begun.histories[group.name]
    with explaining(log, begun.lease):  # states may look lost only because another driver took the log
        committer.sweep()
        for state in stores:
            committer.heal(state, max(history.committed, begun.births[state].txid))
    shared = GroupContext(group, settings, log, begun.lease, history, sources, slots, committer, context.trace)
    return GroupRun(shared, context.make_threads)


def _check_outputs(program: Program, settings: Settings) -> None:
    """Raise TopologyError for a Parquet output among the topology's files."""
    own: list[FileStore] = [DiskFiles(settings.folder)] if settings.lasting else []
    if settings.objects is not None:
        own.append(settings.objects)
    for output in (output for group in program.groups for output in group.sinks):
        if isinstance(output.step, WriteParquet):
            check_outside(output.step, own)


def _outlets(group: Group, context: RunContext) -> Outlets:
    """Open the group's outputs."""
    settings, begun = context.settings, context.begun
    last_frozen = begun.histories[group.name].last_frozen
    lease = begun.lease
    run = RunIdentity(settings.name, context.log.uuid, lease.epoch, last_frozen, lease.token, context.memory)
    with explaining(context.log, lease):  # an output may look ahead of the log only because another driver wrote both
        return Outlets(group, context.engine, settings.place, settings.scratch, run, context.trace, context.metrics)


def open_log(settings: Settings) -> TransactionLog:
    """Open the log of a topology; create it if it is missing."""
    if settings.log is not None:
        return settings.log.open(settings.name)
    check_log_there(settings, LOG_FILE)
    return SqliteLog(settings.folder / LOG_FILE, settings.name)


def _warn(context: RunContext) -> None:
    """Warn the caller of `start` of facts that may surprise later. Each text is shown once."""
    begun, settings = context.begun, context.settings
    of_stores = [text for store in begun.stores.values() for text in getattr(store, "warnings", ())]
    outputs = [
        *late_outputs(begun.program, begun.births, begun.histories, context.memory.before),
        *outdated_outputs(begun.program, begun.births, changing_states(begun.stores), context.memory.before),
    ]
    steps = changed_steps(begun.program, begun.births, begun.histories, context.memory.before, context.log)
    warned = [*begun.warnings, *context.memory.warnings(begun), *outputs, *steps, *of_stores]
    if begun.stores and not settings.lasting and settings.log is None:
        warned.append(
            f"topology {settings.name!r} has no checkpointLocation: its states and its position end with this run"
        )
    for state, birth in begun.births.items():
        history = begun.histories[birth.group]
        if 0 < birth.txid == history.last_frozen and not birth.filled:
            warned.append(
                f"state {state!r} is new, but its stream is at txid {birth.txid}: the batches up to there are not "
                f"in the state. To include them, {settings.way_out}"
            )
    if settings.debug and not debug_logger.isEnabledFor(logging.INFO):
        warned.append(
            "debug=: nothing is logged, because the logger 'trident.debug' is not enabled for INFO; write "
            "logging.basicConfig(level=logging.INFO). running.debugOutput has the latest tuples in any case"
        )
    warned += without_effect(begun.program.groups)
    warned += left_behind(begun.program.groups, begun.stores, settings.hints)
    for text in dict.fromkeys(warned):
        warnings.warn(text, RuntimeWarning, stacklevel=user_level())
