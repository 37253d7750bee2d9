"""The work of each step of a stage that Spark has run, from the reports of the workers.

Only workers measure: Spark runs its own operations as one, so these have no time. The number of their tuples is known
if the steps around them report it, because all tuples that leave a step enter each step that reads it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add

from pyspark.sql import SparkSession

from trident.compiler.columns.kernels import in_sql, work_of
from trident.compiler.spark.step_meter import Measure, StepMeter, TaskReport
from trident.compiler.spark.worker_messages import accumulator_for
from trident.compiler.stage_layout import StageLayout
from trident.frozen.results import StepWork
from trident.plan.nodes import Each, Map, Merge, Node, PartitionOf, Project, sources_of
from trident.plan.partitions import moves


class StepReports:
    """The reports that the tasks of one slot have sent since the last call of `begin`."""

    def __init__(self, session: SparkSession) -> None:
        self._reports: dict[tuple[tuple[str, ...], int], TaskReport] = {}
        accumulator = accumulator_for(session, self._hear)
        self.meter = None if accumulator is None else StepMeter(accumulator)
        """The meter for the functions of the slot's jobs; None in Connect mode."""

    def _hear(self, report: TaskReport) -> None:
        # Spark computes a partition again if its rows were lost. The last report stands for the partition.
        self._reports[tuple(measure.step for measure in report.measures), report.partition] = report

    def begin(self) -> None:
        """Forget the reports of earlier jobs."""
        self._reports = {}

    def works(self, layout: StageLayout, counted: Mapping[int, int]) -> tuple[StepWork, ...]:
        """Return the work of each step of which something is known.

        `counted` are the numbers of tuples that leave nodes, by the nodes' ids, as far as the driver knows them.
        """
        measures = _measures(self._reports.values())
        nodes = [node for node in layout.nodes if id(node) not in layout.inputs]
        own = {id(node): measure for node in nodes if (measure := _next(measures[node.step])) is not None}
        rows = {**counted, **{node: measure.left for node, measure in own.items() if measure.left is not None}}
        for node in nodes:
            if (measure := own.get(id(node))) is not None and measure.entered is not None:
                rows.setdefault(id(sources_of(node)[0]), measure.entered)
        _spread(nodes, rows)
        works = (_work(node, own.get(id(node)), rows) for node in nodes)
        return tuple(work for work in works if (work.entered, work.left, work.seconds) != (None, None, None))


def _measures(reports: Iterable[TaskReport]) -> dict[str, list[Measure]]:
    """Return the measures by step, in the order of their works: each the sum over the tasks of one function."""
    by_function: dict[tuple[str, ...], list[Measure]] = {}
    for report in reports:
        steps = tuple(measure.step for measure in report.measures)
        before = by_function.get(steps)
        own = list(report.measures)
        by_function[steps] = own if before is None else [a + b for a, b in zip(before, own, strict=True)]
    by_step = defaultdict(list)
    for measures in by_function.values():
        for measure in measures:
            by_step[measure.step].append(measure)
    return by_step


def _next(measures: list[Measure]) -> Measure | None:
    """Remove the measure of a step's next node from `measures`, and return it; None if there is none.

    Several functions may work for one node, such as the fold of an aggregate and its merge, which are only timed.
    """
    timed = [measure for measure in measures if measure.entered is None]
    if timed:
        measures.clear()
        return reduce(add, timed)
    return measures.pop(0) if measures else None


def _keeps_number(node: Node) -> bool:
    """Return whether a node that Spark runs outputs as many tuples as enter it."""
    return moves(node) or isinstance(node, Project | PartitionOf) or (isinstance(node, Each | Map) and in_sql(node))


def _spread(nodes: list[Node], rows: dict[int, int]) -> None:
    """Add the numbers of tuples that follow from the known ones."""
    for node in nodes:
        sources = [rows.get(id(source)) for source in sources_of(node)]
        # Spark calls no function for a partition without tuples.
        same = _keeps_number(node) or isinstance(node, Merge) or (sources == [0] and work_of(node) is not None)
        if same and None not in sources:
            rows.setdefault(id(node), sum(filter(None, sources)))
    for node in reversed(nodes):
        if id(node) in rows and _keeps_number(node):
            rows.setdefault(id(sources_of(node)[0]), rows[id(node)])


def _work(node: Node, measure: Measure | None, rows: Mapping[int, int]) -> StepWork:
    entered = [rows.get(id(source)) for source in sources_of(node)]
    total = None if None in entered else sum(filter(None, entered))
    seconds, notes = (None, None) if measure is None else (measure.seconds, measure.notes)
    return StepWork(node.step, total, rows.get(id(node)), seconds, notes)
