"""Streams of changes: the verb asChanges, and the verbs that a stream of changes has."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar, cast

from pyspark.sql.types import StructField, StructType

from trident.base.change_kinds import CHANGE, KIND, KINDS, ChangeKind
from trident.base.names import FieldsLike, brief, did_you_mean
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.aggregator_kinds import presented_type
from trident.operations.aggregators import Aggregation, Reduction
from trident.operations.bundles import bundle_of
from trident.operations.changes import SAME, KindAfterFilter, KindOf
from trident.operations.debezium import Debezium
from trident.operations.error_policy import OnErrorLike
from trident.operations.functions import Call, Operation
from trident.operations.output_fields import OutputsLike
from trident.operations.retractions import retractable, retracting
from trident.operations.signed_sums import SignedPlan, signed_plan
from trident.plan import nodes, step_checks
from trident.plan.dead_letter_replays import with_replays
from trident.stream import names_elsewhere
from trident.stream.argument_types import EvolveLike, IndexLike
from trident.stream.arguments import Arguments
from trident.stream.base import StreamBase, StreamT, unknown_verb
from trident.stream.change_kinds import add_events, add_kinds
from trident.stream.each import EachVerbs
from trident.stream.grouped import Grouped
from trident.stream.indexes import with_indexes
from trident.stream.joins import merged
from trident.stream.map import MapVerbs
from trident.stream.persist import PersistentVerbs
from trident.stream.state import StateT
from trident.stream.tables import add_table

ChangesT = TypeVar("ChangesT", bound="StreamBase[Any]")
"""The class of streams of changes."""

PlainT = TypeVar("PlainT", bound="StreamBase[Any]")
"""The class of ordinary streams."""

_HOLDS = f"{CHANGE!r} holds the kind of each change"
_AS_CHANGES = "asChanges([kindField,] [kinds]), or asChanges(Debezium(fields))"


class AsChangesVerbs(EachVerbs[StreamT], Generic[StreamT, ChangesT]):
    """The verb that makes a stream of changes."""

    __slots__ = ()

    def _of_changes(self, node: nodes.Node) -> ChangesT:
        """Return the stream of changes that `node` emits."""
        raise NotImplementedError

    def asChanges(
        self,
        kindField: str | Debezium = CHANGE,
        kinds: Mapping[Any, ChangeKind] | None = None,
        onError: OnErrorLike = "fail",
    ) -> ChangesT:
        """Read each tuple as a change of a table: a field holds its kind (insert, update or delete).

        The stream of changes has the other fields, then the field ``_change_type`` with the kind: ``insert``,
        ``delete``, or for an update two tuples, ``update_preimage`` with the row before it and ``update_postimage``
        with the row after it. `persistentAggregate` and `toTable` of such a stream also remove rows. Meaning: the
        ``RowKind`` of Flink; the kinds are those of Delta's change data feed.

        Parameters
        ----------
        kindField : str or Debezium
            The field that holds the kind, by default ``_change_type``; it is replaced by ``_change_type``. Or a reader
            of events, ``Debezium("id long, name string")``: it reads the field ``value``, and its fields replace all
            others.
        kinds : mapping, optional
            The kind that each value of the field means: ``{"c": "insert", "d": "delete"}``, ``{1: "insert", -1:
            "delete"}``. Omitted: the field holds the names of the kinds.
        onError : "fail", "skip", "deadLetter" or DeadLetter
            The treatment of a tuple whose field has another value, or whose event cannot be read, as in `each`.

        Examples
        --------
        >>> from trident import Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> rows = [[("dog", 2, "c"), ("cat", 1, "c")], [("dog", 2, "d")]]
        >>> pets = TridentTopology().newStream("pets", FixedBatchSpout("name string, n long, op string", rows))
        >>> changes = pets.asChanges("op", {"c": "insert", "d": "delete"})
        >>> changes.take(2)
        [Row(name='dog', n=2, _change_type='insert'), Row(name='cat', n=1, _change_type='insert')]
        >>> changes.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "total")
        TridentState('pets.total': total struct<tuples:bigint,total_sum:bigint>; opaque)
        """
        step = self._step("asChanges")
        if isinstance(kindField, Debezium):
            if kinds is not None:
                raise step.wrong("kinds= applies to a field; Debezium events already contain their kinds")
            return self._of_changes(add_events(self, kindField, kindField, step, onError))
        if not isinstance(kindField, str):
            raise step.wrong(f"{brief(kindField)} is not the name of a field; write {_AS_CHANGES}")
        (name,) = step_checks.known_fields(self.schema, [kindField], step)
        read = KindOf(name, SAME if kinds is None else _checked(kinds, step))
        return self._of_changes(add_kinds(self, name, read, step, onError))


def _refuse_kind(read: tuple[str, ...], how: Aggregation | Reduction, step: Step) -> None:
    """Refuse an aggregate over the kind or grouped by it: every row that remains was added."""
    bundle = bundle_of(how)
    if CHANGE in read or any(CHANGE in member.inputs for member in (() if bundle is None else bundle.members)):
        raise step.wrong(
            f"cannot aggregate by {CHANGE!r}: an aggregate over changes has only the rows that currently exist, and "
            "all of these were added; to count the changes, aggregate toStream()"
        )


def _checked(kinds: object, step: Step) -> Mapping[Any, str]:
    if not isinstance(kinds, Mapping) or not kinds:
        raise step.wrong(f"kinds={brief(kinds)}: expected a mapping such as {{'c': 'insert', 'd': 'delete'}}")
    for value, kind in kinds.items():
        if kind not in KINDS:
            near = did_you_mean(kind, KINDS) if isinstance(kind, str) else ""
            raise step.wrong(f"kinds={{{brief(value)}: {brief(kind)}}}: expected one of {', '.join(KINDS)}{near}")
    return dict(kinds)


class ChangeVerbs(MapVerbs[StreamT], Generic[StreamT, StateT, PlainT]):
    """The verbs that a stream of changes implements differently from other streams, or refuses."""

    __slots__ = ()

    _changes: ClassVar[bool] = True

    def _plain(self) -> PlainT:
        """Return an ordinary stream of the same tuples."""
        raise NotImplementedError

    def _state_of(self, node: nodes.StateWriter) -> StateT:
        """Return the state that `node` updates."""
        raise NotImplementedError

    def toStream(self) -> PlainT:
        """Return the same tuples as an ordinary stream, in which ``_change_type`` is an ordinary field."""
        return self._plain()

    def project(self, *fields: FieldsLike) -> StreamT:
        """Keep only the named fields and the kind of change.

        A change of a dropped field still gives a removed and an added row.
        """
        step = self._step("project")
        names = tuple(name for name in self._named(fields, step) if name != CHANGE)
        return self._projected((*names, CHANGE) if names else names, step)

    def drop(self, *fields: FieldsLike) -> StreamT:
        """Drop the named fields, and keep all others. The kind of change cannot be dropped."""
        if CHANGE in self._named(fields, step := self._step("drop")):
            raise step.wrong(f"{_HOLDS}; toStream() returns an ordinary stream")
        return super().drop(*fields)

    def rename(self, old: str | Mapping[str, str], new: str | None = None) -> StreamT:
        """Rename one field, or several by a dict. The kind of change keeps its name."""
        if CHANGE in (old if isinstance(old, Mapping) else (old,)):
            step = self._step("rename")
            raise step.wrong(f"{_HOLDS}; toStream() returns an ordinary stream")
        return super().rename(old, new)

    def transform(self, function: Any, outputFields: OutputsLike | None = None, **frames: Any) -> StreamT:
        """Refuse the call: the result of a function of a whole batch cannot be attributed to single changes."""
        raise self._step("transform").wrong(
            "transform could combine added rows with removed rows; use each, map, flatMap or filter, which work row "
            "by row, or toStream().transform(...)"
        )

    def merge(self, *streams: StreamBase[Any]) -> StreamT:
        """Merge this stream of changes with others, within one batch, as `Stream.merge`."""
        merging = cast("list[StreamBase[StreamT]]", [self, *streams])
        return merged(self._register, merging, None, None)

    def deadLetters(self) -> PlainT:
        """Return the dead letters of the steps so far, as `Stream.deadLetters` does. They are tuples, not changes."""
        plain: Any = self._plain()
        letters: PlainT = plain.deadLetters()
        return letters

    def toTable(
        self,
        keyFields: FieldsLike,
        stateFactory: object = None,
        *,
        valueFields: FieldsLike | None = None,
        name: str | None = None,
        evolve: EvolveLike = None,
        initialState: object = None,
        backfill: bool = False,
        index: IndexLike = None,
    ) -> StateT:
        """Keep the latest row of each key in a state, as `Stream.toTable` does; a deletion removes the key.

        The last change of a key wins, in the order of the batches and of the tuples in each batch. A deletion of a
        key that is not there changes nothing. Meaning: ``KStream.toTable`` of Kafka Streams, where a null deletes.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> pets = TridentTopology().newStream("pets", FixedBatchSpout("id long, name string, op string", []))
        >>> pets.asChanges("op", {"c": "insert", "d": "delete"}).toTable("id")
        TridentState('pets.latest': id bigint, latest struct<name:string>; opaque)
        """
        table = add_table(self, keyFields, stateFactory, valueFields, name, CHANGE, evolve, initialState, backfill)
        return with_indexes(self._state_of(table), index)

    # --- overrides of methods that verbs of other streams use
    # -------------------------------------------------------------

    def _inputs(self, fields: FieldsLike | None, step: Step) -> tuple[str, ...]:
        """Return the checked names in `fields`; if it is None, all fields but the kind."""
        return self.fields[:-1] if fields is None else super()._inputs(fields, step)

    def _check_reads(self, inputs: tuple[str, ...], operation: Operation, step: Step) -> None:
        """Refuse a step that reads the kind: the removed row could then differ from the row that was added."""
        if CHANGE in inputs or CHANGE in operation.words:
            raise step.wrong(
                f"{_HOLDS}, which a step must not read: a row could then be removed with values other than those with "
                f"which it was added, and remain in states. Read the changes as tuples: toStream()"
            )

    def _each(self, *args: Any, **keywords: Any) -> StreamT:
        return self._with_kind_last(super()._each(*args, **keywords))

    def _function(self, call: Arguments) -> tuple[tuple[str, ...], Operation, StructType]:
        inputs, operation, outputs = super()._function(call)
        if CHANGE in outputs.names:
            raise call.step.wrong(f"{_HOLDS}, and cannot be replaced; call toStream() first")
        return inputs, operation, outputs

    def _part(self, node: nodes.Node) -> StreamT:
        """Add another step of the current verb, and return its stream."""
        self._register.add(self._label, node, part=True)
        return self._new(node, self._label)

    def _with_kind_last(self, stream: StreamT) -> StreamT:
        """Return the stream with the kind as the last field, after the fields that a function appended."""
        names = stream.schema.names
        if names[-1] == CHANGE:
            return stream
        step = Step(stream._node.step, stream._node.site)
        ordered = (*(name for name in names if name != CHANGE), CHANGE)
        gives = step.gives(select(stream.schema, ordered), ".kind last")
        return self._part(nodes.Project(stream._node, ordered, **gives))

    def _filtered(self, call: Arguments, onError: object) -> StreamT:
        """Filter row by row. If one row of an update pair is dropped, the other one becomes an insert or a delete."""
        return cast("ChangeVerbs[StreamT, Any, Any]", super()._filtered(call, onError))._one_image()

    def _of_part(self, node: nodes.Node, label: str) -> StreamT:
        return cast("ChangeVerbs[StreamT, Any, Any]", super()._of_part(node, label))._one_image()

    def _one_image(self) -> StreamT:
        """Make each change an insert or a delete, because the other row of an update may be missing."""
        step = Step(self._node.step, self._node.site)
        operation, gives = Operation(KindAfterFilter(), step.called, Call.VALUES), step.gives(self.schema, ".kinds")
        return self._part(nodes.Each(self._node, (CHANGE,), operation, KIND, **gives))

    def _mapped(self, call: Arguments, onError: object, many: bool) -> StreamT:
        """Replace the fields by the function's results, and keep the kind."""
        node = self._map_node(call, onError, many)
        step, outputs = Step(node.step, node.site), node.schema
        if many and node.function.call.pandas:
            raise step.wrong(
                "a pandas function may return any number of rows for many changes, so the rows cannot be matched to "
                "their changes: use map with a function of one tuple, or with one that returns a row for each row it "
                "gets"
            )
        if CHANGE.lower() in map(str.lower, outputs.names):
            raise step.wrong(f"{_HOLDS}; give the output field another name")
        schema = step_checks.appended(self.schema, outputs, step, replace=True)
        gives = step.gives(schema, ".values")
        each: nodes.Node = nodes.Each(self._node, node.inputs, node.function, outputs, node.onError, **gives)
        each = with_replays(self._register, self._label, each)
        self._register.add(self._label, each, part=True)
        names = (*outputs.names, CHANGE)
        project = nodes.Project(each, names, **step.gives(select(schema, names)))
        self._register.add(self._label, project)
        return self._new(project, self._label)

    def _to_fold(
        self,
        group: tuple[str, ...],
        inputs: tuple[str, ...],
        how: Aggregation | Reduction,
        schema: StructType,
        step: Step,
    ) -> tuple[nodes.Node, tuple[str, ...], Aggregation | Reduction, StructType]:
        """Return the step to fold, its input fields, an aggregation that can remove rows, and the state's fields."""
        _refuse_kind((*group, *inputs), how, step)
        plan = None
        if isinstance(how, Aggregation):
            plan = signed_plan(how, inputs, self.schema, presented_type(how))
        if plan is None:
            able = retractable(how, select(self.schema, inputs), step)
            node, reads, folding = self._node, (*inputs, CHANGE), retracting(able, inputs, presented_type(able))
        else:
            node, reads, folding = self._signed(plan, step), tuple(plan.outputs.names), plan.aggregation
        value = StructType([StructField(folding.output, folding.type)])
        schema = step_checks.appended(select(self.schema, group), value, step, of="the group")
        return node, reads, folding, schema

    def _signed(self, plan: SignedPlan, step: Step) -> nodes.Node:
        """Add the step that multiplies the numbers of a removed row by -1."""
        schema = step_checks.appended(self.schema, plan.outputs, step)
        operation, reads = Operation(plan.function, step.called, Call.VALUES), (CHANGE, *plan.inputs)
        node = nodes.Each(self._node, reads, operation, plan.outputs, **step.gives(schema, ".signed"))
        self._register.add(self._label, node, part=True)
        return node

    if not TYPE_CHECKING:  # see `StreamBase`

        def __getattr__(self, name: str) -> NoReturn:
            plain = type(self)._plain_type
            if not name.startswith("_") and hasattr(plain, name):
                message = (
                    f"a stream of changes has no verb {name!r}, which would treat a removed row as an added one. "
                    "Aggregate the changes with persistentAggregate, keep the rows with toTable, or read the changes "
                    f"as tuples with a field {CHANGE!r}: toStream().{name}"
                )
            else:
                message = unknown_verb(self, name, names_elsewhere.STREAM, self.fields)
            raise AttributeError(message, name=name, obj=self)


class GroupedChangeVerbs(Grouped[StreamT], PersistentVerbs[StreamT, StateT], Generic[StreamT, StateT]):
    """The verbs of grouped changes."""

    __slots__ = ()

    if not TYPE_CHECKING:  # see `StreamBase`

        def __getattr__(self, name: str) -> NoReturn:
            message = unknown_verb(self, name, names_elsewhere.GROUPED, self.fields)
            if not name.startswith("_") and hasattr(type(self._stream), name):
                message = f"grouped changes have no verb {name!r}; the ordinary stream has it: toStream().{name}"
            raise AttributeError(message, name=name, obj=self)
