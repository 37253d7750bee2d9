"""The verb split. Its function runs once for each tuple and sends tuples to several streams."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, cast

from pyspark.sql.types import StructType

from trident.base.change_kinds import CHANGE
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike, did_you_mean
from trident.base.spark_types import select
from trident.base.stream_fields import split_schema
from trident.base.verb_call import Step
from trident.operations.callables import check_arguments, read_operation
from trident.operations.functions import Call, Operation
from trident.operations.output_fields import OutputsLike, read_outputs
from trident.plan import nodes
from trident.plan.split_schema import shown_streams
from trident.stream.argument_types import FunctionArgument
from trident.stream.arguments import Arguments, name_of, read_arguments
from trident.stream.base import StreamBase, StreamT
from trident.stream.display import Drawable

_USAGE = "split([inputFields,] function, streams={'name': 'field type, ...'})"
_MOST = 127


class SplitVerbs(StreamBase[StreamT]):
    """The verb that splits one stream into several."""

    __slots__ = ()

    def split(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        function: object = None,
        streams: Mapping[str, OutputsLike] | None = None,
    ) -> "SplitStreams[StreamT]":
        """Replace every tuple by any number of tuples in named streams, each stream with separate fields.

        The function runs once for every tuple, even if several of the streams are used. A sent tuple has only the
        values that the function sends; to keep a field of the input tuple, send its value, too. Streams of changes are
        split row by row, and each tuple keeps its kind. Trident has no counterpart (STORM-68 asked for one).

        Parameters
        ----------
        inputFields : str or list of str, optional
            The fields that the function sees, one positional argument each. Omitted: a callable gets one TridentTuple
            of all fields.
        function : callable or Function
            A generator that yields ``("name", values)``, or a function that returns one such pair or a list of them:
            the name of a stream, and a tuple of its fields' values (a scalar if it has one field). A `Function` calls
            ``collector.emitTo("name", [values])``. If nothing is sent, the tuple is dropped.
        streams : dict
            The streams' names, and their fields with types: ``{"orders": "id long, price double"}``.

        Returns
        -------
        SplitStreams
            The streams by name, ``parsed.orders`` or ``parsed["orders"]``; or all of them in order,
            ``orders, errors = ...``.

        Raises
        ------
        FieldNotFoundError, TypeDeclarationError, TopologyError
            If the call is wrong. The error is raised by this call, not at the start of the topology.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> def parse(line):
        ...     id, _, price = line.partition(" ")
        ...     try:
        ...         yield "orders", (int(id), float(price))
        ...     except ValueError as error:
        ...         yield "errors", (line, str(error))
        >>> lines = TridentTopology().newStream("lines", FixedBatchSpout("line string", [["1 2.5", "2 free"]]))
        >>> parsed = lines.split(
        ...     "line", parse, streams={"orders": "id long, price double", "errors": "line string, why string"}
        ... )
        >>> parsed.orders.take(9)
        [Row(id=1, price=2.5)]
        >>> parsed["errors"]
        Stream(lines.errors/0:errors: line string, why string)
        """
        step = self._step("split")
        last = args[-1] if args else None
        if streams is None and isinstance(last, Mapping):
            args, streams = args[:-1], cast("Mapping[str, OutputsLike]", last)
        call = read_arguments(step, _USAGE, args, {"function": function}, inputFields)
        step = call.step
        if call.outputs is not None:
            raise step.wrong(f"name the streams, not only fields; write {_USAGE}")
        inputs = self._inputs(call.inputs, step)
        operation = _operation(call, inputs)
        self._check_reads(inputs, operation, step)
        declared = declared_streams(streams, step, _USAGE)
        carried = (CHANGE,) if self._changes else ()
        for name, fields in declared:
            if any(field.lower() in carried for field in fields.names):
                raise step.wrong(f"stream {name!r}: remove {CHANGE!r}: the kind of each change is added automatically")
        schema = StructType([*split_schema(declared).fields, *select(self.schema, carried).fields])
        node = nodes.Split(self._node, inputs, operation, declared, carried, **step.gives(schema))
        self._register.add(self._label, node)
        return SplitStreams(self, node, declared)


class SplitStreams(Drawable, Generic[StreamT]):
    """The streams that a call of `Stream.split` or `TridentTopology.newStreams` created, by name."""

    __slots__ = ("_node", "_parts", "_stream", "_streams")

    def __init__(
        self,
        stream: StreamBase[StreamT],
        node: nodes.Split | nodes.SpoutSource,
        streams: Sequence[tuple[str, StructType]],
    ) -> None:
        self._stream = stream
        self._node = node
        self._streams = streams
        self._parts: dict[str, StreamT] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams."""
        return tuple(name for name, _ in self._streams)

    def __getitem__(self, name: str) -> StreamT:
        if name not in self.names:
            raise TopologyError(self._missing(name))
        if name not in self._parts:
            self._parts[name] = self._part(name)
        return self._parts[name]

    def __getattr__(self, name: str) -> StreamT:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} has no {name!r}", name=name, obj=self)
        if name not in self.names:
            raise AttributeError(self._missing(name), name=name, obj=self)
        return self[name]

    def __dir__(self) -> Sequence[str]:
        return sorted({*super().__dir__(), *self.names})

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[StreamT]:
        return map(self.__getitem__, self.names)

    def _part(self, name: str) -> StreamT:
        """Create the stream `name` with its node, at its first use. An unused stream never runs."""
        register, number, label = self._stream._register, self.names.index(name), f"{self._stream._label}.{name}"
        schema, step = self._streams[number][1], register.label(label, name)
        carried = self._node.carried if isinstance(self._node, nodes.Split) else ()
        schema = StructType([*schema.fields, *(self._node.schema[field] for field in carried)])
        node = nodes.Part(self._node, number, step=step, site=self._node.site, schema=schema)
        register.add(label, node)
        return self._stream._of_part(node, label)

    def _missing(self, name: object) -> str:
        near = did_you_mean(name, self.names) if isinstance(name, str) else ""
        if not near and isinstance(name, str) and hasattr(type(self._stream), name):
            near = f"; {name} is a verb of each of these streams, such as {self.names[0]}"
        return f"{self._node.step}: there is no stream {name!r}; the streams are {', '.join(self.names)}{near}"

    def _ends(self) -> list[nodes.Node]:
        return [part._node for part in self._parts.values()] or [self._node]

    def __repr__(self) -> str:
        return f"SplitStreams({self._node.step}: {shown_streams(self._streams)})"


