"""The verbs of a grouped stream, which work on each group separately."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NoReturn, Self, cast

from pyspark.sql.types import StructType

from trident.base.names import FieldsLike
from trident.base.spark_types import ddl
from trident.base.verb_call import Step
from trident.operations.error_policy import OnErrorLike
from trident.operations.output_fields import OutputsLike
from trident.plan import nodes
from trident.stream import names_elsewhere
from trident.stream.aggregate import AggregateVerbs
from trident.stream.aggregator_chain import ChainVerbs
from trident.stream.argument_types import FunctionArgument
from trident.stream.base import GroupwiseVerbs, NotASequence, StatefulT, StreamBase, StreamT, unknown_verb
from trident.stream.display import Drawable
from trident.stream.each import EachVerbs
from trident.stream.persist import PersistentVerbs
from trident.stream.query import QueryVerbs
from trident.stream.state import StateT
from trident.stream.stateful_each import StatefulEachVerbs
from trident.stream.window import EarlyT, WindowedT, WindowVerbs


class Grouped(NotASequence, Drawable, GroupwiseVerbs[StreamT], Generic[StreamT]):
    """A stream with the fields by which its tuples are grouped."""

    __slots__ = ("_group", "_stream")

    def __init__(self, stream: EachVerbs[StreamT], group: tuple[str, ...]) -> None:
        self._stream = stream
        self._group = group

    @property
    def schema(self) -> StructType:
        """The fields of the tuples with their types."""
        return self._stream.schema

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return self._stream.fields

    @property
    def groupFields(self) -> tuple[str, ...]:
        """The names of the fields by which tuples are grouped."""
        return self._group

    def _by_group(self) -> tuple[StreamBase[StreamT], tuple[str, ...]]:
        return self._stream, self._group

    def toStream(self) -> StreamT:
        """Return the stream of the same tuples, without groups."""
        return cast("StreamT", self._stream)

    def _ends(self) -> Sequence[nodes.Node]:
        return self._stream._ends()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._stream._node.step}: {ddl(self.schema)}; by {', '.join(self._group)})"


class GroupedVerbs(
    Grouped[StreamT],
    AggregateVerbs[StreamT],
    ChainVerbs[StreamT],
    PersistentVerbs[StreamT, StateT],
    QueryVerbs[StreamT],
    WindowVerbs[WindowedT, EarlyT],
    StatefulEachVerbs[StreamT, StatefulT],
    Generic[StreamT, StateT, WindowedT, EarlyT, StatefulT],
):
    """The verbs of a grouped stream."""

    __slots__ = ()

    def each(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        function: object = None,
        filter: object = None,
        outputFields: OutputsLike | None = None,
        onError: OnErrorLike = "fail",
        replace: bool = False,
    ) -> Self:
        """Call `Stream.each` and keep the groups. Group fields cannot be replaced.

        Meaning: ``org.apache.storm.trident.fluent.GroupedStream.each``.
        """
        stream = self._stream._each(
            args, inputFields, function, filter, outputFields, onError, replace, group=self._group
        )
        return self._with_stream(stream)

    def filter(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        filter: object = None,
        onError: OnErrorLike = "fail",
    ) -> Self:
        """Call `Stream.filter` and keep the groups."""
        kept = self._stream.filter(*args, inputFields=inputFields, filter=filter, onError=onError)
        return self._with_stream(kept)

    def peek(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        action: object = None,
        onError: OnErrorLike = "fail",
    ) -> Self:
        """Call `Stream.peek` and keep the groups."""
        stream = self._stream.peek(*args, inputFields=inputFields, action=action, onError=onError)
        return self._with_stream(stream)

    def project(self, *fields: FieldsLike) -> Self:
        """Call `Stream.project` and keep the groups. `fields` must include all group fields."""
        step = self._stream._step("project")
        kept = self._stream._named(fields, step)
        self._check_group([name for name in self._group if name not in kept], step)
        return self._with_stream(self._stream.project(*fields))

    def drop(self, *fields: FieldsLike) -> Self:
        """Call `Stream.drop` and keep the groups. `fields` must not include a group field."""
        step = self._stream._step("drop")
        dropped = self._stream._named(fields, step)
        self._check_group([name for name in self._group if name in dropped], step)
        return self._with_stream(self._stream.drop(*fields))

    def rename(self, old: str | Mapping[str, str], new: str | None = None) -> Self:
        """Call `Stream.rename` and keep the groups. A renamed group field remains a group field."""
        stream = self._stream.rename(old, new)
        names = dict(zip(self.fields, stream.fields, strict=True))
        return self._with_stream(stream, tuple(names[name] for name in self._group))

    def _check_group(self, missing: Sequence[str], step: Step) -> None:
        """Raise an error if `step` would remove group fields, which are listed in `missing`."""
        if missing:
            raise step.wrong(f"the group field {missing[0]!r} must be kept; toStream() returns the ungrouped stream")

    def _with_stream(self, stream: StreamT, group: tuple[str, ...] | None = None) -> Self:
        """Return `stream` grouped by the fields `group`; None means the group fields of this stream."""
        return type(self)(cast("EachVerbs[StreamT]", stream), self._group if group is None else group)

    if not TYPE_CHECKING:  # see `StreamBase`

        def __getattr__(self, name: str) -> NoReturn:
            if not name.startswith("_") and hasattr(type(self._stream), name) and name not in names_elsewhere.GROUPED:
                message = f"'GroupedStream' has no verb {name!r}; the ungrouped stream has it: toStream().{name}"
            else:
                message = unknown_verb(self, name, names_elsewhere.GROUPED, self.fields)
            raise AttributeError(message, name=name, obj=self)
