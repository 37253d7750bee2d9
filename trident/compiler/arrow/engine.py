"""The embedded engine: stages over Arrow tables in the driver's process."""

import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError
from trident.base.spark_types import arrow_schema
from trident.compiler.arrow.evaluation import Evaluation, Run, compile_request
from trident.compiler.columns.columns import Columns
from trident.compiler.columns.dead_letters import Caught, Letters
from trident.compiler.engine import Answer, Engine, check_fields
from trident.compiler.failed_tuples import Catcher
from trident.compiler.program import Group, RequestPlan, Stage
from trident.compiler.stage_layout import end_of, stage_ends
from trident.compiler.tracking.ledger import Ledger
from trident.compiler.tracking.steps import StepLedger
from trident.frozen.results import StageResult
from trident.plan.nodes import Node, walk
from trident.plan.topology_protocol import EngineName
from trident_spouts.executor import Emission


class ArrowEngine(Engine):
    """An engine that runs the Python form of a plan, batch by batch, in the calling thread and without a JVM."""

    name: EngineName = "embedded"

    def __init__(self, ledger: bool = False) -> None:
        self._secret = secrets.token_bytes(16) if ledger else None

    def slot(self, group: Group) -> "ArrowSlot":
        """Return a new slot, which runs the attempts of this group's batches, one at a time."""
        return ArrowSlot(group, self._secret)

    def compile_request(self, plan: RequestPlan) -> Answer:
        """Compile a DRPC function; see `Engine.compile_request`."""
        return compile_request(plan)

    def close(self) -> None:
        """Do nothing: the engine holds no resources."""


StageFunction = Callable[[Run], StageResult]


class ArrowSlot:
    """A slot for one batch at a time. `secret`: the key of the batches' ledgers; None if the run keeps no ledgers."""

    def __init__(self, group: Group, secret: bytes | None = None) -> None:
        self._secret = secret
        nothing = frozenset[int]()
        self._group = group
        self._stages = {(stage.number, nothing): _compiled(stage, group) for stage in group.stages}
        nodes = {s.number: walk(*_ends(s), starts=set(map(id, s.inputs))) for s in group.stages}
        self._catcher = Catcher(nodes, group)
        self._cancelled = threading.Event()

    def run(
        self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt, scratch: Path
    ) -> StageResult:
        """Run `stage` over these inputs; see ``Slot.run``."""
        self._cancelled.clear()
        read = {id(node): columns_of(node, emission) for node, emission in inputs.items()}
        ledger = (
            None if self._secret is None else StepLedger(Ledger(self._secret, f"{attempt} of stage {stage.number}"))
        )
        if ledger is not None:
            for node, emission in inputs.items():
                given = emission.num_rows if isinstance(emission, pa.Table) else emission.rows
                ledger.entered(node.step, given, read[id(node)].rows)

        def check() -> None:
            if self._cancelled.is_set():
                raise AttemptCancelledError(f"attempt {attempt} was cancelled")

        def run(caught: Mapping[int, Caught], letters: Letters) -> StageResult:
            key = stage.number, frozenset(caught)
            if key not in self._stages:
                self._stages[key] = _compiled(stage, self._group, caught)
            return self._stages[key](Run(read, check=check, txid=attempt.txid, letters=letters, ledger=ledger))

        result = self._catcher.run(stage, attempt, run)
        if ledger is not None:
            ledger.check()
        return result

    def cancel(self) -> None:
        """Stop the batch as soon as the running operation ends."""
        self._cancelled.set()

    def close(self) -> None:
        """Do nothing: the slot holds no resources."""


def columns_of(node: Node, emission: Emission | pa.Table) -> Columns:
    """Return the tuples that enter a stage at this node."""
    table = emission if isinstance(emission, pa.Table) else emission.arrow()
    return Columns.of(table.select(check_fields(node, table.column_names)), arrow_schema(node.schema))


def _compiled(stage: Stage, group: Group, caught: Mapping[int, Caught] = MappingProxyType({})) -> StageFunction:
    """Return the function that runs a stage. `caught` holds, by id, the nodes that leave failed tuples out."""
    evaluation = Evaluation(_ends(stage), stage.inputs, caught=caught, hints=group.hints, facts=group.facts)

    def run(work: Run) -> StageResult:
        columns_by_node = evaluation.run(work)
        results = {}
        for output in stage.outputs:
            columns = columns_by_node[id(end_of(output.step))]
            results[output.name] = columns.table(output.schema)
            if work.ledger is not None:
                work.ledger.moved(f"{output.step.step} to the driver", columns.rows, results[output.name].num_rows)
        rows = sum(columns.rows for columns in work.inputs.values())
        return StageResult(results, rows, work.shown, steps=tuple(work.steps))

    return run


def _ends(stage: Stage) -> dict[Node, list[str]]:
    """Return the end nodes of a stage, each with its needed fields: those of `stage_ends`, and the Debug steps."""
    ends = stage_ends(stage)
    for debug in stage.debugs:
        ends.setdefault(debug, [])
    return ends
