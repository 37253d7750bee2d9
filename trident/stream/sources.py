"""Where streams begin: with a spout, with the requests to a function, with a state that is there already."""

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, StructType

from trident.base.errors import DuplicateNameError, TopologyError
from trident.base.names import check_name
from trident.base.step import Step, caller
from trident.operations.output_fields import OutputsLike, read_outputs
from trident.operations.state_updaters import held_fields
from trident.plan import rules
from trident.plan.nodes import RequestSource, SpoutSource, StateSpec, StaticState
from trident.plan.register import Register
from trident.stream.display import Shown
from trident.stream.static_states import STATIC_USAGE, static_factory
from trident.stream.stream import Stream, TridentState
from trident_spouts.adapters.adapt import as_spout

if TYPE_CHECKING:
    from trident_spouts.executor import Spout
    from trident_spouts.protocols import UserContract


class Beginnings(Shown):
    """Verbs of a topology that begin a stream, or name a state that another topology writes."""

    _register: Register

    def newStream(
        self, name: str, spout: "Spout | UserContract", *, formerly: str | None = None, anew: bool = False
    ) -> Stream:
        """Begin a stream with the batches of a spout: one of `trident.spouts`, or an object of your own that extends
        `BatchSpout`, `TridentSpout`, `PartitionedSpout` or `OpaquePartitionedSpout`.

        `name` is the stream's identity in the transaction log, which knows by it where the source stands: letters,
        digits, ``-``, ``_`` and ``.``. Meaning: ``org.apache.storm.trident.TridentTopology.newStream``.

        Parameters
        ----------
        name : str
            The stream's name.
        spout : Spout or one of the four contracts
            The source.
        formerly : str, optional
            The name that this stream had in earlier programs: it goes on where that one stood. It may stay in the code:
            once a batch was frozen under `name`, it means nothing. It must go where another stream of this topology
            takes that name. Refused where the log knows both names from earlier programs, and where two streams say it
            of one.
        anew : bool
            Let the stream begin at its source's start where a start would be refused, because it is not clear how it
            goes on: the log knows another kind of source under its name, or streams of other names disappear in the
            same start. Take it out after the first start: a stream that the log knows with this source goes on, and a
            warning says that `anew` has no effect; but after the next renaming it would have the source read again.

        Raises
        ------
        DuplicateNameError
            Where a stream of this name begins already.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> TridentTopology().newStream("orders", FixedBatchSpout("id long", [[1]]), formerly="sales")
        Stream(orders/0:newStream(FixedBatchSpout): id bigint)
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
        if formerly is not None:
            check_name("a stream", formerly)
        node = SpoutSource(name, adapted, formerly, anew, step=label, site=step.called, schema=adapted.schema)
        self._register.add(name, node)
        return Stream(self._register, node, name)

    def newDRPCStream(self, function: str, arguments: OutputsLike = "args string") -> Stream:
        """Begin a stream with the requests to a DRPC function: one tuple each, of these arguments.

        The function's answer is what leaves the last step of the stream, the one that no other step reads.
        Meaning: ``org.apache.storm.trident.TridentTopology.newDRPCStream``.

        >>> from trident import TridentTopology
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
        >>> from trident import TridentTopology
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

    def _check_name(self, what: str, name: str, taken: dict[str, Any], step: Step) -> None:
        try:
            check_name(what, name)
        except TopologyError as error:
            raise step.error(TopologyError, str(error)) from None
        if name in taken:
            raise step.error(DuplicateNameError, f"{what} of this name begins at {taken[name].site.location} already")
