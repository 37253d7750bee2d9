"""What every stream is: a node of the plan, the topology's register, and the rails around both."""

from collections.abc import Mapping
from typing import Any, Generic, NoReturn, TypeVar

from pyspark.sql.types import StructType

from trident.base.names import FieldsLike, by_any_case, did_you_mean
from trident.base.step import Step, caller
from trident.base.types import ddl
from trident.plan import rules
from trident.plan.nodes import Node
from trident.plan.register import Register
from trident.stream import foreign_names
from trident.stream.checked_calls import Told
from trident.stream.display import Shown

StreamT = TypeVar("StreamT", bound="StreamBase[Any]")
"""The class of streams that verbs give: `trident.stream.stream` puts it together from the families of verbs."""


class Rails(Told):
    """What a stream is not: neither a truth value nor a sequence of tuples."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError("a stream is a description of what happens to every batch, it is neither true nor false")

    def __iter__(self) -> NoReturn:
        raise TypeError("a stream has no end and cannot be iterated; take(n) gives tuples of its spout's first batch")

    def __getitem__(self, name: object) -> NoReturn:
        raise TypeError(
            f"a field of a stream is no object of its own: name {name!r} in a verb, such as project({name!r})"
        )


class StreamBase(Rails, Shown, Generic[StreamT]):
    """An immutable description of what happens to every batch; each verb gives a new stream."""

    __slots__ = ("_label", "_node", "_register")

    def __init__(self, register: Register, node: Node, label: str) -> None:
        self._register = register
        self._node = node
        self._label = label

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
        return Step(self._register.label(self._label, verb), caller(verb))

    def _new(self, node: Node, label: str, register: Register | None = None) -> StreamT:
        """Return a stream of what leaves this node, of the same topology unless another register is given."""
        raise NotImplementedError

    def _then(self, node: Node) -> StreamT:
        """Add a step to this stream."""
        self._register.add(self._label, node)
        return self._new(node, self._label)

    def _inputs(self, given: FieldsLike | None, step: Step) -> tuple[str, ...]:
        """The input fields as named, or all of them."""
        return self.fields if given is None else rules.known_fields(self.schema, given, step)

    def _named(self, fields: tuple[FieldsLike, ...], step: Step) -> tuple[str, ...]:
        """The fields of a verb that takes nothing but fields, one or more arguments of them."""
        names = [name for each in fields for name in rules.known_fields(self.schema, each, step)]
        return rules.known_fields(self.schema, names, step)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node.step}: {ddl(self.schema)})"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(unknown_verb(self, name, foreign_names.STREAM, self.fields), name=name, obj=self)


def unknown_verb(subject: object, name: str, known: Mapping[str, str], fields: tuple[str, ...] = ()) -> str:
    """The message for an attribute that is not there: what may have been meant. `known` are other libraries' names."""
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
