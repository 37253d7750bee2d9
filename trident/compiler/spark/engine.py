"""The Spark engine: every batch of a run is a Spark job, in a session that belongs to its slot."""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, StateError
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.carrier_choice import CarrierPlan
from trident.compiler.columns.dead_letters import Caught, Letters
from trident.compiler.columns.function_errors import decoded
from trident.compiler.columns.kernels import in_sql
from trident.compiler.engine import Answer, Slot
from trident.compiler.failed_tuples import Catcher
from trident.compiler.program import Group, RequestPlan, Stage
from trident.compiler.spark.cached_plans import CachedPlans, PlanUse
from trident.compiler.spark.connect_sessions import use
from trident.compiler.spark.errors import stopped_error, translated
from trident.compiler.spark.executor_reach import ReachedStores
from trident.compiler.spark.failure_signal import signal_of
from trident.compiler.spark.frozen_frames import SparkFrames
from trident.compiler.spark.native_operations import Learned
from trident.compiler.spark.request_steps import SparkSteps
from trident.compiler.spark.sessions import (
    Confs,
    Profile,
    Sizes,
    active_session_kept,
    is_connect,
    is_stopped,
    released,
    run_session,
)
from trident.compiler.spark.small_stages import SmallStagesSlot, stages_without_user_code
from trident.compiler.spark.stage_job import StageJob
from trident.compiler.spark.state_puts import SparkPuts
from trident.compiler.spark.step_work import StepReports
from trident.compiler.spark.warm_up import WarmUp
from trident.compiler.spark.worker_reports import Reports
from trident.compiler.stage_layout import StageLayout, check_picklable, end_of, layout, stage_ends
from trident.compiler.step_descriptions import frozen_in_words
from trident.compiler.tracking.ledger import Ledger
from trident.frozen.files import FROZEN, FileFolder, FrozenFolders
from trident.frozen.results import StageResult
from trident.operations.column_functions import ANOTHER_FORM
from trident.plan.nodes import Node
from trident.plan.topology_protocol import EngineName
from trident_spouts.executor import Emission

INLINE_BYTES = 32 << 20
"""If an output's result was larger than this, executors write the next one into files, if they reach the checkpoint."""

_INTERRUPT_AGAIN = 0.05
"""Seconds between interruptions. A job that was not submitted yet at one interruption is stopped by the next."""


class SparkEngine:
    """An engine that runs stages as Spark jobs.

    The session `spark` is never changed: each slot works in a separate session. The executors write large results into
    `folders`, if they reach these; else every result comes to the driver. With `ledger`, each job keeps a ledger. The
    driver computes stages of at most `driver_rows` tuples without user code.
    """

    name: EngineName = "spark"

    def __init__(
        self,
        spark: SparkSession,
        folders: FrozenFolders | None = None,
        inlineBytes: int = INLINE_BYTES,
        warm_up: WarmUp | None = None,
        ledger: bool = False,
        driver_rows: int = 0,
    ) -> None:
        _check_open(spark)
        self._spark = spark
        self._driver_rows = driver_rows
        self._secret = secrets.token_bytes(16) if ledger else None
        self._warm_up = warm_up
        self._folders = folders
        self._stores = ReachedStores()
        self._sizes = Sizes(spark, inlineBytes)
        self._steps = SparkSteps(spark)
        self.puts = None if self._folders is None else SparkPuts(spark, self._folders.files, self._stores)

    def slot(self, group: Group) -> Slot:
        """Return a new slot with a separate session. It runs the attempts of this group's batches, one at a time."""
        _check_open(self._spark)
        on_spark = SparkSlot(group, run_session(self._spark), self._sizes, self)
        stages = stages_without_user_code(group) if self._driver_rows else ()
        return SmallStagesSlot(group, stages, self._driver_rows, on_spark, self._secret) if stages else on_spark

    @property
    def files_address(self) -> str:
        """The address of the run's files, for messages."""
        return "any file location" if self._folders is None else self._folders.files.address

    def files(
        self, group: Group, stage: Stage, attempt: TransactionAttempt, session: SparkSession, needed: bool
    ) -> FileFolder | None:
        """Return the folder for this attempt's large results; None if the executors do not reach the run's files.

        `needed`: only executors may write the results.
        """
        if self._folders is None:
            return None
        reached = self._stores.reaches(session, self._folders.files.below(FROZEN), needed)
        return self._folders.folder(group.name, attempt, stage.number) if reached else None

    @property
    def keeps_ledger(self) -> bool:
        """True if each job keeps a ledger of its tuples."""
        return self._secret is not None

    def ledger(self, attempt: str) -> Ledger | None:
        """Return the ledger of one job of an attempt; None if the run keeps no ledger."""
        return None if self._secret is None else Ledger(self._secret, attempt)

    def compile_request(self, plan: RequestPlan) -> Answer:
        """Return a DRPC function; each step of it that has no Python form is a Spark job."""
        return compile_request(plan, None if plan.python else self._steps)

    def frames(self) -> SparkFrames:
        """Return the maker of DataFrames of frozen rows, in a separate session."""
        return SparkFrames(self._spark, None if self._folders is None else self._folders.files, self._stores)

    def close(self) -> None:
        """End the warm-up, and close the sessions for DRPC steps and puts. The user's session stays open."""
        if self._warm_up is not None:
            self._warm_up.end()
        if self.puts is not None:
            self.puts.close()
        self._steps.close()


