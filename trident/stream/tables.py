"""The verbs toTable (a stream's latest values as a table) and joinTable (a stream joined with a table)."""

from collections.abc import Sequence
from typing import Any, Generic

from pyspark.sql.types import StructField, StructType

from trident.base.errors import FieldNotFoundError
from trident.base.names import FieldsLike, brief, did_you_mean
from trident.base.spark_types import ddl, select
from trident.base.verb_call import Step
from trident.operations.column_updaters import LastOfKey
from trident.operations.functions import Query
from trident.operations.output_fields import OutputsLike
from trident.operations.query_functions import MapGet
from trident.operations.selections import check_ordered
from trident.operations.upserts import SourceKey
from trident.plan import joins, nodes, step_checks
from trident.plan.change_order import consolidated
from trident.plan.state_schema import keys_of
from trident.stream.argument_types import EvolveLike, IndexLike
from trident.stream.arguments import is_factory
from trident.stream.base import StreamBase, StreamT
from trident.stream.indexes import with_indexes
from trident.stream.ordered_changes import check_order
from trident.stream.shown_fields import nullable_fields, shown_fields
from trident.stream.state import StateBase, StateT
from trident.stream.state_specs import check_no_requests, factory_or_memory, state_spec, with_past
from trident.stream.value_checks import add_check

_TABLE = "toTable(keyFields, [stateFactory,] valueFields=, name=)"
_JOIN = "joinTable(state, [keys,] joinType='inner', outputFields=)"
_TYPES = ("inner", "left")


class TableVerbs(StreamBase[StreamT], Generic[StreamT, StateT]):
    """Verbs of streams and tables."""

    __slots__ = ()

    def _state_of(self, node: nodes.StateWriter) -> StateT:
        """Return the state that `node` updates."""
        raise NotImplementedError

    def toTable(
        self,
        keyFields: FieldsLike,
        stateFactory: object = None,
        *,
        valueFields: FieldsLike | None = None,
        orderBy: str | None = None,
        name: str | None = None,
        evolve: EvolveLike = None,
        initialState: object = None,
        backfill: bool = False,
        index: IndexLike = None,
    ) -> StateT:
        """Keep the latest tuple of each key in a state.

        The last tuple in the order of the batches, and of the tuples in each batch, is the latest. The state is
        committed with the batch. Read it with `joinTable`, with `stateQuery`, or by its name while the topology runs.
        Meaning: ``org.apache.kafka.streams.kstream.KStream.toTable``. Trident has no such verb; it is a
        `partitionPersist` with an updater that puts each tuple.

        Parameters
        ----------
        keyFields : str or list of str
            The fields of the state's key.
        stateFactory : StateFactory, optional
            The kind and location of the state. Omitted: ``MemoryMapState.opaque()``. With ``ttlSecs`` a key expires
            when no tuple with it has come for that time.
        valueFields : str or list of str, optional
            The fields to keep. Omitted: all other fields. The state's value is the struct ``latest`` of them.
        orderBy : str, optional
            One of the kept fields, such as the event time: a tuple with a lesser value than the stored row does not
            replace the row, whatever the order of the tuples, and is not in `newValuesStream`. Of equal values the
            last tuple wins; null is the least value. Omitted: the last tuple wins.
        name : str, optional
            The state's name, its identity over restarts; ``<stream>.latest`` if omitted.
        evolve : Evolution or list of Evolution, optional
            The former shapes of the values from which a start may continue; see `Evolution`.
        initialState : DataFrame, pyarrow.Table, path, state or InitialState, optional
            The initial content of a new state, before its first batch; see `InitialState`.
        backfill : bool
            True: a new state on existing streams first processes their earlier tuples, which are read again from the
            beginning of their sources. Default: it begins with the next batch.
        index : str or list, optional
            A field by which rows can be found: ``index="city"``; see `persistentAggregate`.

        Raises
        ------
        DuplicateNameError
            If another step updates a state of this name.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> users = TridentTopology().newStream("users", FixedBatchSpout("id long, name string, city string", []))
        >>> users.toTable("id")
        TridentState('users.latest': id bigint, latest struct<name:string,city:string>; opaque)
        """
        table = add_table(
            self, keyFields, stateFactory, valueFields, name, None, evolve, initialState, backfill, orderBy=orderBy
        )
        return with_indexes(self._state_of(table), index)

    def joinTable(
        self,
        state: StateBase[Any],
        keys: FieldsLike | None = None,
        joinType: str = "inner",
        outputFields: OutputsLike | None = None,
    ) -> StreamT:
        """Append to every tuple the value of its key in a state.

        A batch sees the state as of the previous batch, a DRPC request as of the last committed batch. A later
        change of the state does not change tuples that were emitted before. To join two streams by time, use
        `intervalJoin`; see `docs/decisions/0020`. Meaning: ``org.apache.kafka.streams.kstream.KStream.join`` (and
        ``leftJoin``) with a KTable; in Trident a `stateQuery` with MapGet.

        Parameters
        ----------
        state : TridentState
            A table that `toTable` made, or any other state of this topology with key fields. A value that is a struct
            is appended as its fields, any other value as one field.
        keys : str or list of str, optional
            The fields to look up by: as many as the state has key fields, of the same types. Omitted: the fields with
            the names of the state's keys.
        joinType : str
            "inner" (default): a tuple with a key that the state does not hold is dropped. "left": such a tuple is kept,
            and the new fields are null. A table that a stream fills is empty in the first batch, so "inner" drops the
            first tuples, unless that stream goes first (``newStream(bootstrap=True)``) or ``toTable(initialState=)``
            fills the table beforehand.
        outputFields : str or list of str, optional
            Names for the new fields. Needed if the stream has a field of the same name.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> users = topology.newStream("users", FixedBatchSpout("id long, name string, city string", []))
        >>> clicks = topology.newStream("clicks", FixedBatchSpout("user long, url string", []))
        >>> clicks.joinTable(users.toTable("id"), "user", joinType="left")
        Stream(clicks/1:joinTable(user): user bigint, url string, name string, city string)
        """
        step = self._step("joinTable")
        if not isinstance(state, StateBase):
            hint = "; make a table of a stream with stream.toTable(keyFields)" if isinstance(state, StreamBase) else ""
            raise step.wrong(f"{brief(state)} is not a state of this topology{hint}; write {_JOIN}")
        if state._register is not self._register:
            raise step.wrong(f"state {state.name!r} {self._register.why_foreign(state._register)}")
        if joinType not in _TYPES:
            near = did_you_mean(joinType, _TYPES) if isinstance(joinType, str) else ""
            raise step.wrong(
                f"joinType={joinType!r}: expected 'inner' or 'left'{near}; rows of the table without a matching "
                f"tuple do not appear in the stream"
            )
        updated = state._node
        held = keys_of(updated)
        if not held.names:
            raise step.wrong(f"state {state.name!r} has no key fields; read it with stateQuery")
        inputs = self._inputs(list(held.names) if keys is None else keys, step)
        step = Step(f"{step.label}({', '.join(inputs)})", step.called)
        step_checks.check_query_keys(select(self.schema, inputs), held, state.name, step)
        outputs = joins.renamed(shown_fields(updated, step), outputFields, step)
        query = Query(MapGet(), step.called, joining=joinType)
        schema = step_checks.appended(self.schema, outputs, step)
        return self._then(nodes.StateQuery(self._node, inputs, updated, query, outputs, **step.gives(schema)))


