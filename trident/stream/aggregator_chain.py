"""Several aggregators over the same tuples: ``chainedAgg().aggregate(...).aggregate(...).chainEnd()``."""

from typing import TYPE_CHECKING, Generic, NoReturn

from trident.base.errors import DuplicateFieldError
from trident.base.names import FieldsLike
from trident.base.spark_types import select
from trident.base.verb_call import Step, caller
from trident.operations.output_fields import OutputsLike
from trident.plan import nodes
from trident.stream import names_elsewhere
from trident.stream.aggregate import VERBS, chained, read_members
from trident.stream.aggregate_conditions import Conditioned
from trident.stream.argument_types import AggregatorArgument
from trident.stream.base import GroupwiseVerbs, NotASequence, StreamBase, StreamT, unknown_verb


class ChainVerbs(GroupwiseVerbs[StreamT]):
    """The verb that begins a chain of aggregators."""

    __slots__ = ()

    def chainedAgg(self) -> "ChainedAggregate[StreamT]":
        """Begin a chain of aggregators over the same tuples. Add one aggregator after the other, then call `chainEnd`.

        Every member of the chain has separate input fields. A result has the output fields of all members; after
        `groupBy` each group gives one result, which begins with the group fields. Meaning:
        ``org.apache.storm.trident.Stream.chainedAgg`` and ``org.apache.storm.trident.fluent.GroupedStream.chainedAgg``.

        >>> from trident import Count, Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> batch = [("dog", 2), ("dog", 5)]
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [batch]))
        >>> words.chainedAgg().aggregate(Count(), "count").aggregate("n", Sum(), "total").chainEnd().take(1)
        [Row(count=2, total=7)]
        >>> words.groupBy("word").chainedAgg().aggregate(Count(), "n").aggregate("n", Sum(), "total").chainEnd()
        Stream(words/2:chainedAgg(Count, Sum): word string, n bigint, total bigint)
        """
        stream, group = self._by_group()
        return ChainedAggregate(Conditioned.of(stream), group)


class ChainedAggregate(NotASequence, Generic[StreamT]):
    """A chain of aggregators, begun by `chainedAgg`. It is immutable, like a stream. `chainEnd` returns its stream.

    Meaning: ``org.apache.storm.trident.fluent.ChainedAggregatorDeclarer``.
    """

    __slots__ = ("_group", "_members", "_read", "_scope")

    def __init__(
        self,
        stream: Conditioned,
        group: tuple[str, ...],
        members: tuple[nodes.Member, ...] = (),
        scope: nodes.Scope | None = None,
    ) -> None:
        self._read = stream
        self._group = group
        self._members = members
        self._scope = scope

    def aggregate(
        self,
        *args: AggregatorArgument,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> "ChainedAggregate[StreamT]":
        """Add an aggregator over the batch, or over each group of the batch.

        The parameters are those of `Stream.aggregate`. No other member may have an output field of the same name.
        """
        return self._with("batch", args, inputFields, aggregator, outputFields)

    def partitionAggregate(
        self,
        *args: AggregatorArgument,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> "ChainedAggregate[StreamT]":
        """Add an aggregator over each partition.

        The parameters are those of `Stream.partitionAggregate`. No other member may have an output field of the same
        name.
        """
        return self._with("partition", args, inputFields, aggregator, outputFields)

    def chainEnd(self) -> StreamT:
        """Return the stream of the members' results: the group fields, then every member's output fields.

        If a member emits several tuples, each of them is combined with each tuple of the other members; the tuples of
        the last member vary fastest. If a member emits no tuple, there is no result. Raises TopologyError if the chain
        has no member.
        """
        stream: StreamBase[StreamT] = self._read.stream
        step = Step(stream._register.label(stream._label, "chainedAgg"), caller("chainEnd"))
        if self._scope is None:
            raise step.wrong("the chain has no member; write chainedAgg().aggregate(...).aggregate(...).chainEnd()")
        names = ", ".join(member.how.site.name for member in self._members)
        step = Step(f"{step.label}({names})", step.called)
        return chained(stream, self._group, self._scope, self._members, step)

    def _with(
        self,
        scope: nodes.Scope,
        args: tuple[object, ...],
        inputFields: FieldsLike | None,
        aggregator: object,
        outputFields: OutputsLike | None,
    ) -> "ChainedAggregate[StreamT]":
        read, members, step = read_members(self._read, scope, args, inputFields, aggregator, outputFields)
        if self._scope not in (None, scope):
            raise step.wrong(
                f"the chain's other members use {VERBS[self._scope or scope]}: use either aggregate or "
                "partitionAggregate for all members"
            )
        chain = self
        for member in members:
            chain._check_new(member, step)
            chain = ChainedAggregate(read, self._group, (*chain._members, member), scope)
        return chain

    def _check_new(self, member: nodes.Member, step: Step) -> None:
        """Refuse a member whose output field is already a group field or an output field of another member."""
        group = select(self._read.own.schema, self._group)
        taken = {name.lower(): "a group field" for name in group.names}
        taken |= {
            name.lower(): f"an output field of {other.how.site.name}"
            for other in self._members
            for name in other.outputs.names
        }
        for name in member.outputs.names:
            if name.lower() in taken:
                raise step.error(
                    DuplicateFieldError,
                    f"output field {name!r} is already {taken[name.lower()]} in this chain; give it another name",
                )

    def __repr__(self) -> str:
        members = "".join(f".{VERBS[self._scope or 'batch']}({member.how.site.name})" for member in self._members)
        return f"{self._read.own._node.step}.chainedAgg(){members}, without its chainEnd()"

    if not TYPE_CHECKING:  # see `StreamBase`

        def __getattr__(self, name: str) -> NoReturn:
            message = unknown_verb(self, name, names_elsewhere.STREAM)
            if not name.startswith("_") and hasattr(type(self._read.own), name):
                message = (
                    f"'ChainedAggregate' has no verb {name!r}; call it on the stream that the chain returns: "
                    f"chainEnd().{name}"
                )
            raise AttributeError(message, name=name, obj=self)