def _check_open(spark: SparkSession) -> None:
    """Raise SparkSetupError if the session was stopped, or the server of a Connect session has closed it."""
    if is_stopped(spark):
        raise stopped_error(spark)
    try:
        if is_connect(spark):
            use(spark)
    except PySparkException as error:
        better = translated(error)
        if better is error:
            raise
        raise better from error


@dataclass(slots=True)
class _Job:
    """A run of a stage: its number in the slot, the failure that a task reported, and whether the run has ended."""

    number: int
    failure: str = ""
    over: bool = False


class SparkSlot:
    """A slot for one batch at a time, in one session."""

    def __init__(self, group: Group, session: SparkSession, sizes: Sizes, engine: SparkEngine) -> None:
        self.session = session
        self._group = group
        self._sizes = sizes
        self._engine = engine
        self._confs = Confs(session)
        self._layouts = {stage.number: self._layout_of(stage) for stage in group.stages}
        for stage_layout in self._layouts.values():
            check_picklable(stage_layout)
        carriers = CarrierPlan(group)
        self._in_files = {stage.number: carriers.in_files(stage) for stage in group.stages}
        self._in_sql = {number for number, plain in self._layouts.items() if any(map(in_sql, plain.nodes))}
        """The numbers of the stages with functions that Spark runs as SQL."""
        self._learned: Learned = {}
        self._plans = CachedPlans(session, self._layouts)
        self._catcher = Catcher({number: plain.nodes for number, plain in self._layouts.items()}, group)
        self._catching: dict[tuple[int, frozenset[int]], StageLayout] = {}
        self._running = threading.Event()
        self._cancelled = threading.Event()
        self._signal = signal_of(session, self._on_failure)
        self._steps = StepReports(session)
        self._job = _Job(0)
        self._stopping = threading.Lock()

    def run(
        self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt, scratch: Path
    ) -> StageResult:
        """Run `stage` over these inputs; see ``Slot.run``."""
        if is_stopped(self.session):  # on Connect its calls might try a server again that ended with the session
            raise stopped_error(self.session)
        self._cancelled.clear()
        self._running.set()

        def run(caught: Mapping[int, Caught], letters: Letters) -> StageResult:
            return tried(caught, letters, False)

        def run_thoroughly(caught: Mapping[int, Caught], letters: Letters) -> StageResult:
            return tried(caught, letters, True)

        def tried(caught: Mapping[int, Caught], letters: Letters, thorough: bool) -> StageResult:
            stage_layout = self._layout(stage, caught, thorough)
            run = partial(self._run, stage, inputs, attempt, scratch, stage_layout, letters, thorough)
            if self._engine.keeps_ledger or stage.number not in self._in_sql:
                return self._tried(stage, attempt, partial(run, False))
            try:
                return self._tried(stage, attempt, partial(run, True))
            except Exception as error:
                if not _needs_python(error):
                    raise
            return self._tried(stage, attempt, partial(run, False))

        try:
            return self._catcher.run(stage, attempt, run, run_thoroughly)
        finally:
            self._running.clear()

    def _layout_of(self, stage: Stage, caught: Mapping[int, Caught] = MappingProxyType({})) -> StageLayout:
        hints, facts = self._group.hints, self._group.facts
        return layout(stage_ends(stage), stage.inputs, stage.debugs, caught, hints, facts)

    def _layout(self, stage: Stage, caught: Mapping[int, Caught], thorough: bool) -> StageLayout:
        """Return the layout of a stage in which the nodes of `caught` catch failing tuples.

        Without `thorough`, only those nodes catch that can do so at no cost.

        A node catches at no cost if all fields of its tuples reach it anyway.
        """
        plain = self._layouts[stage.number]
        catching = caught if thorough else plain.carried(caught)
        if not catching:
            return plain
        key = stage.number, frozenset(catching)
        if key not in self._catching:
            self._catching[key] = self._layout_of(stage, catching)
        return self._catching[key]

    def _tried(self, stage: Stage, attempt: TransactionAttempt, run: Callable[[], StageResult]) -> StageResult:
        """Run a stage once. Raise the library's error in place of an exception of Spark."""
        self._job = job = _Job(self._job.number + 1)
        try:
            return run()
        except Exception as error:
            better = self._meant(stage, attempt, job, error)
            if better is error:
                raise
        finally:
            with self._stopping:
                job.over = True
        raise better  # not within `except`: Spark's own error would be printed before it

    def _meant(self, stage: Stage, attempt: TransactionAttempt, job: "_Job", error: Exception) -> BaseException:
        """Return the error to raise in place of `error`.

        It is the attempt's cancellation, a failure that a task reported, or the translation of `error`.
        """
        if self._cancelled.is_set():
            return AttemptCancelledError(f"attempt {attempt} was cancelled")
        reported = decoded(job.failure) if job.failure else None
        if reported is not None:
            return reported
        self._sizes.failed(self._group.name, stage, error)
        return translated(error, self._layouts[stage.number].nodes, self.session)

    def _on_failure(self, number: int, text: str) -> None:
        """Stop the job of this number, in which a task has failed.

        Spark's scheduler waits for this method, and `interruptAll` waits for the scheduler: so another thread stops the
        job.
        """
        threading.Thread(target=self._stop, args=(self._job, number, text), name="trident-failed", daemon=True).start()

    def _stop(self, job: "_Job", number: int, text: str) -> None:
        while job.number == number:
            with self._stopping:  # the next job of this session must not begin between the check and the interruption
                if job.over:
                    return
                job.failure = job.failure or text
                self._interrupted()
            time.sleep(_INTERRUPT_AGAIN)

    def _run(
        self,
        stage: Stage,
        inputs: Mapping[Node, Emission | pa.Table],
        attempt: TransactionAttempt,
        scratch: Path,
        stage_layout: StageLayout,
        letters: Letters,
        thorough: bool,
        sql: bool,
    ) -> StageResult:
        began, name = time.perf_counter(), self._group.name
        self._steps.begin()
        scratch.mkdir(parents=True, exist_ok=True)
        pinned = self._in_files[stage.number]
        large = self._sizes.large(name, stage) | pinned
        files = self._engine.files(self._group, stage, attempt, self.session, bool(pinned)) if large else None
        if files is None and pinned:
            raise StateError(
                f"{', '.join(map(frozen_in_words, sorted(pinned)))}: only executors may write it "
                f"(writers='executors'), but they do not reach the frozen files at {self._engine.files_address}; "
                f"the Python log may say why. Put the checkpointLocation on a disk that all machines share, give a "
                f"filesLocation that they reach, or declare the state with writers='auto'"
            )
        expected = self._sizes.accumulators(name, stage)
        written = large if files else frozenset[str]()
        signal = None if self._signal is None else self._signal.of(self._job.number)
        # The name has the job's number, because a thorough second run of a stage must not count the reports of its
        # first run.
        ledger = self._engine.ledger(f"{attempt} of stage {stage.number}, job {self._job.number}")
        reports = Reports(signal, letters, ledger, self._steps.meter)
        job = StageJob(
            stage, stage_layout, self._learned, files, written, expected, attempt.txid, reports, thorough, sql
        )
        repeatable = not large and ledger is None and stage_layout is self._layouts[stage.number]
        repeatable &= sql or stage.number not in self._in_sql  # a kept plan has the functions in SQL
        with active_session_kept(self.session):
            profile = self._profile(stage, inputs)
            self._confs.apply(profile)
            use = self._plans.use(stage, inputs, profile) if repeatable else None
            self._check()
            rows = None if use is None else use.again()
            result = self._planned(job, stage, inputs, scratch, use) if rows is None else job.repeated(rows)
        self._sizes.ran(name, stage, result, time.perf_counter() - began)
        steps = self._steps.works(stage_layout, _counted(stage, inputs, result))
        return StageResult(result.results, _rows(inputs), result.shown, steps=steps)

    def _planned(
        self,
        job: StageJob,
        stage: Stage,
        inputs: Mapping[Node, Emission | pa.Table],
        scratch: Path,
        use: PlanUse | None,
    ) -> StageResult:
        """Run a stage with a new plan, which is kept for `use`."""
        if use is not None:
            inputs = use.entering()
        job.read(inputs, self.session, scratch)
        profile = self._profile(stage, inputs)  # some sources know their number of rows only now
        self._confs.apply(profile)
        try:
            job.lower(inputs, profile)
            self._check()
            branches = job.branches()
            self._check()
            return job.collect(branches, use)
        finally:
            job.release()

    def _profile(self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table]) -> Profile:
        profile = self._sizes.profile(self._group.name, stage, _rows(inputs))
        return replace(profile, partitioned=self._layouts[stage.number].partitioned)

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise AttemptCancelledError("cancelled")

    def cancel(self) -> None:
        """Stop the job that runs in this slot's session, and no other job. Return at once."""
        if not self._running.is_set():
            return
        self._cancelled.set()
        threading.Thread(target=self._interrupt, name="trident-cancel", daemon=True).start()

    def _interrupt(self) -> None:
        while self._running.is_set() and self._cancelled.is_set():
            self._interrupted()
            time.sleep(_INTERRUPT_AGAIN)

    def _interrupted(self) -> None:
        with contextlib.suppress(PySparkException):  # the session is gone, and its jobs with it
            self.session.interruptAll()

    def close(self) -> None:
        """Release the session, and the plans in it."""
        self._plans.close()
        released(self.session)