def add_table(
    stream: StreamBase[Any],
    keyFields: FieldsLike,
    stateFactory: object,
    valueFields: FieldsLike | None,
    name: str | None,
    change: str | None = None,
    evolve: EvolveLike = None,
    initialState: object = None,
    backfill: object = False,
    of_upserts: bool = False,
    orderBy: object = None,
) -> nodes.PartitionPersist:
    """Add the step that keeps the latest tuple of each key. `change` names the field of the change kind.

    A stream of upserts (`of_upserts`) has only the key of a deleted row, so a null in the key fails its batch.
    """
    step = stream._step("toTable")
    check_no_requests(stream._node, step)
    if is_factory(keyFields):
        raise step.wrong(f"{brief(keyFields)} is in the position of keyFields; write {_TABLE}")
    keys = step_checks.chosen(stream.schema, stream._inputs(keyFields, step), step)
    if change in keys.names:
        raise step.wrong(f"{change!r} holds the kind of each change and cannot be part of the key")
    step = Step(f"{step.label}({', '.join(keys.names)})", step.called)
    of_states = consolidated(stream._node)
    if change is not None and not of_states:
        check_order(stream._register, stream._node, keys.names, step)
    factory = factory_or_memory(stateFactory, step, _TABLE)
    step_checks.check_comparable(keys, step)
    values = _values(stream, valueFields, (*keys.names, change), step)
    order = None if orderBy is None else _order(orderBy, keys, values, step)
    spec = state_spec(stream._register, name, factory, step, default=f"{stream._label}.latest")
    inputs = tuple(dict.fromkeys([*keys.names, *values.names, *([change] if change else [])]))
    node = nodes.PartitionPersist(
        add_check(stream, keys.names, SourceKey(tuple(keys.names)), step, ".key") if of_upserts else stream._node,
        inputs,
        LastOfKey(step.called, tuple(values.names), change, of_states, order),
        select(stream.schema, inputs),
        keys,
        spec,
        **step.gives(step_checks.appended(keys, StructType([StructField("latest", values)]), step, of="the key")),
    )
    node = with_past(node, evolve, initialState, backfill, step)
    stream._register.add(stream._label, node)
    return node


def _order(orderBy: object, keys: StructType, values: StructType, step: Step) -> str:
    """Return the field by which a table orders its rows, after checking that it is one of the values."""
    if not isinstance(orderBy, str):
        raise step.wrong(f"orderBy={brief(orderBy)}: expected the name of one field, such as 'at'")
    if orderBy in keys.names:
        raise step.wrong(
            f"orderBy={orderBy!r} is a key field, so all rows of a key have the same value; order by a value field"
        )
    if orderBy not in values.names:
        near = did_you_mean(orderBy, values.names)
        raise step.error(
            FieldNotFoundError,
            f"orderBy={orderBy!r} is not among the fields that the table keeps ({ddl(values)}){near}; rows are "
            "compared by it, so add it to valueFields",
        )
    check_ordered(values[orderBy], "; order by another field", step)
    return orderBy


def _values(
    stream: StreamBase[Any], valueFields: FieldsLike | None, others: Sequence[str | None], step: Step
) -> StructType:
    """Return the fields of the table's value: those that the user named, or all fields but the `others`."""
    if valueFields is not None:
        return nullable_fields(step_checks.chosen(stream.schema, stream._inputs(valueFields, step), step))
    left = [name for name in stream.fields if name not in others]
    if not left:
        raise step.wrong(
            f"({ddl(stream.schema)}) has only key fields, so the table would have no value; to collect the distinct "
            "keys, use dropDuplicates"
        )
    return nullable_fields(select(stream.schema, left))
