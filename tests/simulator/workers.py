"""Spark's executors: each try of a task is a process of its own, which may be late, doubled, killed, or not heard.

A driver waits for a job. Its tries do not wait for the driver: they go on while it sleeps, after its death, and when
the job is over. So a put may come after its batch was decided, beside the next one, or from a driver that was taken
over.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.simulator.scheduler import Crashed, Process, Scheduler, Wrong
from trident.base.errors import AttemptCancelledError, SparkFailedError, TridentError
from trident.base.spark_types import arrow_schema
from trident.compiler.columns.function_errors import decoded, encoded
from trident.compiler.frozen_parts import AskPart, Part
from trident.compiler.keyed_job import KeyedJob, KeyedResult
from trident.compiler.latest_times import LATEST, LatestTimes
from trident.compiler.spark.executor_reach import ReachedStores
from trident.compiler.spark.keyed_jobs import REPORT as KEYED_REPORT
from trident.compiler.spark.keyed_jobs import functions_of, result_of
from trident.compiler.spark.state_puts import REPORT, SparkPuts
from trident_spouts.shared_reading import SharesEmission

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

_MOST_FAILURES = 4
"""Of one task; then Spark gives the job up."""

TROUBLES = {
    "late": 3,  # it stands still before its first command; the job waits
    "overtaken": 5,  # it stands still, another try is faster, and it goes on later: Spark's speculation
    "doubled": 3,  # two tries at once, and both report
    "killed": 5,  # its executor dies, at any point; another try begins
    "unheard": 4,  # its executor dies when all is done; another try begins
    "fails": 2,  # it raises when all is done; another try begins
    "given up": 4,  # the whole job fails, and what runs of it goes on
}


class Troubles:
    """What happens to tasks, by draws of its own: a schedule without executors is drawn as if there were none."""

    def __init__(self, world: "World") -> None:
        self.dice = Random(f"{world.result.seed}/tasks")
        self._world = world
        self._left = self.dice.choice((0, 2, 4, 8, 12))
        self._often = self.dice.choice((0.2, 0.8))

    def stop(self) -> None:
        """No more of them."""
        self._left = 0

    def wake(self) -> None:
        """A job begins, or the server is back: what stood still may go on now, also where it is another driver's."""
        now = self._world.scheduler.now
        for driver in self._world.drivers:
            for process in driver.workers.at_work:
                if process.asleep_until > now and self.dice.random() < 0.4:
                    process.asleep_until = now + self.dice.choice((0.0, 0.001, 0.003))

    def of_task(self) -> str | None:
        """What happens to the try of a task that begins."""
        if not self._left or self.dice.random() >= self._often:
            return None
        self._left -= 1
        kind = self.dice.choices([*TROUBLES], [*TROUBLES.values()])[0]
        self._world.say("task %s", kind)
        self._world.result.faults[f"task {kind}"] += 1
        return kind


@dataclass
class Job:
    """Some tasks of which the driver awaits the reports."""

    work: Callable[[int], Any]
    tasks: int
    reports: dict[int, list[Any]] = field(default_factory=dict)
    failures: Counter[int] = field(default_factory=Counter)
    doubled: int = 0
    """Second tries that are awaited, too."""
    error: BaseException | None = None

    def over(self) -> bool:
        """Whether the driver need not wait any more."""
        return self.error is not None or (len(self.reports) == self.tasks and not self.doubled)


