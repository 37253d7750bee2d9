"""The base class of all streams, which holds a node of the plan, and errors for common mistakes with streams."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from pyspark.sql.types import StructType

from trident.base.names import FieldsLike, by_any_case, did_you_mean
from trident.base.spark_types import ddl
from trident.base.verb_call import Step
from trident.operations.aggregators import Aggregation, Reduction
from trident.operations.functions import Operation
from trident.plan import step_checks
from trident.plan.dead_letter_replays import with_replays
from trident.plan.nodes import Node
from trident.plan.step_register import Register
from trident.stream import names_elsewhere
from trident.stream.checked_calls import CheckedCalls
from trident.stream.display import Drawable

StreamT = TypeVar("StreamT", bound="StreamBase[Any]")
"""The class of the streams that verbs return. `trident.stream.stream` assembles that class from families of verbs."""

StatefulT = TypeVar("StatefulT", bound="StreamBase[Any]")
"""The class of the streams that an update of a state emits: they have the verbs `late`, `state` and `watermark`."""


class NotASequence(CheckedCalls):
    """A base of streams that raises TypeError if a stream is used as a truth value or as a sequence."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError("a Stream has no truth value: it only describes the steps of each batch")

    def __iter__(self) -> NoReturn:
        raise TypeError("a stream has no end and cannot be iterated; take(n) returns tuples of its spout's first batch")

    def __getitem__(self, name: object) -> NoReturn:
        raise TypeError(f"a stream cannot be indexed by {name!r}: name the field in a verb, such as project({name!r})")


class StreamBase(NotASequence, Drawable, Generic[StreamT]):
    """An immutable description of the steps of every batch. Each verb returns a new stream."""

    __slots__ = ("__weakref__", "_label", "_node", "_register")

    _changes: ClassVar[bool] = False
    """True for streams of changes."""

    def __init__(self, register: Register, node: Node, label: str) -> None:
        self._register = register
        self._node = node
        self._label = label
        register.viewed_by(self, node)

    @property
    def schema(self) -> StructType:
        """The fields of the tuples with their types."""
        return self._node.schema

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(self._node.schema.names)

    def _ends(self) -> list[Node]:
        return [self._node]

    def _step(self, verb: str) -> Step:
        return self._register.step(self._label, verb)

    def _new(self, node: Node, label: str, register: Register | None = None) -> StreamT:
        """Return a stream of the output of `node`.

        Its later steps are added to `register`; None means the register of this stream.
        """
        raise NotImplementedError

    def _then(self, node: Node) -> StreamT:
        """Add `node` to the plan as the step after this stream, and return the stream of the node's output."""
        node = with_replays(self._register, self._label, node)
        self._register.add(self._label, node)
        return self._new(node, self._label)

    def _inputs(self, fields: FieldsLike | None, step: Step) -> tuple[str, ...]:
        """Return the field names in `fields` after a check; None means all fields of this stream."""
        return self.fields if fields is None else step_checks.known_fields(self.schema, fields, step)

    def _check_reads(self, inputs: tuple[str, ...], operation: Operation, step: Step) -> None:
        """Raise TopologyError if an operation must not read these fields, or the fields that its text names.

        The operation creates or drops tuples, or is the condition of an aggregator.
        """

    def _of_part(self, node: Node, label: str) -> StreamT:
        """Return one of the streams into which `split` divides this stream."""
        return self._new(node, label)

    def _to_fold(
        self,
        group: tuple[str, ...],
        inputs: tuple[str, ...],
        how: Aggregation | Reduction,
        schema: StructType,
        step: Step,
    ) -> tuple[Node, tuple[str, ...], Aggregation | Reduction, StructType]:
        """Return the step whose tuples a state folds, the input fields, the folding and the state's value fields.

        A stream of changes replaces the user's folding by one that can also remove rows.
        """
        return self._node, inputs, how, schema

    def _named(self, fields: tuple[FieldsLike, ...], step: Step) -> tuple[str, ...]:
        """Return the field names in `fields`, the arguments of a verb such as `project`, after a check."""
        names = [name for argument in fields for name in step_checks.known_fields(self.schema, argument, step)]
        return step_checks.known_fields(self.schema, names, step)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node.step}: {ddl(self.schema)})"

    if not TYPE_CHECKING:  # otherwise a type checker would accept every misspelt verb

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(unknown_verb(self, name, names_elsewhere.STREAM, self.fields), name=name, obj=self)


class GroupwiseVerbs(CheckedCalls, Generic[StreamT]):
    """Verbs that streams and grouped streams share: they work on the whole batch, or on each group."""

    __slots__ = ()

    def _by_group(self) -> tuple[StreamBase[StreamT], tuple[str, ...]]:
        """Return the stream without groups, and the names of the group fields (none if it is not grouped)."""
        raise NotImplementedError


def unknown_verb(subject: object, name: str, known: Mapping[str, str], fields: tuple[str, ...] = ()) -> str:
    """Return the error message for an attribute `name` that `subject` lacks, with a suggestion.

    `known` maps names from other libraries to their replacements here. `fields` are the fields of a stream.
    """
    message = f"{type(subject).__name__!r} has no verb {name!r}"
    if name.startswith("_"):
        return message
    if name in fields:
        return f"{message}; {name!r} is a field: name it in a verb, such as project({name!r})"
    meant = by_any_case(name, known)
    if meant is not None:
        return f"{message}; use {known[meant]}"
    verbs = [verb for verb in dir(type(subject)) if not verb.startswith("_")]
    return message + (did_you_mean(name, verbs) or f"; it has {', '.join(verbs)}")
