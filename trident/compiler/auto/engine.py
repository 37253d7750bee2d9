"""The engine of ``engine="auto"``: each stage of each attempt runs in the driver's process or on Spark.

Both engines compute the same from the same tuples, and a frozen batch does not depend on the engine. So the choice is
free for every stage of every attempt.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, SparkSetupError, SpoutError, UserCodeError, UserFunctionError
from trident.compiler.arrow.engine import ArrowEngine
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.auto.choice import EngineChoice, Side, Size
from trident.compiler.auto.deferred_spark import DeferredSpark
from trident.compiler.carrier_choice import CarrierPlan
from trident.compiler.engine import Answer, Engine, Frames, Puts, Slot
from trident.compiler.keyed_job import KeyedJob, KeyedResult
from trident.compiler.latest_times import LatestTimes
from trident.compiler.parquet_files import Part, Target
from trident.compiler.program import Group, RequestPlan, Stage
from trident.frozen.results import FrozenFiles, Result, StageResult
from trident.plan.nodes import Node
from trident.plan.topology_protocol import EngineName
from trident.plan.traits import has_python_form
from trident_spouts.executor import Emission
from trident_state.store import SharedBatch, SharedSnapshot
from trident_state.store_messages import Put

if TYPE_CHECKING:  # a run whose batches stay small never loads these modules
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)


class AutoEngine(Engine):
    """An engine that runs each stage where it is expected to be faster.

    `spark` starts when a stage needs it. `choice` learns from the times of all stages. `files`: whether the run has a
    folder for frozen files, from which workers put batches into states. With `ledger`, each stage keeps one.
    """

    name: EngineName = "auto"

    def __init__(self, spark: DeferredSpark, choice: EngineChoice, files: bool, ledger: bool = False) -> None:
        self._spark, self._choice = spark, choice
        self._embedded = ArrowEngine(ledger)
        self._puts = _LaterPuts(spark) if files else None

    def slot(self, group: Group) -> "AutoSlot":
        """Return a new slot, which runs the attempts of this group's batches, one at a time."""
        return AutoSlot(group, self._embedded, self._spark, self._choice)

    @property
    def puts(self) -> Puts | None:
        """The puts by workers; see `Engine.puts`. Until Spark runs, the driver does the puts that both can do."""
        return self._puts

    @property
    def frames(self) -> Callable[[], Frames]:
        """A function that returns the maker of DataFrames of frozen rows. Spark starts for the first DataFrame."""
        return lambda: _LaterFrames(self._spark)

    def compile_request(self, plan: RequestPlan) -> Answer:
        """Compile a DRPC function. Spark starts if one of its operations has no Python form."""
        return compile_request(plan) if plan.python else self._spark.get().compile_request(plan)

    def close(self) -> None:
        """Close Spark's engine. The session stays open."""
        self._spark.close()


class AutoSlot:
    """A slot for one batch at a time: a slot of each engine. The one on Spark is created when it is first needed."""

    def __init__(self, group: Group, embedded: ArrowEngine, spark: DeferredSpark, choice: EngineChoice) -> None:
        self._group, self._spark, self._choice = group, spark, choice
        carriers = CarrierPlan(group)
        self._only_spark = {
            stage.number
            for stage in group.stages
            if carriers.in_files(stage) or not all(map(has_python_form, stage.nodes))
        }
        stages = tuple(stage for stage in group.stages if stage.number not in self._only_spark)
        self._embedded: Slot | None = embedded.slot(replace(group, stages=stages)) if stages else None
        self._on_spark: Slot | None = None
        self._lock = threading.Lock()
        self._running: Slot | None = None
        self._cancelled = threading.Event()
        if self._only_spark:
            spark.begin(f"stage {min(self._only_spark)} of group {group.name!r} can only run on Spark")

    def run(
        self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt, scratch: Path
    ) -> StageResult:
        """Run `stage` over these inputs; see ``Slot.run``."""
        self._cancelled.clear()
        name, number, size = self._group.name, stage.number, size_of(inputs)
        both = number not in self._only_spark and self._choice.fits(size)
        side = self._choice.choose(name, number, size, self._spark.engine is not None) if both else "spark"

        def check() -> None:
            if self._cancelled.is_set():
                raise AttemptCancelledError(f"attempt {attempt} was cancelled")

        def run(side: Side) -> StageResult:
            slot = self._slot(side, stage, both, check)
            work = partial(self._run_in, slot, side, stage, inputs, attempt, scratch, check)
            return self._timed(work, stage, side, size) if both else work()

        try:
            return run(side)
        except (UserCodeError, SparkSetupError) as error:
            if not both or side == "embedded":
                raise
            logger.warning("group %r stays in this process, because it cannot run on Spark: %s", name, error)
        self._choice.stays_here(name)
        return run("embedded")

    def _run_in(
        self,
        slot: Slot,
        side: Side,
        stage: Stage,
        inputs: Mapping[Node, Emission | pa.Table],
        attempt: TransactionAttempt,
        scratch: Path,
        check: Callable[[], None],
    ) -> StageResult:
        try:
            with self._lock:
                self._running = slot
            check()
            return replace(slot.run(stage, inputs, attempt, scratch), engine=side)
        finally:
            with self._lock:
                self._running = None

    def _timed(self, work: Callable[[], StageResult], stage: Stage, side: Side, size: Size) -> StageResult:
        """Run a stage that both engines can run, and record its duration or its failure."""
        began = time.perf_counter()
        try:
            result = work()
        except Exception as error:
            self._note_failure(stage, side, size, error, time.perf_counter() - began)
            raise
        self._note_time(stage, side, size, time.perf_counter() - began)
        return result

    def _note_time(self, stage: Stage, side: Side, size: Size, seconds: float) -> None:
        """Record the duration of a stage. If Spark may be faster and is not running, start it for later batches."""
        name, number = self._group.name, stage.number
        self._choice.ran(name, number, side, size, seconds)
        if side == "embedded" and self._choice.worth_a_start(name, number, size, self._spark.session):
            self._spark.begin(
                f"stage {number} of group {name!r} took {seconds:.2g} s in this process, and may be faster on Spark"
            )

    def _note_failure(self, stage: Stage, side: Side, size: Size, error: Exception, seconds: float) -> None:
        """Record a failure after which the next attempt should run on the other engine.

        These are failures of Spark itself, and a lack of memory, even in a user's function. A cancelled attempt took
        at least `seconds`.
        """
        name, number = self._group.name, stage.number
        if isinstance(error, AttemptCancelledError):
            if self._choice.is_longer(name, number, side, size, seconds):
                self._note_time(stage, side, size, seconds)
        elif _lacks_memory(error) or (side == "spark" and not isinstance(error, UserFunctionError | SpoutError)):
            self._choice.failed(name, number, side)

    def _slot(self, side: Side, stage: Stage, both: bool, check: Callable[[], None]) -> Slot:
        """Return the slot of an engine.

        If Spark cannot create one, the next attempt runs in the driver, if `both` can run it.
        """
        if side == "embedded":
            assert self._embedded is not None
            return self._embedded
        try:
            if self._on_spark is None:
                self._on_spark = self._spark.get(check).slot(self._group)
        except Exception as error:
            if both and not isinstance(error, AttemptCancelledError):
                self._choice.failed(self._group.name, stage.number, side)
            raise
        return self._on_spark

    def cancel(self) -> None:
        """Stop the attempt in this slot, even if it waits for Spark."""
        self._cancelled.set()
        with self._lock:
            running = self._running
        if running is not None:
            running.cancel()

    def close(self) -> None:
        """Close both slots."""
        for slot in (self._embedded, self._on_spark):
            if slot is not None:
                slot.close()