class Workers:
    """The executors of one driver."""

    def __init__(self, driver: "Driver") -> None:
        self._driver, self._world = driver, driver.world
        self._troubles = driver.world.troubles
        self._scheduler: Scheduler = driver.world.scheduler
        self.at_work: list[Process] = []
        self._begun = 0

    def run(self, tasks: int, work: Callable[[int], Any], cancelled: Callable[[], bool] = lambda: False) -> Job:
        """Return a job when every task has reported. Raises the error with which Spark gives it up."""
        job = Job(work, tasks)
        self._troubles.wake()
        for number in range(tasks):
            self._try(job, number, self._troubles.of_task())
        self._scheduler.wait(lambda: job.over() or cancelled())
        if job.error is not None:
            raise job.error
        if not job.over():
            raise AttemptCancelledError("the job was cancelled")
        return job

    def read(self, emission: SharesEmission, cancelled: Callable[[], bool]) -> pa.Table:
        """Return what the executors read, a task for each share; every answer to one question is the same."""

        def work(number: int) -> pa.Table:
            table = emission.table(number)
            self._same_answers(emission.read, emission.shares[number], table)
            return table

        job = self.run(len(emission.shares), work, cancelled)
        return pa.concat_tables(
            [arrow_schema(emission.schema).empty_table(), *(job.reports[n][-1] for n in sorted(job.reports))]
        )

    def _same_answers(self, read: Any, part: Part, table: pa.Table) -> None:
        if isinstance(read, AskPart):
            name = read.read.frozen.files[part.file].name
            asked = name, part.start, read.snapshot.asOf  # type: ignore[attr-defined]
            rows = table.to_pylist()
            if self._world.answers.setdefault(asked, rows) != rows:
                self._world.fail(Wrong(f"a query as of {asked} had {self._world.answers[asked]}, and now {rows}"))

    def leave(self) -> None:
        """The driver is gone: its executors end soon."""
        for process in [*self.at_work]:
            self._scheduler.after(self._troubles.dice.choice((0.0, 0.1, 1.0, 6.0)), partial(self._kill, process))

    # --- tries -------------------------------------------------------------------------------------------------------

    def _try(self, job: Job, number: int, trouble: str | None = None) -> None:
        """Begin a try of a task."""
        dice, scheduler = self._troubles.dice, self._scheduler
        self._begun += 1
        process = Process(f"{self._driver.name}'s task {self._begun}.{number}", self._driver)
        process.loops.append(lambda now: partial(self._begin, process, job, number, trouble))
        scheduler.processes.append(process)
        self.at_work.append(process)
        if trouble == "late":
            process.asleep_until = scheduler.now + dice.choice((0.05, 1.0))
        elif trouble == "overtaken":
            process.asleep_until = scheduler.now + dice.choice((0.005, 0.02, 0.1, 1.0, 5.0))
            self._try(job, number)
        elif trouble == "doubled":
            job.doubled += 1
            self._try(job, number, "double")
        elif trouble == "killed":
            scheduler.after(0.0003 * dice.randint(0, 12), partial(self._lost, process, job, number))
        elif trouble == "given up":
            error = SparkFailedError("Spark gave the job up")
            scheduler.after(dice.choice((0.0, 0.001, 0.003, 0.01)), partial(self._give_up, job, error))

    def _begin(self, process: Process, job: Job, number: int, trouble: str | None) -> None:
        process.loops.clear()
        self._scheduler.in_fiber(process, partial(self._work, process, job, number, trouble))

    def _work(self, process: Process, job: Job, number: int, trouble: str | None) -> None:
        report, error = None, None
        try:
            report = job.work(number)
        except Crashed:
            return
        except TridentError as raised:  # as it comes out of a worker
            error = decoded(str(encoded(raised))) or raised
        except BaseException as raised:
            self._world.fail(raised)
            return
        finally:
            self._ended(process)
        if trouble == "double":
            job.doubled -= 1
        if trouble == "unheard":
            self._again(job, number)
        elif error is not None or trouble == "fails":
            self._failed(job, number, error or SparkFailedError("this task failed when all was done"))
        else:
            job.reports.setdefault(number, []).append(report)

    def _failed(self, job: Job, number: int, error: BaseException) -> None:
        job.failures[number] += 1
        if job.failures[number] < _MOST_FAILURES:
            self._again(job, number)
        else:
            self._give_up(job, error)

    def _give_up(self, job: Job, error: BaseException) -> None:
        if not job.over():
            job.error = error

    def _lost(self, process: Process, job: Job, number: int) -> None:
        if process.alive:
            self._kill(process)
            self._scheduler.after(self._troubles.dice.choice((0.0, 0.05, 0.5)), partial(self._again, job, number))

    def _again(self, job: Job, number: int) -> None:
        if not job.over() and self._driver.process.alive and not self._driver.ended:
            self._try(job, number, self._troubles.of_task())

    def _kill(self, process: Process) -> None:
        if process.alive:
            self._ended(process)
            self._scheduler.reap(process)

    def _ended(self, process: Process) -> None:
        if process.alive:
            self._scheduler.kill(process)
            self.at_work.remove(process)


class SimulatedPuts(SparkPuts):
    """Puts by simulated workers: everything is `SparkPuts`', but for Spark."""

    def __init__(self, driver: "Driver") -> None:
        unused: Any = None
        super().__init__(unused, driver.world.settings.place, ReachedStores())
        self._workers = driver.workers
        self._part_rows = driver.world.setting.part_rows
        self._reached = driver.world.setting.sees_files

    def sees_files(self, needed: bool = False) -> bool:
        return self._reached

    def _over_numbers(self, tasks: int, function: Any) -> pa.Table:
        reports = self._reports(tasks, lambda number: function._run(iter([_numbered(number)])))
        return pa.Table.from_batches([batch for task in reports for report in task for batch in report], REPORT)

    def update(self, job: KeyedJob) -> KeyedResult:
        """As the real one, of two stages, with tasks of a few tuples; Spark takes one report of each task."""
        rows = job.tuples.rows or len(job.tuples.shares)
        cut, update = functions_of(job, max(1, -(-rows // self._part_rows)))
        parts = self._reports(job.parts, lambda number: cut._run(iter([_numbered(number)])))
        by_task: dict[int, list[pa.RecordBatch]] = {}
        for batch in (batch for reports in parts for batch in reports[-1]):
            by_task.setdefault(batch.column("task")[0].as_py(), []).append(batch)
        tasks = sorted(by_task)
        made = self._reports(len(tasks), lambda number: update._run(iter(by_task[tasks[number]])))
        return result_of(job, pa.Table.from_batches([batch for reports in made for batch in reports[-1]], KEYED_REPORT))

    def latest(self, times: LatestTimes) -> pa.Table:
        reports = self._reports(len(times.tuples.shares), lambda number: times._run(iter([_numbered(number)])))
        return times.table(pa.Table.from_batches([batch for task in reports for batch in task[-1]], LATEST))

    def cancel(self, job: KeyedJob | LatestTimes) -> None:
        """Let it run on: what it writes, nobody names."""

    def _reports(
        self, tasks: int, function: Callable[[int], Iterator[pa.RecordBatch]]
    ) -> list[list[list[pa.RecordBatch]]]:
        """Return for each task its reports, of which there may be several."""
        if self._closed:
            raise SparkFailedError("the run ends")
        job = self._workers.run(tasks, lambda number: list(function(number)))
        return [job.reports[number] for number in sorted(job.reports)]

    def close(self) -> None:
        super().close()
        self._workers.leave()


def _numbered(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], ["id"])