def _operation(call: Arguments, inputs: tuple[str, ...]) -> Operation:
    step = call.step
    operation, returns = read_operation(call.operation, step, tuples=call.inputs is None)
    if operation.call.native:
        raise step.wrong("it is a Spark function; use a Python function, which can send tuples to streams")
    if operation.call.pandas:
        problem = "it is a function of pandas objects, but the streams are chosen for each tuple"
        raise step.wrong(f"{problem}: use a function of values, or a filter for each stream")
    if operation.call is Call.FILTER:
        raise step.wrong("it is a Filter; use a function or a Function, which can send tuples to streams")
    if returns.nothing:
        raise step.error(TypeDeclarationError, "it is annotated to return None, so it sends no tuple")
    check_arguments(operation, inputs, step)
    return operation


def declared_streams(streams: object, step: Step, usage: str) -> tuple[tuple[str, StructType], ...]:
    """Return the declared streams with their fields. Raises an error for an invalid declaration."""
    if not isinstance(streams, Mapping) or not streams:
        problem = (
            "name the streams" if not streams else (f"expected streams as a dict of names and fields, not {streams!r}")
        )
        raise step.wrong(f"{problem}; write {usage}")
    if len(streams) > _MOST:
        raise step.wrong(f"{len(streams)} streams: expected at most {_MOST}")
    return tuple((_checked(name, step), _typed(name, fields, step)) for name, fields in streams.items())


def _checked(name: object, step: Step) -> str:
    stream = name_of("a stream", name, step)
    if hasattr(SplitStreams, stream):
        raise step.wrong(f"{stream!r} is an attribute of the object that holds the streams: choose another name")
    return stream


def _typed(name: str, fields: OutputsLike, step: Step) -> StructType:
    step = Step(f"{step.label}, stream {name!r}", step.called, step.function)
    declared = read_outputs(fields, step)
    for field, typed in zip(declared.schema.fields, declared.typed, strict=True):
        if not typed:
            raise step.error(
                TypeDeclarationError,
                f"the type of field {field.name!r} is not declared: write it with the field, "
                f"such as '{field.name} string'",
            )
    return declared.schema
