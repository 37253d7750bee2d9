"""Sources that replay dead letters: each is inserted directly before the step that failed on its tuples."""

import itertools
from dataclasses import replace

from trident.operations.error_policy import DeadLetter
from trident.plan import nodes
from trident.plan.step_register import Register
from trident.spouts.dead_letters import ReplaySpout


def with_replays(register: Register, label: str, node: nodes.Node) -> nodes.Node:
    """Return a step of the stream `label`, with a source that replays the step's dead letters if they may be replayed.

    Replayed tuples are inserted here and not at the call of `replayable`: the steps in between and other branches of
    the stream have already processed them.
    """
    marked = register.replayable.get(label)
    if not isinstance(getattr(node, "onError", None), DeadLetter) or marked is None:
        return node
    (source,) = nodes.sources_of(node)
    if marked not in nodes.walk(source):
        return node
    names = (f"{label}.again{number if number > 1 else ''}" for number in itertools.count(1))
    name = next(name for name in names if name not in register.streams)
    spout = ReplaySpout(source.schema, label, node.step)
    replay = nodes.SpoutSource(name, spout, anew=True, step=f"{name}/0:replays", site=marked.site, schema=spout.schema)
    register.add(name, replay)
    fields = tuple(source.schema.names)
    tuples = nodes.Project(replay, fields, step=f"{name}/1:project", site=marked.site, schema=source.schema)
    register.add(name, tuples)
    both = nodes.Merge((source, tuples), step=f"{name}/2:merge", site=marked.site, schema=source.schema)
    register.add(name, both)
    entered: nodes.Node = replace(node, source=both)  # type: ignore[call-arg]
    register.replays[entered] = replay
    return entered


def replay_of(source: nodes.SpoutSource) -> ReplaySpout:
    """Return the spout of a source that replays dead letters."""
    assert isinstance(source.spout, ReplaySpout)
    return source.spout
