"""The verbs merge and join, which combine several streams into one within one batch."""

from collections.abc import Sequence

from trident.base.callsite import CallSite
from trident.base.change_kinds import CHANGE
from trident.base.names import FieldsLike, brief
from trident.base.verb_call import Step, caller
from trident.operations.join_kinds import (
    JoinOutFieldsMode,
    JoinType,
    JoinTypes,
    join_type_like,
    read_join_mode,
    read_join_types,
)
from trident.operations.output_fields import OutputsLike
from trident.plan import joins, nodes
from trident.plan.step_register import Register
from trident.stream.base import StreamBase, StreamT


class JoinVerbs(StreamBase[StreamT]):
    """Verbs that combine this stream with others. `TridentTopology` has verbs of the same names."""

    __slots__ = ()

    def merge(
        self, *others: StreamT, outputFields: OutputsLike | None = None, sourceField: str | None = None
    ) -> StreamT:
        """Merge this stream with others, WITHIN ONE BATCH: ``topology.merge(this, *others)``."""
        streams: list[StreamBase[StreamT]] = [self, *others]
        return merged(self._register, streams, outputFields, sourceField)

    def join(
        self,
        other: StreamT,
        keys: FieldsLike,
        outputFields: OutputsLike | None = None,
        *,
        otherKeys: FieldsLike | None = None,
        joinType: JoinTypes = JoinType.INNER,
        mode: str = JoinOutFieldsMode.COMPACT,
    ) -> StreamT:
        """Pair tuples with equal keys, WITHIN ONE BATCH: ``topology.join([this, other], [keys, otherKeys])``.

        `joinType`: "inner", "left" (a tuple of this stream stays if it has no partner), "right" or "full".

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> clicks = topology.newStream("clicks", FixedBatchSpout("user long, url string", [[(1, "/a")]]))
        >>> users = topology.newStream("users", FixedBatchSpout("id long, name string", [[(1, "Ann")]]))
        >>> clicks.join(users, "user", otherKeys="id")
        Stream(clicks-users/0:join(user): user bigint, url string, name string)
        >>> clicks.join(users, "user", otherKeys="id", joinType="left", mode="preserve").fields
        ('user', 'url', 'id', 'name')
        """
        both = [keys, keys if otherKeys is None else otherKeys]
        streams: list[StreamBase[StreamT]] = [self, other]
        return joined(self._register, streams, both, outputFields, joinType, mode)


def merged(
    register: Register,
    streams: Sequence[StreamBase[StreamT]],
    outputFields: OutputsLike | None,
    sourceField: str | None,
) -> StreamT:
    """Add a step that merges streams of one topology, and return its stream."""
    label, step = label_and_step(register, "merge", streams)
    if len({stream._changes for stream in streams}) > 1:
        raise step.wrong(
            "some streams are streams of changes and others are not: call asChanges() on the others, or toStream() on "
            "these"
        )
    joins.check_one_batch([stream._node for stream in streams], step)
    schema = joins.merged([stream.schema for stream in streams], outputFields, sourceField, step)
    if streams[0]._changes:
        _check_kind(schema.names, sourceField, step)
    sources = tuple(stream._node for stream in streams)
    labels = () if sourceField is None else tuple(stream._label for stream in streams)
    return add_stream(streams[0], label, nodes.Merge(sources, labels, **step.gives(schema)))


def _check_kind(names: Sequence[str], sourceField: str | None, step: Step) -> None:
    """Check that the kind of each change remains the last field when streams of changes are merged."""
    if sourceField is not None:
        raise step.wrong(
            f"sourceField={sourceField!r} would become the last field of a stream of changes, but {CHANGE!r} must be "
            f"the last: give each stream such a field before the merge, each({{{sourceField!r}: F.lit('orders')}})"
        )
    if CHANGE not in names or names[-1] != CHANGE:
        raise step.wrong(
            f"{CHANGE!r} holds the kind of each change and must be the last of outputFields, not ({', '.join(names)})"
        )


def joined(
    register: Register,
    streams: Sequence[StreamBase[StreamT]],
    keys: object,
    outputFields: OutputsLike | None,
    joinType: JoinTypes,
    mode: str,
) -> StreamT:
    """Add a step that joins streams of one topology, and return its stream."""
    check_is_list(streams, "join")
    label, step = label_and_step(register, "join", streams)
    joins.check_one_batch([stream._node for stream in streams], step)
    joins.check_close_together([stream._node for stream in streams], step)
    schemas = [stream.schema for stream in streams]
    key_names = joins.join_keys(schemas, keys, step)
    step = Step(f"{step.label}({', '.join(key_names[0])})", step.called)
    if isinstance(outputFields, str) and join_type_like(outputFields):
        raise step.wrong(
            f"{outputFields!r} is in the position of outputFields; write joinType={join_type_like(outputFields)!r}, "
            f"or [{outputFields!r}] if it is a field's name"
        )
    outer, preserve = read_join_types(joinType, len(streams), step), read_join_mode(mode, step)
    schema = joins.joined(schemas, key_names, outer, preserve, outputFields, step)
    sources = tuple(stream._node for stream in streams)
    node = nodes.Join(sources, key_names, outer, preserve, **step.gives(schema))
    return add_stream(streams[0], label, node)


_STREAM_OF = {"GroupedStream": "; use its toStream()", "TridentState": "; use its newValuesStream()"}


def check_is_list(streams: object, verb: str) -> None:
    """Raise an error if `streams` is not a list of streams."""
    if not isinstance(streams, Sequence) or isinstance(streams, str):
        problem = f"pass its streams as one list, [{brief(streams)}, ...], before the other arguments"
        raise Step(verb, caller(verb)).wrong(problem)


def label_and_step(register: Register, verb: str, streams: Sequence[object]) -> tuple[str, Step]:
    """Return the label and the step of a call of `verb` that combines these streams, after checking the streams.

    The label names the stream that `verb` returns: the labels of `streams`, joined by "-".

    Raises TopologyError for fewer than two streams, for an object that is not a stream, for a stream of another
    topology, and for a stream of changes, unless the verb is merge.
    """
    called: CallSite = caller(verb)
    for stream in streams:
        if not isinstance(stream, StreamBase):
            hint = _STREAM_OF.get(type(stream).__name__, "")
            raise Step(verb, called).wrong(f"{stream!r} is not a stream{hint}")
        if stream._register is not register:
            raise Step(verb, called).wrong(f"{stream!r} {register.why_foreign(stream._register)}")
        if stream._changes and verb != "merge":
            raise Step(verb, called).wrong(
                f"{stream!r} is a stream of changes, and {verb} would treat a removed row as an added one. Keep its "
                "rows with toTable and read them with joinTable, join two tables with table.join(other), or read the "
                f"changes as tuples with a field {CHANGE!r}: toStream()"
            )
    if len(streams) < 2:
        raise Step(verb, called).wrong(f"a {verb} needs at least two streams, not {len(streams)}")
    label = "-".join(dict.fromkeys(stream._label for stream in streams if isinstance(stream, StreamBase)))
    return label, register.step(label, verb)


def add_stream(first: StreamBase[StreamT], label: str, node: nodes.Node) -> StreamT:
    """Add `node` to the topology of the stream `first`, and return the stream of its output, named `label`."""
    first._register.add(label, node)
    return first._new(node, label)
