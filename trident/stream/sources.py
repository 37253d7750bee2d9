"""The verbs of a topology that begin a stream (newStream, newDRPCStream) or name a state to read (newStaticState)."""

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, StructType

from trident.base.errors import DuplicateNameError, TopologyError
from trident.base.verb_call import Step, caller
from trident.operations.output_fields import OutputsLike, read_outputs
from trident.operations.updater_checks import held_fields
from trident.plan import step_checks
from trident.plan.nodes import RequestSource, SpoutSource, StateSpec, StaticState
from trident.plan.split_schema import streams_of
from trident.plan.step_register import Register
from trident.stream.arguments import name_of
from trident.stream.display import Drawable
from trident.stream.split import SplitStreams, declared_streams
from trident.stream.static_states import STATIC_USAGE, static_factory
from trident.stream.stream import Stream, TridentState
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.messages.rich_spout import RichSpout

if TYPE_CHECKING:
    from trident_spouts.executor import Spout
    from trident_spouts.protocols import UserContract


class SourceVerbs(Drawable):
    """Verbs of a topology that begin a stream, or name a state to read."""

    _register: Register

    def newStream(
        self,
        name: str,
        spout: "Spout | UserContract",
        *,
        formerly: str | None = None,
        anew: bool = False,
        bootstrap: bool = False,
    ) -> Stream:
        """Begin a stream with the batches of a spout.

        Meaning: ``org.apache.storm.trident.TridentTopology.newStream``.

        Parameters
        ----------
        name : str
            The stream's name: letters, digits, ``-``, ``_`` and ``.``. The transaction log keeps the position of the
            source under this name.
        spout : Spout, BatchSpout, TridentSpout, PartitionedSpout, OpaquePartitionedSpout, RichSpout, TransactionSpout
            The source: a spout of `trident.spouts`, or your object that extends one of the contracts.
        formerly : str, optional
            The name that this stream had in earlier programs; the stream continues at the position of the stream of
            that name. It may remain in the code: it has no effect once a batch was frozen under `name`. Remove
            the argument before another stream of this topology gets the former name. The start is refused if the log
            knows both names from earlier programs; two streams cannot have the same former name.
        anew : bool
            Let the stream begin at the beginning of its source, if the start would otherwise be refused because its
            position is ambiguous: the log has another kind of source under this name, or streams of other names
            disappear in the same start. Remove `anew` after the first start. If the log already has the stream with
            this source, the stream continues, with a warning that `anew` has no effect; but the next rename would read
            the source again.
        bootstrap : bool
            Read this stream to its end before streams without `bootstrap` begin that share its batches, for example
            because they look up its `toTable` by `joinTable`. The end is reached once the source has no more tuples and
            all that it gave are committed. After a restart the stream is read to its end again first. The source must
            have an end: while it has tuples for every batch, the other streams wait. Meaning: a bootstrap stream of
            Apache Samza.

        Raises
        ------
        DuplicateNameError
            If the topology has a stream of this name.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> TridentTopology().newStream("orders", FixedBatchSpout("id long", [[1]]), formerly="sales")
        Stream(orders/0:newStream(FixedBatchSpout): id bigint)
        """
        node, step = self._source("newStream", name, spout, formerly, anew, bootstrap)
        if streams := streams_of(node):
            listed = ", ".join(each for each, _ in streams)
            raise step.wrong(f"the spout declares several streams ({listed}); call newStreams(name, spout)")
        self._register.add(name, node)
        return Stream(self._register, node, name)

    def newStreams(
        self,
        name: str,
        spout: RichSpout,
        *,
        formerly: str | None = None,
        anew: bool = False,
        bootstrap: bool = False,
    ) -> SplitStreams[Stream]:
        """Begin the named streams of one spout: a RichSpout with a dict as `outputFields`.

        The streams belong to one source: a batch has the tuples of all of them, and a message is acknowledged when its
        tuples on all streams are durable. Meaning: ``OutputFieldsDeclarer.declareStream`` of Storm.

        Parameters
        ----------
        name : str
            The source's name, under which the log keeps its position; each stream is called ``name.stream``.
        spout : RichSpout
            A source of messages; `Collector.emit` names the stream of each tuple.
        formerly, anew, bootstrap
            As for `newStream`.

        Returns
        -------
        SplitStreams
            The streams by name, ``shop.orders`` or ``shop["orders"]``; or all in order, ``orders, errors = ...``.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import RichSpout
        >>> class Shop(RichSpout):
        ...     outputFields = {"orders": "id long, price double", "errors": "line string"}
        ...     def nextTuple(self, collector):
        ...         collector.emit((1, 2.5), messageId=7, stream="orders")
        ...         collector.emit("1;2.5", messageId=7, stream="errors")
        >>> shop = TridentTopology().newStreams("shop", Shop())
        >>> shop.orders
        Stream(shop.orders/0:orders: id bigint, price double)
        """
        node, step = self._source("newStreams", name, spout, formerly, anew, bootstrap)
        if not streams_of(node):
            raise step.wrong(
                "the spout declares one stream; call newStream(name, spout), or declare several in the spout: "
                "outputFields = {'orders': 'id long', 'errors': 'line string'}"
            )
        streams = declared_streams(spout.outputFields, step, "outputFields = {'name': 'field type, ...'}")
        self._register.add(name, node)
        return SplitStreams(Stream(self._register, node, name), node, streams)

    def _source(
        self, verb: str, name: str, spout: "Spout | UserContract", formerly: str | None, anew: bool, bootstrap: bool
    ) -> tuple[SpoutSource, Step]:
        """Read the arguments of a call that begins with a spout. Return its node, which is not yet in the plan."""
        self._register.begin_call()
        step = Step(f"{name}/0:{verb}" if isinstance(name, str) else verb, caller(verb))
        if isinstance(spout, str) and not isinstance(name, str):
            raise step.wrong(f"expected the name before {spout!r}; write {verb}(name, spout)")
        self._check_name("a stream", name, self._register.streams, step)
        label = f"{name}/0:{verb}({type(spout).__name__})"
        try:
            adapted = as_spout(spout)
        except TopologyError as error:
            raise step.error(type(error), str(error)) from None
        if formerly is not None:
            name_of("a stream", formerly, step)
        return SpoutSource(
            name, adapted, formerly, anew, bootstrap, step=label, site=step.called, schema=adapted.schema
        ), step

    def newDRPCStream(self, function: str, arguments: OutputsLike = "args string") -> Stream:
        """Begin a stream of the requests to a DRPC function. A request's arguments are one tuple.

        The answer is the output of the stream's last step. Meaning:
        ``org.apache.storm.trident.TridentTopology.newDRPCStream``.

        >>> from trident import TridentTopology
        >>> TridentTopology().newDRPCStream("lookup", "user long, day date")
        Stream(lookup()/0:newDRPCStream: user bigint, day date)
        """
        self._register.begin_call()
        label = f"{function}()"
        step = Step(f"{label}/0:newDRPCStream", caller("newDRPCStream"))
        self._check_name("a DRPC function", function, self._register.functions, step)
        declared = read_outputs(arguments, step)
        if not all(declared.typed):
            raise step.wrong(f"the arguments {arguments!r} need types, such as 'user long, day date'")
        node = RequestSource(function, **step.gives(declared.schema))
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
        """Name a state that this topology reads and never writes: another topology's state, or your data.

        A read of another topology's state shows only whole batches of that topology. If a batch of this topology is
        retried, the new attempt may see a later batch of the other topology. Meaning:
        ``org.apache.storm.trident.TridentTopology.newStaticState``.

        Parameters
        ----------
        stateFactory : StateFactory, dict or ReadOnlyMapState
            The factory with which another topology keeps the state, such as ``RedisMapState.opaque(url)``; or a dict of
            entries; or your object with ``multiGet(keys)`` (or ``get()``, without key fields).
        keyFields : str, list of str or StructType, optional
            The state's key, ``"user long, day date"``. Omitted: the state is one value.
        valueType : str or DataType
            The type of the state's values, ``"long"``.
        name : str, optional
            The state's name in the topology that writes the state.
        topology : str, optional
            The name of the topology that writes the state.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> topology = TridentTopology()
        >>> tweeters = topology.newStaticState(
        ...     {"/a": ["sally", "bob"]}, keyFields="url string", valueType="array<string>", name="tweeters"
        ... )
        >>> tweeters
        TridentState('tweeters': url string, value array<string>; static)
        """
        self._register.begin_call()
        step = Step(f"{name or 'static'}/0:newStaticState", caller("newStaticState"))
        factory, name = static_factory(stateFactory, name, topology, len(self._register.statics), step)
        self._register.check_free(name, step)
        self._check_name("a state", name, {}, step)
        keys, value = held_fields(stateFactory, StructType([]), keyFields, valueType, STATIC_USAGE, step)
        step_checks.check_comparable(keys, step)
        schema = step_checks.appended(keys, StructType([value]), step, of="the key")
        spec = StateSpec(name, factory)
        node = StaticState(keys, spec, topology, step=f"{name}/0:newStaticState", site=step.called, schema=schema)
        self._register.add(name, node)
        return TridentState(self._register, node, name)

    def _check_name(self, what: str, name: str, taken: dict[str, Any], step: Step) -> None:
        name_of(what, name, step)
        if name in taken:
            first = taken[name]
            way = self._register.way_to_replace(first)
            raise step.error(DuplicateNameError, f"{what} of this name already begins at {first.site.location}{way}")
