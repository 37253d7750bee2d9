"""The verb multiReduce: one reducer over several streams, within one batch."""

from collections.abc import Sequence
from typing import Any

from trident.base.names import brief
from trident.base.verb_call import Step, caller
from trident.operations.multireducers import read_multi_reducer
from trident.operations.output_fields import OutputsLike, emitted
from trident.plan import joins, nodes, step_checks
from trident.plan.step_register import Register
from trident.stream.arguments import operation_site
from trident.stream.joins import add_stream, check_is_list, label_and_step
from trident.stream.stream import GroupedStream, Stream


def multi_reduced(
    register: Register, streams: Sequence[Any], inputFields: object, reducer: object, outputFields: OutputsLike
) -> Stream:
    """Add a step that reduces several streams of one topology, and return its stream. All are grouped, or none is."""
    check_is_list(streams, "multiReduce")
    grouped = [isinstance(stream, GroupedStream) for stream in streams]
    if any(grouped) and not all(grouped):
        plain = streams[grouped.index(False)]
        problem = f"{brief(plain)} is not grouped, but other streams are: group all streams, or none"
        raise Step("multiReduce", caller("multiReduce")).wrong(problem)
    sources: list[Stream] = [stream.toStream() for stream in streams] if all(grouped) else list(streams)
    label, step = label_and_step(register, "multiReduce", sources)
    step = step.with_function(operation_site(reducer))
    joins.check_one_batch([stream._node for stream in sources], step)
    joins.check_close_together([stream._node for stream in sources], step)
    schemas = [stream.schema for stream in sources]
    groups = tuple(stream.groupFields for stream in streams) if all(grouped) else ()
    if groups:
        joins.check_same_keys(groups, schemas, step)
    inputs = _inputs(sources, inputFields, step)
    reduction = read_multi_reducer(reducer, bool(groups), step)
    schema = emitted(reducer, outputFields, step, "reducer")
    above = tuple(stream._node for stream in sources)
    node = nodes.MultiReduce(above, inputs, groups, reduction, **step.gives(schema))
    return add_stream(sources[0], label, node)


def _inputs(streams: Sequence[Stream], fields: object, step: Step) -> tuple[tuple[str, ...], ...]:
    if fields is None:
        return tuple(stream.fields for stream in streams)
    wanted = (
        f"a multiReduce of {len(streams)} streams needs the input fields of each, [fields1, fields2], or None for all "
        "fields"
    )
    arguments = joins.for_each(fields, len(streams), wanted, step)
    return tuple(
        step_checks.known_fields(stream.schema, names, step, f" in stream {at}")
        for at, (stream, names) in enumerate(zip(streams, arguments, strict=True), 1)
    )
