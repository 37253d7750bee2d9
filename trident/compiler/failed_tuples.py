"""The tuples on which a user's function fails, where its step has an error policy (`onError`).

At first a batch runs as if no step had a policy: that is fast. If a function with a policy fails, the stage runs once
more and catches: where the function fails over many tuples, it is called again for each of them alone, and the tuples
on which it fails leave the stream. For a while after that, batches catch in their first run.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import TopologyError, UserFunctionError
from trident.base.types import arrow_schema
from trident.compiler.columns.dead_letters import Caught, LetterRecord, Letters
from trident.compiler.program import Output, Stage
from trident.compiler.results import StageResult
from trident.operations.error_policy import LETTER, DeadLetter, KeepLetters
from trident.plan.nodes import Each, Filter, LettersOf, Map, Node, PartitionPersist, Peek, SpoutSource, sources_of
from trident.spouts.dead_letters import ReplaySpout

_CATCHING_RUNS = 100
"""After this number of catching runs without a failed tuple, a stage runs without catching first again."""

# --- which steps catch --------------------------------------------------------------------------------------------


def catching_nodes(nodes: Collection[Node], stage: int, attempt: int) -> dict[int, Caught]:
    """Return the nodes (by id) that catch failed tuples in this attempt, each with what becomes of its failed tuples.

    A `DeadLetter` policy may ask that some attempts fail before one catches. A stage after the first is computed in the
    commit turn, where there are no attempts, so there a policy catches at once.
    """
    catching = {}
    for node in nodes:
        if isinstance(node, Each | Filter | Map | Peek) and node.onError is not None:
            dead = isinstance(node.onError, DeadLetter)
            if dead and stage == 1 and attempt < node.onError.attempts:  # type: ignore[union-attr]
                continue
            (source,) = sources_of(node)
            catching[id(node)] = Caught(dead, arrow_schema(source.schema))
    return catching


RunPlain = Callable[[], StageResult]
RunCatching = Callable[[Mapping[int, Caught], Letters], StageResult]


class Catcher:
    """What runs the stages of one slot, and lets nodes with an error policy catch failed tuples where it must.

    `nodes` gives the nodes of each stage, by the stage's number.
    """

    def __init__(self, nodes: Mapping[int, Sequence[Node]]) -> None:
        self._nodes = {
            number: [node for node in stage_nodes if getattr(node, "onError", None) is not None]
            for number, stage_nodes in nodes.items()
        }
        self._catching_runs = 0
        """The number of coming runs that catch without a plain run before."""

    def run(self, stage: Stage, attempt: TransactionAttempt, plain: RunPlain, catch: RunCatching) -> StageResult:
        """Run a stage for an attempt: by `plain`, by `catch`, or by `catch` after `plain` failed."""
        nodes = self._nodes.get(stage.number, [])
        catching = catching_nodes(nodes, stage.number, attempt.attempt) if nodes else {}
        if not catching:
            return plain()
        if not self._catching_runs:
            try:
                return plain()
            except UserFunctionError as error:
                if error.hopeless or not any(str(error).startswith(f"{n.step}: ") for n in nodes if id(n) in catching):
                    raise
            self._catching_runs = _CATCHING_RUNS
        letters = Letters()
        result = catch(catching, letters)
        self._catching_runs = _CATCHING_RUNS if letters.dead or letters.skipped else self._catching_runs - 1
        return _with_letters(result, letters, stage, attempt, [node for node in nodes if id(node) in catching])


def _with_letters(
    result: StageResult, letters: Letters, stage: Stage, attempt: TransactionAttempt, nodes: Sequence[Node]
) -> StageResult:
    """Return the result with the counts of skipped tuples, and a table for each output that has dead letters."""
    by_step: dict[str, list[LetterRecord]] = {}
    # Sorted, so that the ids do not depend on the order in which partitions report.
    for number, letter in enumerate(sorted(letters.dead, key=lambda letter: (letter["step"], letter["tuple"]))):
        letter["id"] = f"{attempt.txid:012d}.{stage.number}.{number:05d}"
        by_step.setdefault(letter["step"], []).append(letter)
    for node in nodes:
        _check_number(node, by_step.get(node.step, []))
    tables = {
        output.name: letter_table(output, by_step[output.step.source.step], attempt)
        for output in stage.updates
        if isinstance(output.step, LettersOf) and output.step.source.step in by_step
    }
    return replace(result, results={**result.results, **tables}, skipped=letters.skipped)


def _check_number(node: Node, dead: Sequence[LetterRecord]) -> None:
    """Raise UserFunctionError if a step made more dead letters in this batch than its policy takes."""
    policy = getattr(node, "onError", None)
    if isinstance(policy, DeadLetter) and len(dead) > policy.most:
        first = dead[0]
        raise UserFunctionError(
            f"{node.step}: {first['function']} failed on {len(dead)} tuples of one batch, more than "
            f"DeadLetter(most={policy.most}) takes: first with {first['error']}: {first['message']}; "
            f"the tuple was {first['tuple']:.200}"
        )


def letter_table(output: Output, dead: Sequence[LetterRecord], attempt: TransactionAttempt) -> pa.Table:
    """Return the dead letters of one step as a table."""
    step = dead[0]["step"]
    origin = {"stream": step.rpartition("/")[0], "txid": attempt.txid, "attempt": attempt.attempt}
    rows = [{**letter, **origin} for letter in dead]
    columns = [pa.array([row[name] for row in rows], output.schema.field(name).type) for name in LETTER.names]
    return pa.Table.from_arrays(columns, schema=output.schema)


def check_read(nodes: Collection[Node], maxAttempts: int) -> None:
    """Check that the dead letters of each step can come about and that a stream reads them.

    Raises TopologyError if no stream reads a step's dead letters, if its policy makes them after more attempts than
    `maxAttempts` allows, or if a spout replays dead letters and no state keeps any.
    """
    kept = any(isinstance(node, PartitionPersist) and isinstance(_updater(node), KeepLetters) for node in nodes)
    for node in nodes:
        if isinstance(node, SpoutSource) and isinstance(node.spout, ReplaySpout) and not kept:
            raise TopologyError(
                f"dead letters come back at {node.site.location} (replayable), but none are kept: keep them with "
                "topology.deadLetterState(stateFactory), behind the last step that makes some"
            )
    read = {id(node.source) for node in nodes if isinstance(node, LettersOf)}
    for node in nodes:
        policy = getattr(node, "onError", None)
        if not isinstance(policy, DeadLetter):
            continue
        if id(node) not in read:
            raise TopologyError(
                f"{node.step} ({node.site.location}) makes dead letters, and no stream reads them: keep them with "
                "topology.deadLetterState(stateFactory), or go on with topology.deadLetters(), behind the last step "
                "that makes some"
            )
        if policy.attempts >= maxAttempts:
            raise TopologyError(
                f"{node.step} ({node.site.location}) makes dead letters after {policy.attempts} attempts, and "
                f"maxAttempts={maxAttempts} ends the batch earlier: give fewer attempts=, or more maxAttempts="
            )


def _updater(node: PartitionPersist) -> object:
    """Return the updater object whose method updates the state; None where a plain function does."""
    return getattr(getattr(node.updating, "call", None), "__self__", None)
