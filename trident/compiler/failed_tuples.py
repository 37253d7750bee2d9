"""The tuples on which a user's function fails, in steps with an error policy (`onError`).

Such a tuple is taken out of the stream at the step that fails, usually in the first run of the batch. On Spark some
steps cannot separate it from the others without a cost for batches without failures, too (decision 14). These steps
fail first. Then the stage runs once more with steps that can, and so do the next batches.
"""

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import TopologyError, UserFunctionError
from trident.base.spark_types import arrow_schema
from trident.compiler.columns.dead_letters import Caught, LetterRecord, Letters
from trident.compiler.columns.kernels import work_of
from trident.compiler.letter_marks import Mark, Marks, marked_id
from trident.compiler.program import Group, Output, Stage
from trident.frozen.results import StageResult
from trident.operations.dead_letters import LETTER, KeepLetters
from trident.operations.error_policy import DeadLetter, OnError
from trident.plan.dead_letters import updater_of
from trident.plan.nodes import LettersOf, Node, Project, SpoutSource, sources_of
from trident.spouts.dead_letters import ReplaySpout

_THOROUGH_RUNS = 100
"""The number of thorough runs without a failed tuple after which a stage runs normally again."""

# --- which steps catch --------------------------------------------------------------------------------------------


def policy_of(node: Node, skips: bool) -> OnError | None:
    """Return the policy for tuples on which a node's function fails; None means that the batch fails.

    If `skips` is true, a node without a policy skips them, provided that Python calls its function for each tuple.
    """
    own: OnError | None = getattr(node, "onError", None)
    if own is None and skips:
        work = work_of(node)
        return None if work is None or work.operation is None else "skip"
    return own


def catching_nodes(policies: Mapping[Node, OnError], stage: int, attempt: int) -> dict[int, Caught]:
    """Return the nodes (by id) that catch failed tuples in this attempt, each with the treatment of these tuples.

    A `DeadLetter` policy may require that some attempts fail before one catches. A stage after the first is computed in
    the commit turn, which has no attempts, so there a policy catches at once.
    """
    catching = {}
    for node, policy in policies.items():
        if isinstance(policy, DeadLetter) and stage == 1 and attempt < policy.attempts:
            continue
        (source,) = sources_of(node)
        catching[id(node)] = Caught(isinstance(policy, DeadLetter), arrow_schema(source.schema))
    return catching


RunCatching = Callable[[Mapping[int, Caught], Letters], StageResult]
"""A function that runs a stage in which these nodes catch. The tuples on which they fail are added to the letters."""


class Catcher:
    """The runner of the stages of one slot. It lets nodes with an error policy catch failed tuples.

    `nodes` gives the nodes of each stage of the `group`, by the stage's number.
    """

    def __init__(self, nodes: Mapping[int, Sequence[Node]], group: Group) -> None:
        policies = {number: {node: policy_of(node, group.skips) for node in own} for number, own in nodes.items()}
        self._policies = {
            number: {node: policy for node, policy in own.items() if policy is not None}
            for number, own in policies.items()
        }
        self._marks = Marks.of([group]).of_steps
        self._thorough_runs = 0
        """The number of coming runs that are thorough from the beginning."""

    def run(
        self, stage: Stage, attempt: TransactionAttempt, run: RunCatching, run_thoroughly: RunCatching | None = None
    ) -> StageResult:
        """Run a stage for an attempt.

        In `run`, nodes that could catch failed tuples only at a cost may fail instead. If one of them fails,
        `run_thoroughly` runs the stage once more, in which all of them catch.
        """
        policies = self._policies.get(stage.number, {})
        catching = catching_nodes(policies, stage.number, attempt.attempt)
        nodes = [node for node in policies if id(node) in catching]
        if not catching:
            return run(catching, Letters())
        letters, thorough = Letters(), self._thorough_runs > 0
        if not thorough:
            try:
                result = run(catching, letters)
            except UserFunctionError as error:
                of_policy = error.step in {node.step for node in nodes}
                if run_thoroughly is None or error.hopeless or not of_policy:
                    raise
                thorough, self._thorough_runs = True, _THOROUGH_RUNS
        if thorough:
            assert run_thoroughly is not None
            letters = Letters()
            result = run_thoroughly(catching, letters)
            caught_any = bool(letters.dead or letters.skipped)
            self._thorough_runs = _THOROUGH_RUNS if caught_any else self._thorough_runs - 1
        return _with_letters(result, letters, stage, attempt, nodes, self._marks)


