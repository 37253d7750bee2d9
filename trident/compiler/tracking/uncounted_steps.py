"""The steps whose incoming rows a ledger does not count, because Spark itself receives the rows.

The ledger counts rows only if Python sends them and Python receives them. Spark's own steps report nothing: native
expressions and aggregates, joins, and moves of tuples after a Python step.
"""

from trident.compiler.program import Program
from trident.plan.nodes import Node, PersistentAggregate, sources_of
from trident.plan.partitions import moves
from trident.plan.traits import NO_RUNNER, PYTHON, SPARK, traits_of


def unseen_steps(program: Program) -> list[str]:
    """Return the labels of the steps whose incoming rows are not counted on Spark, in the order of the program."""
    nodes = [node for group in program.groups for stage in group.stages for node in stage.nodes]
    return list(dict.fromkeys(node.step for node in nodes if _is_unseen(node)))


def unseen_text(program: Program) -> str:
    """Return in words the gaps of the ledger for a program on Spark; "" if it counts all rows."""
    steps = unseen_steps(program)
    if not steps:
        return ""
    return (
        f"ledger=True does not count the rows that enter Spark's own steps: {', '.join(steps)}. In these steps only "
        f"Spark's own checksums would detect a lost or repeated row. To count these steps, write them as Python "
        f"functions or aggregators; engine='embedded' counts every step that moves tuples"
    )


def _is_unseen(node: Node) -> bool:
    if traits_of(node).runner(node) != SPARK or not sources_of(node):
        return False
    if moves(node):  # its rows are counted between the source and the first Python step
        return _above(node) != NO_RUNNER
    if isinstance(node, PersistentAggregate):  # with a ledger, Python merges partial results of Python
        return _above(node) != PYTHON
    return True


def _above(node: Node) -> str:
    """Return the runner of the step from which the tuples of a node come. Steps that only move tuples are skipped."""
    (source, *_) = sources_of(node)
    while moves(source):
        (source, *_) = sources_of(source)
    return traits_of(source).runner(source)
