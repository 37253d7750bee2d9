"""The driver-side engine: stages over Arrow tables in this process. It answers tests; batches of a run go to Spark."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, SpoutContractError
from trident.base.types import arrow_schema
from trident.compiler.columns import Columns
from trident.compiler.engine import StageResult
from trident.compiler.evaluate import Evaluation, Run
from trident.compiler.layout import end_of
from trident.compiler.program import Group, Stage
from trident.plan.nodes import Node, PersistentAggregate
from trident_spouts.executor import Emission


class ArrowEngine:
    """Runs the Python form of a plan, batch by batch, in the calling thread. No JVM."""

    def slot(self, group: Group) -> "ArrowSlot":
        """A new slot for batches of this group."""
        return ArrowSlot({stage.number: _compiled(stage) for stage in group.stages})

    def close(self) -> None:
        """Nothing is held."""


StageFunction = Callable[[Mapping[int, Columns], Callable[[], None], int], StageResult]


class ArrowSlot:
    """One batch at a time."""

    def __init__(self, stages: Mapping[int, StageFunction]) -> None:
        self._stages = stages
        self._cancelled = threading.Event()

    def run(
        self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt, scratch: Path
    ) -> StageResult:
        """Run `stage` over these inputs; see ``Slot.run``."""
        self._cancelled.clear()
        read = {id(node): columns_of(node, given) for node, given in inputs.items()}

        def check() -> None:
            if self._cancelled.is_set():
                raise AttemptCancelledError(f"attempt {attempt} was cancelled")

        return self._stages[stage.number](read, check, attempt.txid)

    def cancel(self) -> None:
        """Stop after the operation that is running."""
        self._cancelled.set()

    def close(self) -> None:
        """Nothing is held."""


def columns_of(node: Node, given: Emission | pa.Table) -> Columns:
    """What enters a stage at this node."""
    table = given if isinstance(given, pa.Table) else given.arrow()
    schema = arrow_schema(node.schema)
    if table.num_columns != len(schema):
        names = ", ".join(table.column_names)
        raise SpoutContractError(
            f"{node.step}: the tuples have the fields ({names}), declared are ({', '.join(schema.names)})"
        )
    return Columns.of(table, schema)


def _compiled(stage: Stage) -> StageFunction:
    """A stage as one function."""
    ends: dict[Node, list[str]] = {}
    for output in stage.outputs:
        entering = end_of(output.step)
        names = [] if isinstance(output.step, PersistentAggregate) else output.schema.names
        ends[entering] = list(dict.fromkeys([*ends.get(entering, ()), *names]))
    for debug in stage.debugs:
        ends.setdefault(debug, [])
    for effect in stage.effects:
        ends.setdefault(effect, [])
    evaluation = Evaluation(ends, stage.inputs)

    def run(read: Mapping[int, Columns], check: Callable[[], None], txid: int) -> StageResult:
        work = Run(read, check=check, txid=txid)
        found = evaluation.run(work)
        results = {}
        for output in stage.outputs:
            results[output.name] = found[id(end_of(output.step))].table(output.schema)
        return StageResult(results, sum(columns.rows for columns in read.values()), work.debug)

    return run