def _with_letters(
    result: StageResult,
    letters: Letters,
    stage: Stage,
    attempt: TransactionAttempt,
    nodes: Sequence[Node],
    marks: Mapping[str, Mark],
) -> StageResult:
    """Return the result with the counts of skipped tuples, and a table for each output that has dead letters."""
    by_step: dict[str, list[LetterRecord]] = {}
    # Sorted, so that the ids do not depend on the order in which partitions report.
    for number, letter in enumerate(sorted(letters.dead, key=lambda letter: (letter["step"], letter["tuple"]))):
        letter["id"] = marked_id(f"{attempt.txid:012d}.{stage.number}.{number:05d}", marks.get(letter["step"]))
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
    """Raise UserFunctionError if a step made more dead letters in this batch than its policy allows."""
    policy = getattr(node, "onError", None)
    if isinstance(policy, DeadLetter) and len(dead) > policy.most:
        first = dead[0]
        raise UserFunctionError(
            f"{node.step}: {first['function']} failed on {len(dead)} tuples of one batch, more than "
            f"DeadLetter(most={policy.most}) allows: first with {first['error']}: {first['message']}; "
            f"the tuple was {first['tuple']:.200}"
        )


def letter_table(output: Output, dead: Sequence[LetterRecord], attempt: TransactionAttempt) -> pa.Table:
    """Return the dead letters of one step as a table."""
    step = dead[0]["step"]
    origin = {"stream": step.rpartition("/")[0], "txid": attempt.txid, "attempt": attempt.attempt}
    rows = [{**letter, **origin} for letter in dead]
    columns = [pa.array([row[name] for row in rows], output.schema.field(name).type) for name in LETTER.names]
    return pa.Table.from_arrays(columns, schema=output.schema)


def check_read(nodes: Collection[Node], maxAttempts: int | None) -> None:
    """Check that each step can make its dead letters and that a stream reads them.

    Raises TopologyError if no stream reads a step's dead letters, if its policy makes them after more attempts than
    `maxAttempts` allows, or if a stream is `replayable` but has no dead letters, or no state keeps them.
    """
    kept = any(isinstance(updater_of(node), KeepLetters) for node in nodes)
    spouts = [node.spout for node in nodes if isinstance(node, SpoutSource)]
    replays = {spout.stream for spout in spouts if isinstance(spout, ReplaySpout)}
    read = {id(node.source) for node in nodes if isinstance(node, LettersOf)}
    for node in nodes:
        _check_returns(node, replays if kept else ())
    for node in nodes:
        policy = getattr(node, "onError", None)
        if isinstance(policy, DeadLetter):
            _check_makes(node, policy, id(node) in read, maxAttempts)


def _check_returns(node: Node, replays: Container[str]) -> None:
    """Raise TopologyError if a node is a call of `replayable`, and its stream is not one of `replays`."""
    stream, _, label = node.step.rpartition("/")
    marks = isinstance(node, Project) and re.fullmatch(r"\d+:(.+\.)?replayable", label)
    if marks and stream not in replays:
        raise TopologyError(
            f"dead letters are replayed at {node.site.location} (replayable), but none are stored: give a later "
            f"step of {stream!r} onError='deadLetter', and store the letters with "
            f"topology.deadLetterState(stateFactory), written after the last step that makes dead letters"
        )


def _check_makes(node: Node, policy: DeadLetter, is_read: bool, maxAttempts: int | None) -> None:
    """Raise TopologyError if no stream reads a step's dead letters, or if `maxAttempts` prevents them."""
    if not is_read:
        raise TopologyError(
            f"{node.step} ({node.site.location}) makes dead letters, and no stream reads them: store them with "
            f"topology.deadLetterState(stateFactory), or process them with topology.deadLetters(), written after "
            f"the last step that makes dead letters"
        )
    if maxAttempts is not None and policy.attempts >= maxAttempts:
        raise TopologyError(
            f"{node.step} ({node.site.location}) makes dead letters after {policy.attempts} attempts, but "
            f"maxAttempts={maxAttempts} ends the batch earlier: give fewer attempts=, or a larger maxAttempts="
        )
