"""Streams of upserts: the verb asUpserts, and the verbs of a stream whose deleted rows consist of the key only."""

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from trident.base.change_kinds import CHANGE
from trident.base.names import FieldsLike, brief
from trident.operations.changes import DeletesNull
from trident.operations.debezium import Debezium
from trident.operations.error_policy import OnErrorLike
from trident.plan import nodes, step_checks
from trident.stream import names_elsewhere
from trident.stream.argument_types import IndexLike
from trident.stream.base import StreamBase, StreamT, unknown_verb
from trident.stream.change_kinds import add_events, add_kinds
from trident.stream.each import EachVerbs
from trident.stream.indexes import with_indexes
from trident.stream.state import StateT
from trident.stream.tables import add_table

UpsertsT = TypeVar("UpsertsT", bound="StreamBase[Any]")
"""The class of streams of upserts."""

PlainT = TypeVar("PlainT", bound="StreamBase[Any]")
"""The class of ordinary streams."""

_AS_UPSERTS = "asUpserts([valueField]), or asUpserts(Debezium(fields))"


class AsUpsertsVerbs(EachVerbs[StreamT], Generic[StreamT, UpsertsT]):
    """The verb that makes a stream of upserts."""

    __slots__ = ()

    def _of_upserts(self, node: nodes.Node) -> UpsertsT:
        """Return the stream of upserts that `node` emits."""
        raise NotImplementedError

    def asUpserts(self, valueField: str | Debezium = "value", onError: OnErrorLike = "fail") -> UpsertsT:
        """Read each tuple as the latest row of its key, or as the deletion of a key. Earlier rows need not be known.

        `toTable` keeps such rows, and `changes` of the table gives them with the values before. Meaning: the source of
        a ``KTable`` of Kafka Streams, which is a compacted topic; the connector ``upsert-kafka`` of Flink.

        Parameters
        ----------
        valueField : str or Debezium
            A field that is null in a tuple that deletes its key, such as the value of a tombstone; it is dropped. Read
            the other fields from the message in an earlier step. Or a reader of events, ``Debezium("id long, name
            string")``: it reads the field ``value``, and its fields replace all others.
        onError : "fail", "skip", "deadLetter" or DeadLetter
            The treatment of a tuple whose event cannot be read, as in `each`.

        Examples
        --------
        >>> from trident import FromJson, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> messages = [[(b"7", b'{"name": "Ann"}'), (b"8", b'{"name": "Bob"}'), (b"7", None)]]
        >>> users = TridentTopology().newStream("users", FixedBatchSpout("key binary, value binary", messages))
        >>> users = users.each("key", int, "id long").each("value", FromJson("name string"))
        >>> users.project("id", "name", "value").asUpserts().toTable("id")
        TridentState('users.latest': id bigint, latest struct<name:string>; opaque)
        """
        step = self._step("asUpserts")
        if isinstance(valueField, Debezium):
            return self._of_upserts(add_events(self, valueField, valueField.upsert, step, onError))
        if not isinstance(valueField, str):
            raise step.wrong(f"{brief(valueField)} is not the name of a field; write {_AS_UPSERTS}")
        (name,) = step_checks.known_fields(self.schema, [valueField], step)
        return self._of_upserts(add_kinds(self, name, DeletesNull(), step, onError))


class UpsertVerbs(StreamBase[StreamT], Generic[StreamT, StateT, PlainT]):
    """The verbs of a stream of upserts."""

    __slots__ = ()

    def _plain(self) -> PlainT:
        """Return an ordinary stream of the same tuples."""
        raise NotImplementedError

    def _state_of(self, node: nodes.StateWriter) -> StateT:
        """Return the state that `node` updates."""
        raise NotImplementedError

    def toTable(
        self,
        keyFields: FieldsLike,
        stateFactory: object = None,
        *,
        valueFields: FieldsLike | None = None,
        name: str | None = None,
        index: IndexLike = None,
    ) -> StateT:
        """Keep the latest row of each key in a state, as `Stream.toTable` does; a deletion removes the key.

        The key must be the source's key, by which it orders the messages: the last message of a key wins. A
        null in a key field fails the batch.

        >>> from trident import Debezium, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> pets = TridentTopology().newStream("pets", FixedBatchSpout("value binary", []))
        >>> table = pets.asUpserts(Debezium("id long, name string")).toTable("id")
        >>> table.changes()
        ChangeStream(pets/3:changes: id bigint, name string, _change_type string)
        """
        table = add_table(self, keyFields, stateFactory, valueFields, name, CHANGE, of_upserts=True)
        return with_indexes(self._state_of(table), index)

    def toStream(self) -> PlainT:
        """Return the same tuples as an ordinary stream, in which ``_change_type`` is an ordinary field."""
        return self._plain()

    def deadLetters(self) -> PlainT:
        """Return the dead letters of the steps so far, as `Stream.deadLetters` does."""
        plain: Any = self._plain()
        letters: PlainT = plain.deadLetters()
        return letters

    if not TYPE_CHECKING:  # see `StreamBase`

        def __getattr__(self, name: str) -> NoReturn:
            message = unknown_verb(self, name, names_elsewhere.STREAM, self.fields)
            if not name.startswith("_") and hasattr(type(self)._plain_type, name):
                message = (
                    f"a stream of upserts has no verb {name!r}, because it lacks the values of replaced and deleted "
                    "rows. Call the verb before asUpserts, or keep the rows with toTable and use the table's "
                    f"changes(); toStream() returns the tuples with a field {CHANGE!r}"
                )
            raise AttributeError(message, name=name, obj=self)
