"""The body of ``GET /topology``: the plan as a picture, with the guarantee of each state and the DRPC functions."""

import json
from typing import Any

import msgspec
import pyarrow as pa

from trident.base.value_conversion import type_name
from trident.plan.dead_letters import keeper_of
from trident.plan.guarantee import guarantee_of
from trident.plan.nodes import SpoutSource, StateWriter, Watermark, walk
from trident.plan.state_schema import keys_of, value_of
from trident.plan.topology_protocol import TopologyPlan
from trident.server.served_topology import Served
from trident.spouts.dead_letters import ReplaySpout


class FieldBody(msgspec.Struct):
    """A field: its name and its type."""

    name: str
    type: str


class StateBody(msgspec.Struct):
    """A state, and the guarantee for its content."""

    name: str
    group: str | None
    kind: str
    store: str
    keys: list[FieldBody]
    value: FieldBody
    promise: str
    """The guarantee: how many times a tuple of the source counts, even after failures."""
    condition: str
    """The condition of the promise; "" if it is unconditional."""
    exactlyOnce: bool
    origin: str
    """The streams that feed the state, with the kinds of their spouts."""
    survives: str
    """The lifetime of the content: "process" (it ends with the process), "checkpoint" or "server"."""
    deadLetters: bool
    """True if the state keeps dead letters."""


class FunctionBody(msgspec.Struct):
    """A DRPC function: its arguments, and the fields of its rows."""

    name: str
    signature: str
    arguments: list[FieldBody]
    answers: list[FieldBody]


class TopologyBody(msgspec.Struct):
    """A topology in the form in which its page draws it."""

    name: str
    engine: str | None
    picture: dict[str, Any]
    """Width, height, boxes, arrows and clusters, as ``topology.draw("json")`` writes them."""
    states: list[StateBody]
    functions: list[FunctionBody]
    replayable: list[str]
    """The streams to which dead letters can return."""


def topology_body(served: Served) -> TopologyBody:
    """Return a served topology in the form in which its page draws it."""
    plan = served.watched.plan
    writers = [node for node in walk(*plan.sinks) if isinstance(node, StateWriter) and not isinstance(node, Watermark)]
    functions = [served.drpc.function(name) for name in served.drpc.functions]
    return TopologyBody(
        served.name,
        served.watched.engine,
        json.loads(plan.draw("json")),
        [_state(node, served) for node in writers],
        [FunctionBody(each.name, each.signature, _fields(each.arguments), _fields(each.answers)) for each in functions],
        replayable_streams(plan),
    )


def letter_states(plan: TopologyPlan) -> list[str]:
    """Return the names of the states that keep dead letters."""
    writers = [node for node in walk(*plan.sinks) if isinstance(node, StateWriter)]
    return [node.state.name for node in writers if keeper_of(node) is not None]


def replayable_streams(plan: TopologyPlan) -> list[str]:
    """Return the streams to which dead letters can return."""
    spouts = [node.spout for node in walk(*plan.sinks) if isinstance(node, SpoutSource)]
    return list(dict.fromkeys(spout.stream for spout in spouts if isinstance(spout, ReplaySpout)))


def _state(node: StateWriter, served: Served) -> StateBody:
    guarantee, value = guarantee_of(node), value_of(node)
    name = node.state.name
    return StateBody(
        name,
        served.group_of(name) if name in served.states else None,
        guarantee.kind.value,
        guarantee.store,
        [FieldBody(field.name, field.dataType.simpleString()) for field in keys_of(node).fields],
        FieldBody(value.name, value.dataType.simpleString()),
        guarantee.promise.value,
        guarantee.condition,
        guarantee.exactlyOnce,
        guarantee.origin,
        # For this run, and not only for the kind of its store: without a lasting log, the next start begins with an
        # empty state.
        node.state.factory.survives if served.watched.lasting else "process",
        keeper_of(node) is not None,
    )


def _fields(schema: pa.Schema) -> list[FieldBody]:
    return [FieldBody(field.name, type_name(field.type)) for field in schema]
