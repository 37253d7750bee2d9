"""Refusal of changes that may reach a table or an output in an order that differs from the source's."""

from collections.abc import Sequence
from functools import partial

from trident.base.verb_call import Step
from trident.plan import nodes
from trident.plan.change_order import disordered, replays_before
from trident.plan.dead_letter_replays import replay_of
from trident.plan.partitions import hint_of_section
from trident.plan.step_register import Register


def check_order(register: Register, node: nodes.Node, keys: Sequence[str], step: Step) -> None:
    """Refuse changes whose order a step may have changed: the last change of a key wins.

    Later hints are checked, too.
    """
    replays = replays_before(node)
    if replays is not None:
        raise step.wrong(
            f"the last change of a key decides whether its row exists, but replayable() ({replays.site.location}) "
            f"replays dead letters of {replay_of(replays).step} after newer changes of their keys: remove "
            "replayable(), so that dead letters are only kept, or aggregate the changes, which needs no order"
        )
    _check_partitions(register, node, keys, step)
    register.ordered[node, tuple(keys)] = step


def check_hint(register: Register, hint: nodes.ParallelismHint) -> None:
    """Refuse a new hint that spreads changes whose order a later step needs."""
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
        result = "spread changes of a key over several partitions, which have no order among them"
        way += f", or partition by fields of the key first, partitionBy({', '.join(map(repr, keys))})"
    else:
        result = "return changes of a key in another order"
    raise step.wrong(
        f"the last change of a key decides whether its row exists, but {moved.step} ({moved.site.location}) may "
        f"{result}: {way}"
    )
