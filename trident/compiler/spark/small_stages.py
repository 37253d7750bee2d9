"""Small stages without user code of a run on Spark: the driver's process computes them.

A Spark job takes tens of milliseconds however few tuples it has. A stage without user code gives the same tuples in the
driver within one or two. Decision 90 has the reasons.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import TridentError
from trident.compiler.arrow.engine import ArrowSlot
from trident.compiler.carrier_choice import CarrierPlan
from trident.compiler.columns.kernels import in_sql
from trident.compiler.engine import Slot
from trident.compiler.program import Group, Stage
from trident.frozen.results import StageResult
from trident.operations.aggregates.registry import builtin_classes
from trident.operations.aggregators import AnyAggregation
from trident.operations.filtered_aggregators import CountWhere, Filtered
from trident.plan.nodes import Aggregate, Node, PersistentAggregate, Pick, WindowPanes
from trident.plan.traits import PYTHON, has_python_form, traits_of
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission

logger = logging.getLogger(__name__)

BYTES = 4 << 20
"""The most bytes of a stage's input that the driver's process takes from Spark."""

RESULT_BYTES = 32 << 20
"""A stage that once had a larger result than this, such as a join with many pairs, runs on Spark from then on."""


def stages_without_user_code(group: Group) -> tuple[Stage, ...]:
    """Return the stages of which no step calls code of the user, needs Spark, or writes files by the executors."""
    carriers = CarrierPlan(group)
    return tuple(stage for stage in group.stages if not carriers.in_files(stage) and _is_without_user_code(stage))


def _is_without_user_code(stage: Stage) -> bool:
    steps = [node for node in stage.nodes if node not in stage.inputs]
    return all(has_python_form(node) and _is_of_the_library(node) for node in steps)


def _is_of_the_library(node: Node) -> bool:
    """Return whether a step calls no code of the user, and gives the same tuples in any partitions."""
    match node:
        case Aggregate() | PersistentAggregate() if getattr(node, "scope", "batch") == "batch":
            return all(_is_builtin(member.how) for member in node.members)
        case WindowPanes():
            return node.windowing.aggregation is not None and _is_builtin(node.windowing.aggregation)
        case Pick():
            return node.scope == "batch" and getattr(node.picking, "comparator", None) is None
    return in_sql(node) or traits_of(node).runner(node) != PYTHON


def _is_builtin(how: AnyAggregation) -> bool:
    aggregator = how.aggregator.inner if isinstance(how.aggregator, Filtered) else how.aggregator
    return type(aggregator) in (*builtin_classes(), CountWhere)


class SmallStagesSlot:
    """A slot on Spark that has the driver compute its small stages without user code.

    Such a stage is small if its input is in the driver's memory, with at most `rows` tuples and 4 MB.
    """

    def __init__(
        self, group: Group, stages: tuple[Stage, ...], rows: int, on_spark: Slot, secret: bytes | None
    ) -> None:
        self._rows, self._on_spark = rows, on_spark
        self._here = ArrowSlot(replace(group, stages=stages), secret)
        self._stages = {stage.number for stage in stages}
        self._lock = threading.Lock()
        self._running: Slot = on_spark

    def run(
        self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt, scratch: Path
    ) -> StageResult:
        """Run `stage` over these inputs; see ``Slot.run``."""
        if stage.number in self._stages and self._are_small(inputs):
            try:
                result = self._run(self._here, stage, inputs, attempt, scratch)
            except TridentError:
                raise
            except Exception as error:
                # Such as a lack of memory for a join with many pairs: Spark may still compute this stage.
                logger.warning("stage %d failed in the driver, and runs on Spark from now on: %r", stage.number, error)
                self._stages.discard(stage.number)
            else:
                if any(isinstance(each, pa.Table) and each.nbytes > RESULT_BYTES for each in result.results.values()):
                    self._stages.discard(stage.number)
                return replace(result, engine="embedded")
        return replace(self._run(self._on_spark, stage, inputs, attempt, scratch), engine="spark")

    def _run(
        self,
        slot: Slot,
        stage: Stage,
        inputs: Mapping[Node, Emission | pa.Table],
        attempt: TransactionAttempt,
        scratch: Path,
    ) -> StageResult:
        with self._lock:
            self._running = slot
        return slot.run(stage, inputs, attempt, scratch)

    def _are_small(self, inputs: Mapping[Node, Emission | pa.Table]) -> bool:
        given = [each.table if isinstance(each, ArrowEmission) else each for each in inputs.values()]
        tables = [each for each in given if isinstance(each, pa.Table)]
        small = sum(table.num_rows for table in tables) <= self._rows and sum(table.nbytes for table in tables) <= BYTES
        return small and len(tables) == len(given)

    def cancel(self) -> None:
        """Stop the attempt that is running in this slot."""
        with self._lock:
            running = self._running
        running.cancel()

    def close(self) -> None:
        """Close both slots."""
        self._here.close()
        self._on_spark.close()
