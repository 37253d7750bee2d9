"""The ways of rows that a ledger does not count, because Spark itself takes the rows in.

Both ends of a way must be Python for a report of the rows that were sent and that arrived. Spark's own steps report
nothing: native expressions and aggregates, joins, and moves of tuples after a Python step.
"""

from trident.compiler.program import Program
from trident.plan.nodes import Node, PersistentAggregate, sources_of
from trident.plan.partitions import moves
from trident.plan.traits import NO_RUNNER, PYTHON, SPARK, traits_of


def unseen_steps(program: Program) -> list[str]:
    """Return the labels of the steps into which rows go uncounted on Spark, in the order of the program."""
    nodes = [node for group in program.groups for stage in group.stages for node in stage.nodes]
    return list(dict.fromkeys(node.step for node in nodes if _is_unseen(node)))


def unseen_text(program: Program) -> str:
    """Return in words the gaps of the ledger for a program on Spark; "" if it sees all."""
    steps = unseen_steps(program)
    if not steps:
        return ""
    return (
        f"ledger=True does not count the rows that enter Spark's own steps: {', '.join(steps)}. Only Spark's own "
        f"checksums would detect a row that is lost or repeated there. To count these steps, write them as Python "
        f"functions or aggregators; engine='embedded' counts every step that moves tuples"
    )


def _is_unseen(node: Node) -> bool:
    if traits_of(node).runner(node) != SPARK or not sources_of(node):
        return False
    if moves(node):  # counted from the source to the first Python step, whatever moves the tuples between
        return _above(node) != NO_RUNNER
    if isinstance(node, PersistentAggregate):  # with a ledger, Python merges the parts that Python has made
        return _above(node) != PYTHON
    return True


def _above(node: Node) -> str:
    """Return the runner of the step from which the tuples of a node come, beyond steps that only move them."""
    (source, *_) = sources_of(node)
    while moves(source):
        (source, *_) = sources_of(source)
    return traits_of(source).runner(source)
