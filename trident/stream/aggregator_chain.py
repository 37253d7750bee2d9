"""Several aggregators over the same tuples: chainedAgg, aggregate or partitionAggregate, chainEnd."""

from typing import Generic, NoReturn

from trident.base.errors import DuplicateFieldError, TopologyError
from trident.base.names import FieldsLike
from trident.base.step import Step, caller
from trident.base.types import select
from trident.operations.output_fields import OutputsLike
from trident.plan import nodes
from trident.stream import foreign_names
from trident.stream.aggregate import VERBS, chained, read_member
from trident.stream.base import Rails, StreamBase, StreamT, unknown_verb


class ChainVerbs(StreamBase[StreamT]):
    """The verb that begins a chain of aggregators."""

    __slots__ = ()

    def chainedAgg(self) -> "ChainedAggregate[StreamT]":
        """Several aggregators over the same tuples in one go: name them one after the other, then `chainEnd`.

        Every member has its own input fields; their output fields stand side by side.
        Meaning: ``org.apache.storm.trident.Stream.chainedAgg``.

        >>> from trident import Count, Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> batch = [("dog", 2), ("dog", 5)]
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [batch]))
        >>> words.chainedAgg().aggregate(Count(), "count").aggregate("n", Sum(), "total").chainEnd().take(1)
        [Row(count=2, total=7)]
        """
        return ChainedAggregate(self, ())


class ChainedAggregate(Rails, Generic[StreamT]):
    """What `chainedAgg` gives: name the members, then `chainEnd` gives the stream. Immutable, as a stream is.

    Meaning: ``org.apache.storm.trident.fluent.ChainedAggregatorDeclarer``.
    """

    __slots__ = ("_group", "_members", "_scope", "_stream")

    def __init__(
        self,
        stream: StreamBase[StreamT],
        group: tuple[str, ...],
        members: tuple[nodes.Member, ...] = (),
        scope: nodes.Scope | None = None,
    ) -> None:
        self._stream = stream
        self._group = group
        self._members = members
        self._scope = scope

    def aggregate(
        self,
        *args: object,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> "ChainedAggregate[StreamT]":
        """One more aggregator over the batch, or over each group of it. The parameters are those of
        `Stream.aggregate`; its output fields are new in the chain."""
        return self._with("batch", args, inputFields, aggregator, outputFields)

    def partitionAggregate(
        self,
        *args: object,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> "ChainedAggregate[StreamT]":
        """One more aggregator over each partition. The parameters are those of `Stream.partitionAggregate`; its output
        fields are new in the chain."""
        return self._with("partition", args, inputFields, aggregator, outputFields)

    def chainEnd(self) -> StreamT:
        """The stream of what the members give: the group fields, then every member's output fields.

        Where a member emits several tuples, they come in every combination with the others', the last member's fastest;
        where it emits none there is no tuple.
        """
        step = Step(self._stream._register.label(self._stream._label, "chainedAgg"), caller("chainEnd"))
        if self._scope is None:
            raise step.error(
                TopologyError, "the chain has no member; write chainedAgg().aggregate(...).aggregate(...).chainEnd()"
            )
        names = ", ".join(member.how.site.name for member in self._members)
        step = Step(f"{step.label}({names})", step.called)
        return chained(self._stream, self._group, self._members, self._scope, step)

    def _with(
        self,
        scope: nodes.Scope,
        args: tuple[object, ...],
        inputFields: FieldsLike | None,
        aggregator: object,
        outputFields: OutputsLike | None,
    ) -> "ChainedAggregate[StreamT]":
        member, step = read_member(self._stream, scope, args, inputFields, aggregator, outputFields)
        if self._scope not in (None, scope):
            raise step.error(
                TopologyError,
                f"the chain's other members are of {VERBS[self._scope or scope]}: a chain is all aggregate or all "
                "partitionAggregate",
            )
        self._check_new(member, step)
        return ChainedAggregate(self._stream, self._group, (*self._members, member), scope)

    def _check_new(self, member: nodes.Member, step: Step) -> None:
        """Refuse an output field that the group or another member has."""
        group = select(self._stream.schema, self._group)
        taken = {name.lower(): "a group field" for name in group.names}
        taken |= {
            name.lower(): f"an output field of {each.how.site.name}"
            for each in self._members
            for name in each.outputs.names
        }
        for name in member.outputs.names:
            if name.lower() in taken:
                raise step.error(
                    DuplicateFieldError,
                    f"output field {name!r} is {taken[name.lower()]} in this chain already; give it another name",
                )

    def __repr__(self) -> str:
        members = "".join(f".{VERBS[self._scope or 'batch']}({each.how.site.name})" for each in self._members)
        return f"{self._stream._node.step}.chainedAgg(){members}, without its chainEnd()"

    def __getattr__(self, name: str) -> NoReturn:
        message = unknown_verb(self, name, foreign_names.STREAM)
        if not name.startswith("_") and hasattr(type(self._stream), name):
            message = f"'ChainedAggregate' has no verb {name!r}; the stream behind the chain has: chainEnd().{name}"
        raise AttributeError(message, name=name, obj=self)
