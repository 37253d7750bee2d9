"""The parallelism hints of a topology by name, and the numbers of partitions that replace them."""

from collections.abc import Iterable, Mapping

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.plan.nodes import Node, ParallelismHint

Hints = Mapping[str, int]
"""Numbers of partitions that replace the program's own, by the step of a parallelismHint ("words/2")."""


def step_of(node: Node) -> str:
    """Return the stream and number of a step, such as "words/2" of "words/2:parallelismHint(4)"."""
    return node.step.partition(":")[0]


def hints_in(nodes: Iterable[Node]) -> dict[str, int]:
    """Return the numbers of partitions that the parallelismHints of a program request, by step."""
    return {step_of(node): node.count for node in nodes if isinstance(node, ParallelismHint)}


def check_hints(option: str, given: object) -> dict[str, int]:
    """Return `given` if it is a mapping from names to numbers of partitions; otherwise raise TopologyError."""
    if not isinstance(given, Mapping):
        raise TopologyError(
            f"{option}={given!r}: expected a dict of step names and numbers of partitions, {{'words': 4}}"
        )
    for name, count in given.items():
        if not isinstance(name, str) or not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise TopologyError(
                f"{option}: {name!r}: {count!r}: expected a step's name and a whole number of at least 1, "
                f"{{'words': 4}} in Python, words=4 in a shell"
            )
    return dict(given)


def named_hints(option: str, given: object, known: Hints) -> dict[str, int]:
    """Return the numbers of partitions by step. The name of a stream means all parallelismHints of that stream.

    `known` are the program's own hints. Raises TopologyError for a name without a parallelismHint.

    >>> named_hints("parallelismHints", {"words": 5}, {"words/1": 2, "words/4": 2, "lines/1": 3})
    {'words/1': 5, 'words/4': 5}
    """
    found: dict[str, int] = {}
    for name, count in check_hints(option, given).items():
        steps = [step for step in known if name in (step, step.rpartition("/")[0])]
        if not steps:
            names = list(dict.fromkeys([*known, *(step.rpartition("/")[0] for step in known)]))
            there = (
                f"there are {', '.join(known)}" if known else "there is none: write .parallelismHint(n) in the stream"
            )
            raise TopologyError(
                f"{option}: no batch group has a parallelismHint {name!r}{did_you_mean(name, names)}; {there}"
            )
        found |= dict.fromkeys(steps, count)
    return found
