"""The steps whose tuples the option `debug` of a start shows."""

from collections.abc import Iterable, Sequence

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.plan import nodes
from trident.plan.nodes import Node
from trident.plan.parallelism_hints import step_of
from trident.plan.step_checks import is_request

DebugSteps = bool | Sequence[str]
"""True: a line for each batch. Names of steps: also a line for each tuple that leaves them."""

_WITHOUT_TUPLES = (
    *(nodes.Debug, nodes.LettersOf, nodes.StaticState, nodes.PartitionOf, nodes.WindowPanes),
    *(nodes.StateUpdate, nodes.Sink),
)
"""Nodes that emit no tuples of a user's step. The results of a window or an update are a separate node."""


def check_debug(option: str, value: object) -> DebugSteps:
    """Return `value` if it is a bool or names of steps, the names as a tuple; otherwise raise TopologyError."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise TopologyError(f"{option}={value!r}: expected True, False or a list of names of steps, ['words/1']")


def shown_steps(steps: DebugSteps, plan: Iterable[Node]) -> tuple[nodes.Debug, ...]:
    """Return a Debug beside each named step. The name of a stream means all of its steps.

    No other step reads a Debug, so batches are frozen in the same form with it and without it.
    Raises TopologyError for a name without a step.
    """
    if isinstance(steps, bool):
        return ()
    known = [node for node in plan if not isinstance(node, _WITHOUT_TUPLES) and not is_request(node)]
    found = dict[Node, None]()
    for name in steps:
        named = [node for node in known if name in _names(node)]
        if not named:
            labels = list(dict.fromkeys(step_of(node) for node in known))
            near = did_you_mean(name, [*labels, *(label.rpartition("/")[0] for label in labels)])
            raise TopologyError(
                f"debug: no step of a batch that emits tuples is called {name!r}{near}; there are {', '.join(labels)}"
            )
        found |= dict.fromkeys(named)
    return tuple(
        nodes.Debug(node, tuple(node.schema.names), node.step, step=node.step, site=node.site, schema=node.schema)
        for node in found
    )


def _names(node: Node) -> tuple[str, str, str]:
    """Return the names of a step: "words/1:each(f)", "words/1" and the stream "words"."""
    return node.step, step_of(node), step_of(node).rpartition("/")[0]