def size_of(inputs: Mapping[Node, Emission | pa.Table]) -> Size:
    """Return the total size of a stage's inputs."""
    return Size.together(
        [
            Size(given.num_rows, given.nbytes) if isinstance(given, pa.Table) else Size(given.most_rows, given.bytes)
            for given in inputs.values()
        ]
    )


def _lacks_memory(error: BaseException | None) -> bool:
    """Return whether the engine, or a user's function, ran out of memory."""
    return error is not None and (isinstance(error, MemoryError) or _lacks_memory(error.__cause__))


class _LaterFrames:
    """The maker of DataFrames of an engine that may not be running yet."""

    def __init__(self, spark: DeferredSpark) -> None:
        self._spark = spark
        self._made: Frames | None = None

    def frame(self, result: Result, schema: StructType, scratch: Path) -> "DataFrame":
        return self._frames().frame(result, schema, scratch)

    def write_parquet(self, frozen: FrozenFiles, target: Target, partitions: Sequence[str]) -> list[Part] | None:
        """Write Parquet files with the workers if Spark is running; otherwise return None: the driver writes them."""
        up = self._made is not None or self._spark.engine is not None
        return self._frames().write_parquet(frozen, target, partitions) if up else None

    def _frames(self) -> Frames:
        if self._made is None:
            frames = self._spark.get().frames
            assert frames is not None, "Spark makes DataFrames"
            self._made = frames()
        return self._made

    def cancel(self) -> None:
        if self._made is not None:
            self._made.cancel()

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


class _LaterPuts:
    """The puts by workers of an engine that may not be running yet. A state that only executors write starts it."""

    def __init__(self, spark: DeferredSpark) -> None:
        self._spark = spark

    @property
    def ready(self) -> bool:
        return self._spark.engine is not None

    def put(self, frozen: FrozenFiles, batch: SharedBatch) -> list[Put]:
        return _puts_of(self._spark.get()).put(frozen, batch)

    def update(self, job: KeyedJob) -> KeyedResult:
        return _puts_of(self._spark.get()).update(job)

    def latest(self, times: LatestTimes) -> pa.Table:
        return _puts_of(self._spark.get()).latest(times)

    def cancel(self, job: KeyedJob | LatestTimes) -> None:
        engine = self._spark.engine
        if engine is not None:
            _puts_of(engine).cancel(job)

    def sees_files(self, needed: bool = False) -> bool:
        return _puts_of(self._spark.get()).sees_files(needed)

    def miss_files(self) -> None:
        _puts_of(self._spark.get()).miss_files()

    def check_reached(self, shared: SharedBatch | SharedSnapshot) -> None:
        _puts_of(self._spark.get()).check_reached(shared)


def _puts_of(engine: Engine) -> Puts:
    assert engine.puts is not None, "the run has a folder for frozen files"
    return engine.puts
