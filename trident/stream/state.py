"""The verbs of a state in a topology."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from pyspark.sql.types import StructType

from trident.base.spark_types import ddl
from trident.plan import nodes
from trident.plan.states import state_traits
from trident.plan.step_register import Register
from trident.stream import names_elsewhere
from trident.stream.base import StreamT, unknown_verb
from trident.stream.display import Drawable

_NO_ENTRIES = f"a state of a topology describes its updates, and has no entries; use {names_elsewhere.STATE['get']}"

StateT = TypeVar("StateT", bound="StateBase[Any]")
"""The class of the states that verbs return."""


class StateBase(Drawable, Generic[StreamT]):
    """A state that a topology updates or reads."""

    __slots__ = ("_label", "_node", "_register")

    _stream_type: type[StreamT]
    """The class of the stream that `newValuesStream` returns."""

    def __init__(self, register: Register, node: nodes.HeldState, label: str) -> None:
        self._register = register
        self._node = node
        self._label = label

    @property
    def name(self) -> str:
        """The state's name: ``running.state(name)`` reads the state while the topology runs."""
        return self._node.state.name

    @property
    def schema(self) -> StructType:
        """The key fields of the state and the field of its value, with their types."""
        return self._node.schema

    def _ends(self) -> Sequence[nodes.Node]:
        return [self._node]

    def newValuesStream(self, everyChange: bool = False) -> StreamT:
        """Return the new values of each batch as a stream: one tuple for each key that the batch changed.

        A key's new value replaces its previous one. So a later aggregate over all batches that would count a key again
        at each change, such as Count or Sum, is refused, unless `everyChange` declares that it counts changes. The
        results of windows, and the tuples of updaters, are final.

        For a state of `partitionPersist` the stream has the tuples that the updater emits. Raises TopologyError for an
        updater that declares no output fields, for a watermark, and for a static state.

        A value comes as it is stored, so that a later state can combine it; for `Average` it is the struct of sum and
        count. `running.state(name)`, `stateQuery` and `joinTable` give the mean, and so does the aggregator's
        `present`: ``each("mean", Average().present, "shown double")``. Meaning:
        ``org.apache.storm.trident.TridentState.newValuesStream``.
        """
        node = self._new_values()
        if not isinstance(everyChange, bool):
            raise self._register.step(self._label, "newValuesStream").wrong(
                f"everyChange={everyChange!r}: expected True or False"
            )
        if everyChange:  # a separate node: `everyChange` applies only to the stream that this call returns
            step = self._register.step(self._label, "newValuesStream")
            node = nodes.Project(node, tuple(node.schema.names), **step.gives(node.schema))
            self._register.add(self._label, node)
            self._register.everyChange.add(node)
        return self._stream_type(self._register, node, self._label)

    def _of_changes(self, node: nodes.Node) -> Any:
        """Return the stream of changes that `node` emits."""
        raise NotImplementedError

    def _new_values(self) -> nodes.Node:
        node, new_values = self._node, state_traits(self._node).new_values
        if new_values == "own":
            return node
        step = self._register.step(self._label, "newValuesStream")
        if not isinstance(node, nodes.EmittingUpdate):
            raise step.wrong(f"state {self.name!r} is {new_values}")
        if not node.outputs.fields:
            raise step.wrong(
                f"the updater of state {self.name!r} declares no output fields: pass outputFields to partitionPersist "
                f"({node.site.location}), such as 'word string'"
            )
        emitted = self._register.emitted.get(node)
        if emitted is None:
            emitted = nodes.Emitted(node, **step.gives(node.outputs))
            self._register.add(self._label, emitted)
            self._register.emitted[node] = emitted
        return emitted

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError(_NO_ENTRIES)

    def __iter__(self) -> NoReturn:
        raise TypeError(_NO_ENTRIES)

    def __repr__(self) -> str:
        kind = "static" if isinstance(self._node, nodes.StaticState) else self._node.state.factory.kind.value
        return f"TridentState({self.name!r}: {ddl(self.schema)}; {kind})"

    if not TYPE_CHECKING:  # see `StreamBase`

        def __getattr__(self, name: str) -> NoReturn:
            if not name.startswith("_") and hasattr(self._stream_type, name) and name not in names_elsewhere.STATE:
                message = (
                    f"'TridentState' has no verb {name!r}; call it on the stream of new values: newValuesStream()."
                )
                message += name
            else:
                message = unknown_verb(self, name, names_elsewhere.STATE)
            raise AttributeError(message, name=name, obj=self)