def _rows(inputs: Mapping[Node, Emission | pa.Table]) -> int | None:
    """Return the number of tuples that enter the stage; None if some input does not know its number."""
    known = [_rows_of(emission) for emission in inputs.values()]
    return None if any(rows is None for rows in known) else sum(rows or 0 for rows in known)


def _rows_of(emission: Emission | pa.Table) -> int | None:
    return emission.num_rows if isinstance(emission, pa.Table) else emission.rows


def _counted(stage: Stage, inputs: Mapping[Node, Emission | pa.Table], result: StageResult) -> dict[int, int]:
    """Return the numbers of tuples that leave the nodes at both ends of a stage, as far as they are known."""
    entering = {id(node): rows for node, emission in inputs.items() if (rows := _rows_of(emission)) is not None}
    leaving = {id(end_of(output.step)): result.results[output.name].num_rows for output in stage.outputs}
    return {**entering, **leaving}


_OF_A_TUPLE = (
    "ARITHMETIC_OVERFLOW", "DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO", "CAST_INVALID_INPUT", "CAST_OVERFLOW",
    "NUMERIC_VALUE_OUT_OF_RANGE", "NUMERIC_OUT_OF_SUPPORTED_RANGE", "INVALID_ARRAY_INDEX", "DATETIME_OVERFLOW",
)  # fmt: skip
"""The conditions of Spark's errors for a tuple on which an expression fails."""


def _needs_python(error: BaseException) -> bool:
    """Return whether a stage failed on a tuple that needs the Python function, which then raises the better error."""
    texts = [str(each) for each in (error, error.__cause__) if each is not None]
    return any(name in text for name in (ANOTHER_FORM, *_OF_A_TUPLE) for text in texts)
