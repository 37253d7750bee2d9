"""The changes of a state, with the values before and after each batch, and the join of two tables."""

from typing import Any, Generic, cast

from pyspark.sql.types import DataType, StringType, StructField, StructType

from trident.base.changes import CHANGE
from trident.base.names import free_name
from trident.base.step import Step
from trident.operations.changes import Images, JoinedImages
from trident.operations.functions import Call, Operation, Query
from trident.operations.output_fields import OutputsLike
from trident.operations.query_functions import MapGet, SnapshotGet
from trident.plan import joins, nodes, rules
from trident.plan.state_schema import keys_of, shown_type
from trident.plan.states import state_traits
from trident.stream.base import StreamT
from trident.stream.state import StateBase
from trident.stream.tables import shown_fields
from trident_state.state_shape import StateKind
from trident_state.store import ttl_of_factory

_KIND = StructType([StructField(CHANGE, StringType())])
_TYPES = ("inner", "left")


class StateChangesVerbs(Generic[StreamT]):
    """The verbs of a state that give changes."""

    __slots__ = ()

    def changes(self) -> StreamT:
        """Return the changes of each batch as a stream of changes: the values before the batch and after it.

        For each key that the batch changed: ``insert`` if the key is new, ``delete`` if it left the state, otherwise
        ``update_preimage`` with the value before, and ``update_postimage`` with the value after. A key with the same
        value as before gives nothing. Values come as queries see them: the mean, for `Average`. A later aggregate over
        the changes is exact; one over `newValuesStream` would count a key again at each change.

        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog"]]))
        >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        >>> counts.changes().groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "words", name="having")
        TridentState('having': n bigint, words struct<tuples:bigint>; opaque)
        """
        state = cast("StateBase[Any]", self)
        stream: StreamT = state._of_changes(changes_of(state))
        return stream

    def join(
        self,
        other: StateBase[Any],
        joinType: str = "inner",
        outputFields: OutputsLike | None = None,
    ) -> StreamT:
        """Return the changes of the join of two tables by their keys: what each batch adds to it and takes away.

        Both states are from `persistentAggregate` or `toTable`, with key fields of the same types. A change of either
        side changes the joined row, exactly once: ``toTable`` of the result holds the join of the two tables as they
        are now. `joinTable` joins tuples with a table as it was when they came. Meaning:
        ``org.apache.kafka.streams.kstream.KTable.join`` (and ``leftJoin``), but with both images of each change.

        Parameters
        ----------
        other : TridentState
            The table whose values are appended to those of this one.
        joinType : str
            "inner" (default): keys that both tables have. "left": all keys of this table; the fields of `other` are
            null if it lacks the key.
        outputFields : str or list of str, optional
            Names for the fields of `other`. Needed if this table has a field of the same name.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> users = topology.newStream("users", FixedBatchSpout("id long, name string", [])).toTable("id")
        >>> cities = topology.newStream("cities", FixedBatchSpout("id long, city string", [])).toTable("id")
        >>> users.join(cities, joinType="left")
        ChangeStream(users/2:join: id bigint, name string, city string, _change_type string)
        """
        state = cast("StateBase[Any]", self)
        stream: StreamT = state._of_changes(_joined(state, other, joinType, outputFields))
        return stream


def changes_of(state: StateBase[Any]) -> nodes.Node:
    """Add the steps that give the changes of a state, and return the last one."""
    step = state._register.step(state._label, "changes")
    known = state._register.changes.get(state._node)
    if known is not None:
        return known
    values = _fields_of_values(state, step)
    keys = keys_of(state._node)
    schema = rules.appended(rules.appended(keys, values, step, of="the key"), _KIND, step)
    node, asked = _asked(state, state, _changed_keys(state, step), step)
    operation = Operation(Images(len(keys.names), _is_struct(state)), step.called, Call.VALUES, many=True)
    node = nodes.Map(node, (*keys.names, *asked), operation, **step.gives(schema))
    _end(state, node)
    state._register.changes[state._node] = node
    return node


