"""The options of a topology's spouts that a start sets: their check, and the plan with the changed spouts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.user_config import shown_value
from trident.plan.nodes import Node, RequestSource, SpoutSource
from trident.plan.plan_copy import PlanOfCopies, rebuilt
from trident.plan.topology_protocol import TopologyPlan
from trident_spouts.changed_options import with_options

SpoutOptions = Mapping[str, Mapping[str, Any]]
"""Values of options by the stream of a spout, and the name of the option."""


def check_spout_options(option: str, given: object) -> SpoutOptions:
    """Return `given` if it maps streams to options and their values; otherwise raise TopologyError."""
    if not _has_names(given) or not all(map(_has_names, given.values())):
        raise TopologyError(
            f"{option}={shown_value(option, given)!r}: expected a dict of streams, each with the options of its spout, "
            f"{{'orders': {{'maxOffsetsPerBatch': 1000}}}}"
        )
    return {stream: dict(options) for stream, options in given.items() if options}


def _has_names(table: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(table, Mapping) and all(isinstance(name, str) for name in table)


def joined_spout_options(before: SpoutOptions | None, after: SpoutOptions | None) -> SpoutOptions:
    """Return the options of two layers. The later layer replaces single options.

    >>> joined_spout_options({"orders": {"kind": "opaque", "topics": "a"}}, {"orders": {"topics": "b"}})
    {'orders': {'kind': 'opaque', 'topics': 'b'}}
    """
    first, later = before or {}, {} if after is None else check_spout_options("spouts", after)
    streams = dict.fromkeys([*first, *later])
    return {stream: {**first.get(stream, {}), **later.get(stream, {})} for stream in streams}


def with_spout_options(topology: TopologyPlan, options: SpoutOptions | None) -> TopologyPlan:
    """Return the plan of a topology in which spouts have these options.

    Raises TopologyError if a stream or an option does not exist, or the spout refuses the value.
    """
    if not options:
        return topology
    streams = {node.stream: node for node in topology.nodes if isinstance(node, SpoutSource)}
    for stream in options:
        if stream not in streams:
            there = f"the streams are {', '.join(streams)}" if streams else "the topology has no spout"
            raise TopologyError(f"spouts: there is no stream {stream!r}{did_you_mean(stream, streams)}; {there}")
    spouts = {
        stream: with_options(f"spouts.{stream} ({streams[stream].site.location})", streams[stream].spout, given)
        for stream, given in options.items()
    }

    def chosen(source: SpoutSource) -> SpoutSource:
        return replace(source, spout=spouts.get(source.stream, source.spout))

    requests = dict(topology.requests)
    pairs = [node for pair in requests.values() for node in pair]
    nodes = rebuilt([*topology.sinks, *pairs], chosen, lambda state: state)
    sinks, copies = nodes[: len(topology.sinks)], iter(nodes[len(topology.sinks) :])
    return PlanOfCopies(topology, sinks, {name: _pair(next(copies), next(copies)) for name in requests})


def _pair(source: Node, leaf: Node) -> tuple[RequestSource, Node]:
    assert isinstance(source, RequestSource)
    return source, leaf
