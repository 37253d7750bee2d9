"""Tuples on which a user's function fails, where the step says what becomes of them.

A batch runs as if there were no policy. Only where a function with a policy has failed, the attempt runs once more, now
catching: each such function is called for one tuple after the other where it fails for many, and what it fails on
leaves the stream. The next batches are run so at once, for a while.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import TopologyError, UserFunctionError
from trident.base.types import arrow_schema
from trident.compiler.columns.dead_letters import Caught, Letters, Told
from trident.compiler.engine import StageResult
from trident.compiler.program import Output, Stage
from trident.operations.error_policy import LETTER, DeadLetter, KeepLetters
from trident.plan.nodes import Each, Filter, LettersOf, Map, Node, PartitionPersist, Peek, SpoutSource, sources_of
from trident.spouts.dead_letters import ReplaySpout

REMEMBERED = 100
"""So many batches without a failure are run catching before one is run without again."""

# --- which steps catch --------------------------------------------------------------------------------------------


def catching_nodes(nodes: Collection[Node], stage: int, attempt: int) -> dict[int, Caught]:
    """What is caught of these nodes (by id) in an attempt. A later stage is computed in the commit turn, where there
    are no attempts: it catches at once."""
    found = {}
    for node in nodes:
        if isinstance(node, Each | Filter | Map | Peek) and node.onError is not None:
            dead = isinstance(node.onError, DeadLetter)
            if dead and stage == 1 and attempt < node.onError.attempts:  # type: ignore[union-attr]
                continue
            (source,) = sources_of(node)
            found[id(node)] = Caught(dead, arrow_schema(source.schema))
    return found


RunPlain = Callable[[], StageResult]
RunCatching = Callable[[Mapping[int, Caught], Letters], StageResult]


class Catcher:
    """Runs the stages of one slot, catching where it must. `nodes` are those that each stage runs, by its number."""

    def __init__(self, nodes: Mapping[int, Sequence[Node]]) -> None:
        self._nodes = {
            number: [node for node in those if getattr(node, "onError", None) is not None]
            for number, those in nodes.items()
        }
        self._left = 0

    def run(self, stage: Stage, attempt: TransactionAttempt, plain: RunPlain, catch: RunCatching) -> StageResult:
        """What an attempt's stage comes to."""
        nodes = self._nodes.get(stage.number, [])
        may = catching_nodes(nodes, stage.number, attempt.attempt) if nodes else {}
        if not may:
            return plain()
        if not self._left:
            try:
                return plain()
            except UserFunctionError as error:
                if error.hopeless or not any(str(error).startswith(f"{n.step}: ") for n in nodes if id(n) in may):
                    raise
            self._left = REMEMBERED
        letters = Letters()
        result = catch(may, letters)
        self._left = REMEMBERED if letters.dead or letters.skipped else self._left - 1
        return _told(result, letters, stage, attempt, [node for node in nodes if id(node) in may])


def _told(
    result: StageResult, letters: Letters, stage: Stage, attempt: TransactionAttempt, nodes: Sequence[Node]
) -> StageResult:
    """The result with the tables of dead letters, of those outputs that have any."""
    by_step: dict[str, list[Told]] = {}
    for number, told in enumerate(sorted(letters.dead, key=lambda told: (told["step"], told["tuple"]))):
        told["id"] = f"{attempt.txid:012d}.{stage.number}.{number:05d}"
        by_step.setdefault(told["step"], []).append(told)
    for node in nodes:
        _check_few(node, by_step.get(node.step, []))
    tables = {
        output.name: letter_table(output, by_step[output.step.source.step], attempt)
        for output in stage.updates
        if isinstance(output.step, LettersOf) and output.step.source.step in by_step
    }
    return replace(result, results={**result.results, **tables}, skipped=letters.skipped)


def _check_few(node: Node, dead: Sequence[Told]) -> None:
    policy = getattr(node, "onError", None)
    if isinstance(policy, DeadLetter) and len(dead) > policy.most:
        first = dead[0]
        raise UserFunctionError(
            f"{node.step}: {first['function']} failed on {len(dead)} tuples of one batch, more than "
            f"DeadLetter(most={policy.most}) takes: first with {first['error']}: {first['message']}; "
            f"the tuple was {first['tuple']:.200}"
        )


def letter_table(output: Output, dead: Sequence[Told], attempt: TransactionAttempt) -> pa.Table:
    """Dead letters of one step as a table."""
    step = dead[0]["step"]
    more = {"stream": step.rpartition("/")[0], "txid": attempt.txid, "attempt": attempt.attempt}
    rows = [{**told, **more} for told in dead]
    columns = [pa.array([row[name] for row in rows], output.schema.field(name).type) for name in LETTER.names]
    return pa.Table.from_arrays(columns, schema=output.schema)


def check_read(nodes: Collection[Node], maxAttempts: int) -> None:
    """Refuse dead letters that nobody reads, and those that come too late. Raises TopologyError."""
    kept = any(isinstance(node, PartitionPersist) and isinstance(_keeper(node), KeepLetters) for node in nodes)
    for node in nodes:
        if isinstance(node, SpoutSource) and isinstance(node.spout, ReplaySpout) and not kept:
            raise TopologyError(
                f"dead letters are to come back at {node.site.location} (replayable), and none are kept: keep them "
                "with topology.deadLetterState(stateFactory), behind the last step that makes some"
            )
    read = {id(node.source) for node in nodes if isinstance(node, LettersOf)}
    for node in nodes:
        policy = getattr(node, "onError", None)
        if not isinstance(policy, DeadLetter):
            continue
        if id(node) not in read:
            raise TopologyError(
                f"{node.step} ({node.site.location}) makes dead letters, and nobody reads them: keep them with "
                "topology.deadLetterState(stateFactory), or go on with topology.deadLetters(), behind the last step "
                "that makes some"
            )
        if policy.attempts >= maxAttempts:
            raise TopologyError(
                f"{node.step} ({node.site.location}) makes dead letters after {policy.attempts} attempts, and "
                f"maxAttempts={maxAttempts} ends the batch before: give fewer attempts=, or more maxAttempts="
            )


def _keeper(node: PartitionPersist) -> object:
    """The object whose method updates a state."""
    return getattr(node.updating.call, "__self__", None)