def _joined(state: StateBase[Any], other: object, joinType: object, outputFields: OutputsLike | None) -> nodes.Node:
    """Add the steps that give the changes of the join of two tables, and return the last one."""
    step = state._register.step(state._label, "join")
    if not isinstance(other, StateBase):
        raise step.wrong(f"{other!r} is not a state of this topology; toTable(keyFields) makes a stream a table")
    if other._register is not state._register:
        raise step.wrong(f"state {other.name!r} {state._register.why_foreign(other._register)}")
    if joinType not in _TYPES:
        raise step.wrong(f"joinType={joinType!r}: expected 'inner' or 'left'; for a right join write other.join(this)")
    keys = keys_of(state._node)
    if not keys.names:
        raise step.wrong(f"state {state.name!r} has no key fields, so there is nothing to join by")
    rules.check_query_keys(keys, keys_of(other._node), other.name, step)
    left, right = _fields_of_values(state, step), _fields_of_values(other, step)
    schema = rules.appended(keys, left, step, of="the key")
    schema = rules.appended(schema, joins.renamed(right, outputFields, step), step)
    schema = rules.appended(schema, _KIND, step)
    sources = [_changed_keys(state, step)]
    if other._node is not state._node:
        theirs = _changed_keys(other, step)
        own = nodes.Project(theirs, tuple(keys_of(other._node).names), **step.gives(keys, ".keys"))
        sources.append(_part(state, own))
    node = sources[0]
    if len(sources) > 1:
        both = _part(state, nodes.Merge(tuple(sources), **step.gives(keys, ".both")))
        # Each key once: without members an aggregate gives the group fields alone.
        node = _part(state, nodes.Aggregate(both, tuple(keys.names), (), **step.gives(keys, ".keys once")))
    node, mine = _asked(state, state, node, step)
    node, yours = _asked(state, other, node, step, tuple(keys.names))
    operation = Operation(
        JoinedImages(len(keys.names), _is_struct(state), _is_struct(other), len(right.fields), joinType == "left"),
        step.called,
        Call.VALUES,
        many=True,
    )
    node = nodes.Map(node, (*keys.names, *mine, *yours), operation, **step.gives(schema))
    _end(state, node)
    return node


def _changed_keys(state: StateBase[Any], step: Step) -> nodes.Node:
    """Return a step that gives each key that a batch changed once."""
    keys, node = keys_of(state._node), state._new_values()
    if not keys.names:
        return node
    return _part(state, nodes.Project(node, tuple(keys.names), **step.gives(keys, f".{state.name}")))


def _asked(
    at: StateBase[Any], state: StateBase[Any], node: nodes.Node, step: Step, by: tuple[str, ...] | None = None
) -> tuple[nodes.Node, tuple[str, str]]:
    """Add to the tuples of `node` the values of a state after the batch and before it. Return the names of the two."""
    kind, keys, held = shown_type(state._node), keys_of(state._node).names, state._node
    assert kind is not None
    function, names = MapGet() if keys else SnapshotGet(), list[str]()
    for name, earlier in (("after", False), ("before", True)):
        names.append(free_name(f"{name} {state.name}", node.schema.names))
        output = StructType([StructField(names[-1], kind)])
        query = Query(function, step.called, get=True)
        gives = step.gives(rules.appended(node.schema, output, step), f".{name}.{state.name}")
        inputs = tuple(keys) if by is None else by
        node = _part(at, nodes.StateQuery(node, inputs, held, query, output, earlier, **gives))
    return node, (names[0], names[1])


def _fields_of_values(state: StateBase[Any], step: Step) -> StructType:
    """Return the fields of the values of a state whose new values replace former ones."""
    held = state._node
    if not state_traits(held).replaces(held):
        raise step.wrong(
            f"the changes of state {state.name!r} are not known: persistentAggregate and toTable have changes(); the "
            f"results of windows and the tuples of updaters are final, so newValuesStream() has all of them"
        )
    _check_keeps_before(held, step)
    return shown_fields(held, step)


def _check_keeps_before(held: nodes.HeldState, step: Step) -> None:
    """Refuse a state that has no value of before a batch, or whose keys leave it without a deletion."""
    factory = held.state.factory
    if factory.kind is StateKind.NON_TRANSACTIONAL:
        raise step.wrong(
            f"the changes of state {held.state.name!r} are not known: a nonTransactional state does not keep the "
            f"value of before a batch; make it opaque or transactional"
        )
    if ttl_of_factory(factory) is not None:
        raise step.wrong(
            f"state {held.state.name!r} has ttlSecs, and a key that expires gives no deletion, so what is built on "
            f"its changes would keep the key: remove ttlSecs, and delete rows by a stream of changes; "
            f"newValuesStream() has the new values of a state with ttlSecs"
        )


def _is_struct(state: StateBase[Any]) -> bool:
    kind: DataType | None = shown_type(state._node)
    return isinstance(kind, StructType)


def _part(state: StateBase[Any], node: nodes.Node) -> nodes.Node:
    state._register.add(state._label, node, part=True)
    return node


def _end(state: StateBase[Any], node: nodes.Node) -> None:
    """Add the last step. A change says what it replaces, so an aggregate over it counts nothing again."""
    state._register.add(state._label, node)
    state._register.everyChange.add(node)
