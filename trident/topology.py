"""The topology: where streams begin, where they meet, and where they are set to work."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.types import DataType, StructType

from trident.base.errors import DuplicateNameError, TopologyError
from trident.base.names import check_name
from trident.base.step import Step, caller
from trident.operations.joining import JoinOutFieldsMode, JoinType, JoinTypes
from trident.operations.outputs import OutputsLike, read_outputs
from trident.operations.poison import KeepLetters
from trident.operations.updating import held_fields
from trident.plan import rules
from trident.plan.explain import Known, explain_nodes
from trident.plan.nodes import (
    BestEffort,
    Node,
    RequestSource,
    SpoutSource,
    StateSpec,
    StateWriter,
    StaticState,
    walk,
)
from trident.plan.register import Register
from trident.stream import GroupedStream, Stream, elsewhere
from trident.stream.base import unknown_verb
from trident.stream.combine import joined, merged
from trident.stream.letters import letters_of, taken_out, with_letters
from trident.stream.multireduce import multi_reduced
from trident.stream.shown import Shown
from trident.stream.state import TridentState
from trident.stream.static import STATIC_USAGE, static_factory
from trident_spouts.adapters.adapt import as_spout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trident.log import RedisLog
    from trident.operations.multireducers import GroupedMultiReducer, MultiReducer
    from trident.runtime.running import RunningTopology
    from trident_spouts.executor import Spout
    from trident_spouts.protocols import UserContract


class TridentTopology(Shown):
    """Streams, and the states that they update: written once, then run batch by batch.

    Nothing here needs a JVM before `start`. Meaning: ``org.apache.storm.trident.TridentTopology``.

    >>> from trident import Count, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",), ("cat",)]]))
    >>> words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    TridentState('counts': word string, count bigint; opaque)
    >>> topology
    TridentTopology(streams: words; states: counts)
    """

    def __init__(self) -> None:
        self._register = Register()

    # --- where streams begin --------------------------------------------------------------------------------------

    def newStream(self, name: str, spout: "Spout | UserContract") -> Stream:
        """Begin a stream with the batches of a spout: one of `trident.spouts`, or an object of your own that extends
        `BatchSpout`, `TridentSpout`, `PartitionedSpout` or `OpaquePartitionedSpout`.

        `name` is the stream's identity in the transaction log, so it must stay the same over restarts: letters, digits,
        ``-``, ``_`` and ``.``. Meaning: ``org.apache.storm.trident.TridentTopology.newStream``.

        Raises
        ------
        DuplicateNameError
            Where a stream of this name begins already.
        """
        step = Step(f"{name}/0:newStream" if isinstance(name, str) else "newStream", caller("newStream"))
        if isinstance(spout, str) and not isinstance(name, str):
            raise step.error(TopologyError, f"the name {spout!r} comes first; write newStream(name, spout)")
        self._check_name("a stream", name, self._register.streams, step)
        label = f"{name}/0:newStream({type(spout).__name__})"
        try:
            adapted = as_spout(spout)
        except TopologyError as error:
            raise step.error(type(error), str(error)) from None
        node = SpoutSource(name, adapted, step=label, site=step.called, schema=adapted.schema)
        self._register.add(name, node)
        return Stream(self._register, node, name)

    def newDRPCStream(self, function: str, arguments: OutputsLike = "args string") -> Stream:
        """Begin a stream with the requests to a DRPC function: one tuple each, of these arguments.

        The function's answer is what leaves the last step of the stream, the one that no other step reads.
        Meaning: ``org.apache.storm.trident.TridentTopology.newDRPCStream``.

        >>> TridentTopology().newDRPCStream("lookup", "user long, day date")
        Stream(lookup()/0:newDRPCStream: user bigint, day date)
        """
        label = f"{function}()"
        step = Step(f"{label}/0:newDRPCStream", caller("newDRPCStream"))
        self._check_name("a DRPC function", function, self._register.functions, step)
        declared = read_outputs(arguments, step)
        if not all(declared.typed):
            raise step.error(TopologyError, f"the arguments {arguments!r} need types, such as 'user long, day date'")
        node = RequestSource(function, step=step.label, site=step.called, schema=declared.schema)
        self._register.add(label, node)
        return Stream(self._register, node, label)

    def newStaticState(
        self,
        stateFactory: object,
        *,
        keyFields: OutputsLike | None = None,
        valueType: str | DataType | None = None,
        name: str | None = None,
        topology: str | None = None,
    ) -> TridentState:
        """A state that this topology asks and never writes: another topology's, or what is there already.

        Every read of another topology's state shows whole batches of it; a batch that is tried again may see a later
        one. Meaning: ``org.apache.storm.trident.TridentTopology.newStaticState``.

        Parameters
        ----------
        stateFactory : StateFactory, dict or ReadOnlyMapState
            Where another topology keeps it, such as ``RedisMapState.opaque(url)``; or the entries themselves; or an
            object of your own with ``multiGet(keys)`` (or ``get()``, without key fields).
        keyFields : str, list of str or StructType, optional
            Its key, ``"user long, day date"``. Omitted: one value.
        valueType : str or DataType
            The type of its values, ``"long"``.
        name : str, optional
            Its name in the topology that writes it.
        topology : str, optional
            The name of the topology that writes it.

        Examples
        --------
        >>> topology = TridentTopology()
        >>> tweeters = topology.newStaticState(
        ...     {"/a": ["sally", "bob"]}, keyFields="url string", valueType="array<string>", name="tweeters"
        ... )
        >>> tweeters
        TridentState('tweeters': url string, value array<string>; static)
        """
        step = Step(f"{name or 'static'}/0:newStaticState", caller("newStaticState"))
        factory, name = static_factory(stateFactory, name, topology, len(self._register.statics), step)
        self._register.check_free(name, step)
        self._check_name("a state", name, {}, step)
        keys, value = held_fields(stateFactory, StructType([]), keyFields, valueType, STATIC_USAGE, step)
        rules.group_keys(keys, step)
        schema = rules.appended(keys, StructType([value]), step, of="the key")
        spec = StateSpec(name, factory)
        node = StaticState(keys, spec, topology, step=f"{name}/0:newStaticState", site=step.called, schema=schema)
        self._register.add(name, node)
        return TridentState(self._register, node, name)

    # --- where they meet ------------------------------------------------------------------------------------------

    def merge(
        self, *streams: Stream, outputFields: OutputsLike | None = None, sourceField: str | None = None
    ) -> Stream:
        """The tuples of all these streams, WITHIN ONE BATCH: their spouts share txids from here on.

        By position: the types must be the same, the names are the first stream's unless others are given. No tuple is
        dropped for being there twice. `sourceField` names one more field, which holds the name of the stream that a
        tuple comes from. Meaning: ``org.apache.storm.trident.TridentTopology.merge``.

        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> a = topology.newStream("a", FixedBatchSpout("word string", [[("dog",)]]))
        >>> b = topology.newStream("b", FixedBatchSpout("text string", [[("cat",)]]))
        >>> topology.merge(a, b)
        Stream(a-b/0:merge: word string)
        >>> topology.merge(a, b, sourceField="source").take(2)
        [Row(word='dog', source='a'), Row(word='cat', source='b')]
        """
        return merged(self._register, _flat(streams), outputFields, sourceField)

    def join(
        self,
        streams: Sequence[Stream],
        keys: object,
        outputFields: OutputsLike | None = None,
        joinType: JoinTypes = JoinType.INNER,
        mode: str = JoinOutFieldsMode.COMPACT,
    ) -> Stream:
        """All combinations of tuples with equal keys, one of each stream, WITHIN ONE BATCH.

        Tuples that arrive in different batches never meet; a state that is asked with `stateQuery` remembers.
        Null keys meet, as in Trident and unlike SQL.
        Meaning: ``org.apache.storm.trident.TridentTopology.join``.

        Parameters
        ----------
        streams : list of Stream
            Two or more.
        keys : list of fields, one for each stream, or one text for all
            ``["id", "user_id"]``, ``["a, b", ["c", "d"]]``, ``"id"``. They pair up by position and need equal types.
        outputFields : str or list of str, optional
            Names for the keys, then every stream's other fields. Needed where two streams share a name.
        joinType : str or list of JoinType
            "inner" (default); for two streams "left" (the second may be missing), "right" and "full"; for any number a
            list that says of each stream whether it must be there (`JoinType.INNER`) or may be missing
            (`JoinType.OUTER`): a key of which an INNER stream has no tuple leaves nothing, and an OUTER stream without
            tuples of the key gives nulls. The key is then that of a stream that is there.
        mode : str or JoinOutFieldsMode
            "compact" (default): the keys once. "preserve": all fields of every stream, in their order, all of them null
            where the stream is missing.

        Examples
        --------
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> a = topology.newStream("a", FixedBatchSpout("id long, x string", [[(1, "x")]]))
        >>> b = topology.newStream("b", FixedBatchSpout("key long, x string", [[(1, "y")]]))
        >>> topology.join([a, b], ["id", "key"], "id, ax, bx")
        Stream(a-b/0:join(id): id bigint, ax string, bx string)
        >>> c = topology.newStream("c", FixedBatchSpout("id long, z string", [[(1, "z"), (2, "zz")]]))
        >>> topology.join([a, b, c], ["id", "key", "id"], "id, ax, bx, z", ["outer", "outer", "inner"]).take(2)
        [Row(id=1, ax='x', bx='y', z='z'), Row(id=2, ax=None, bx=None, z='zz')]
        """
        return joined(self._register, streams, keys, outputFields, joinType, mode)

    def multiReduce(
        self,
        streams: Sequence[Stream] | Sequence[GroupedStream],
        inputFields: object,
        reducer: "MultiReducer | GroupedMultiReducer",
        outputFields: OutputsLike,
    ) -> Stream:
        """What a reducer emits that sees the tuples of all these streams, WITHIN ONE BATCH.

        Plain streams: partition by partition, once for every partition of every batch, also an empty one. Tuples stay
        in their partitions; where no `parallelismHint` says how many there are, the whole batch is one. Grouped
        streams: group by group, each stream by its own group fields, which pair up by position.
        Meaning: ``org.apache.storm.trident.TridentTopology.multiReduce``.

        Parameters
        ----------
        streams : list of Stream, or list of GroupedStream
            Two or more.
        inputFields : list of fields, one for each stream, or one text for all; None
            What the reducer sees of each stream; None means all fields.
        reducer : MultiReducer or GroupedMultiReducer
            The one for plain, the other for grouped streams.
        outputFields : str, list of str or StructType
            What it emits, with types: ``"user string, total long"``. Group fields are not put before.

        Examples
        --------
        See `MultiReducer` and `GroupedMultiReducer`.
        """
        return multi_reduced(self._register, streams, inputFields, reducer, outputFields)

    # --- what failed ------------------------------------------------------------------------------------------------

    def deadLetters(self) -> Stream:
        """The dead letters of all steps written so far, as one stream: see `Stream.deadLetters`.

        Write it behind the last step with ``onError="deadLetter"``. As `merge` does, it brings the streams of all these
        steps into one batch group; for groups that are to stay apart, ask a stream of each.
        """
        failing = with_letters(self._register.nodes)
        if not failing:
            site = caller("deadLetters")
            raise TopologyError(
                f"deadLetters (called at {site.place}): no step makes dead letters yet; give one onError='deadLetter', "
                "and write this behind it"
            )
        return letters_of(self._register, failing)

    def deadLetterState(self, stateFactory: object, *, name: str = "deadLetters", most: int = 10_000) -> TridentState:
        """Keep the dead letters of all steps written so far in a state, the newest `most` of them.

        It is a state like any other: ``running.state("deadLetters").toPandas()``, `openState` while the topology is
        stopped, `stateQuery`; a factory with ``ttlSecs=`` lets letters pass away by their age. The key is the letter's
        id, the value the rest of it.

        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> topology = TridentTopology()
        >>> lines = topology.newStream("lines", FixedBatchSpout("line string", [["1", "x"]]))
        >>> numbers = lines.each("line", int, "n long", onError="deadLetter")
        >>> topology.deadLetterState(MemoryMapState.opaque()).name
        'deadLetters'
        """
        letters = self.deadLetters()
        back = taken_out(self._register)
        everything = merged(self._register, [letters, *back], None, None) if back else letters
        return everything.partitionPersist(stateFactory, KeepLetters(most), name=name)

    # --- what there is to run -------------------------------------------------------------------------------------

    @property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps that update states."""
        return tuple(self._register.states.values())

    @property
    def sinks(self) -> tuple[Node, ...]:
        """What has an effect: the steps that update states or write, and those peeks and Debugs that lead to none."""
        return (*self.states, *self._register.sinks.values(), *self._register.leaves())

    @property
    def requests(self) -> dict[str, tuple[RequestSource, Node]]:
        """The DRPC functions: where each begins, and the step whose tuples are its answer.

        Raises TopologyError where two steps could be the answer.
        """
        return self._register.requests()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every step that leads to an effect or to an answer, each after those that it reads."""
        return tuple(walk(*self.sinks, *(leaf for _, leaf in self.requests.values())))

    # --- setting to work ------------------------------------------------------------------------------------------

    def start(
        self,
        spark: "SparkSession | None" = None,
        *,
        name: str | None = None,
        checkpointLocation: str | Path | None = None,
        **options: Any,
    ) -> "RunningTopology":
        """Set the topology to work and return its handle at once.

        Parameters
        ----------
        spark : SparkSession, optional
            The session to run on; else the active one, else a local one. Its runtime confs are copied to sessions of
            the run's own, and it is never changed.
        name : str, optional
            The topology's identity: with the names of states and streams it says what belongs together over restarts.
        checkpointLocation : path, optional
            Where the transaction log and the memory states live. Without it nothing survives the run.
        log : RedisLog, optional
            Keep the transaction log in Redis instead, for a driver that may move to another machine.
        availableNow : bool
            Run what there is, then stop.
        processingTime : str or float
            Begin a batch at most this often: ``"1 second"``, or seconds.
        requireExactlyOnce : bool
            Refuse states that are promised less; `explain` shows what each is promised.
        maxAttempts : int
            A batch that failed so often stops its group with the cause. Default 5.
        maxSpoutPending : int
            How many batches may be on their way, planned and not yet committed; they commit in order. Default 2.
        messageTimeoutSecs : float
            An attempt whose Spark work takes longer is cancelled and tried again. Default 300.
        commitRetrySecs : float or None
            How long a store that is away or full is asked again before the group stops; the batch stays frozen and the
            next start commits it. Default 300, None for ever.
        rewindBytes : int
            How much frozen content the log keeps for a store that lost its last writes. Default 2 GB.
        replace : bool
            Stop the topology of this name that runs in this process, and take its place.

        Raises
        ------
        GuaranteeError, TopologyActiveError, LogError, StateError
            Where it cannot start; the message names the way out.
        """
        if not self._register.streams:
            raise TopologyError(
                "the topology has no stream from a spout, so there is nothing to run; begin with newStream"
            )
        if not self.sinks and not self._register.functions:
            raise TopologyError(
                "no stream of the topology has an effect: end one in persistentAggregate, or look at it with "
                "each(Debug()), peek(...) or show()"
            )
        from trident.runtime.start import start

        given = {"name": name, "checkpointLocation": checkpointLocation}
        options |= {key: value for key, value in given.items() if value is not None}
        return start(self, spark, **options)

    def reset(self, name: str, checkpointLocation: str | Path | None = None, *, log: "RedisLog | None" = None) -> None:
        """Drop the transaction log of `name` and every state that this topology declares, together. Say where they
        are as `start` was told.

        Raises
        ------
        TopologyActiveError
            While it runs in this process.
        StateOwnedError
            Where a state's place holds another topology's state; that is not touched.
        """
        from trident.runtime.reset import reset

        reset(self, name, checkpointLocation, log)

    # --- looking at it --------------------------------------------------------------------------------------------

    def explain(self) -> None:
        """Print every stream's steps (who runs them: Spark itself, Python in its workers, the driver; in how many
        partitions, where that was asked for), the batch groups and stages they run in, and what each state is promised.

        Starts no JVM. `Stream.explainSpark` prints what Spark makes of a stream.
        """
        from trident.compiler.stages import cut
        from trident.compiler.whereabouts import stage_lines, whereabouts

        program = cut(self)
        answers = {id(leaf): function for function, (_, leaf) in self.requests.items()}
        print(explain_nodes(self._ends(), Known(answers, whereabouts(program), stage_lines(program))))

    def _ends(self) -> Sequence[Node]:
        ends = self._register.ends()
        branches = [node.branch.ends() for node in ends if isinstance(node, BestEffort)]
        return [*ends, *(end for branch in branches for end in branch)]

    def __repr__(self) -> str:
        register = self._register
        parts = (("streams", [*register.streams]), ("DRPC", [*register.functions]), ("states", [*register.states]))
        told = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
        return f"TridentTopology({told})"

    def __getattr__(self, name: str) -> NoReturn:
        message = unknown_verb(self, name, elsewhere.TOPOLOGY)
        if not name.startswith("_") and hasattr(Stream, name) and name not in elsewhere.TOPOLOGY:
            message = f"'TridentTopology' has no verb {name!r}; a stream has: newStream('name', spout).{name}"
        raise AttributeError(message, name=name, obj=self)

    def _check_name(self, what: str, name: str, taken: dict[str, Any], step: Step) -> None:
        try:
            check_name(what, name)
        except TopologyError as error:
            raise step.error(TopologyError, str(error)) from None
        if name in taken:
            raise step.error(DuplicateNameError, f"{what} of this name begins at {taken[name].site.place} already")


def _flat(streams: Sequence[Any]) -> list[Any]:
    """The streams, also where they came as one list."""
    if len(streams) == 1 and isinstance(streams[0], list | tuple):
        return list(streams[0])
    return list(streams)
