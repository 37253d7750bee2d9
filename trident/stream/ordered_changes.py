"""The refusal of changes that reach a table or an output in another order than that of their source."""

from collections.abc import Sequence
from functools import partial

from trident.base.step import Step
from trident.plan import nodes
from trident.plan.change_order import disordered, replays_before
from trident.plan.partitions import hint_of_section
from trident.plan.register import Register
from trident.plan.replays import replay_of


def check_order(register: Register, node: nodes.Node, keys: Sequence[str], step: Step) -> None:
    """Refuse changes whose order a step may have changed: the last change of a key decides. Later hints are checked."""
    replays = replays_before(node)
    if replays is not None:
        raise step.wrong(
            f"the last change of a key decides whether its row is there, and replayable() ({replays.site.location}) "
            f"brings dead letters of {replay_of(replays).step} later than newer changes of their keys: leave out "
            f"replayable(), so that such changes are only kept, or aggregate the changes, which needs no order"
        )
    _check_partitions(register, node, keys, step)
    register.ordered[node, tuple(keys)] = step


def check_hint(register: Register, hint: nodes.ParallelismHint) -> None:
    """Refuse a new hint that spreads changes whose order a step needs."""
    for (node, keys), step in register.ordered.items():
        if node in register.nodes:
            _check_partitions(register, node, keys, step, hint)


def _check_partitions(register: Register, node: nodes.Node, keys: Sequence[str], step: Step, *more: nodes.Node) -> None:
    known = tuple(dict.fromkeys((*nodes.walk(node), *register.nodes, *more)))
    moved = disordered(node, keys, partial(hint_of_section, known))
    if moved is None:
        return
    way = "call that verb after this one"
    if isinstance(moved, nodes.Repartition | nodes.ParallelismHint):
        result = "bring changes of a key into several partitions, which have no order among them"
        way += f", or partition by fields of the key first, partitionBy({', '.join(map(repr, keys))})"
    else:
        result = "give changes of a key in another order"
    raise step.wrong(
        f"the last change of a key decides whether its row is there, and {moved.step} ({moved.site.location}) may "
        f"{result}: {way}"
    )
