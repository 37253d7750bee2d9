"""The verbs map, flatMap and transform, which replace tuples by new ones."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trident.base.errors import TypeDeclarationError
from trident.base.names import FieldsLike, brief
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.annotations import Returns, several_of, type_of
from trident.operations.bound_expressions import Computed, is_expressions, read_mapping, with_types
from trident.operations.callables import bind
from trident.operations.error_policy import OnErrorLike
from trident.operations.functions import Call, Operation
from trident.operations.output_fields import OutputsLike, keep_names, read_outputs, resolve, shown
from trident.plan import nodes
from trident.stream.argument_types import FunctionArgument
from trident.stream.arguments import Arguments, operation_site, read_arguments
from trident.stream.base import StreamT
from trident.stream.each import EachVerbs

_USAGE = "([inputFields,] function[, outputFields])"


class MapVerbs(EachVerbs[StreamT]):
    """Verbs that replace tuples, and `transform`, which replaces a batch."""

    __slots__ = ()

    def map(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        function: object = None,
        outputFields: OutputsLike | None = None,
        onError: OnErrorLike = "fail",
    ) -> StreamT:
        """Replace every tuple by a function's result: one field for a scalar, several for a tuple.

        A callable gets one positional argument for each input field; without input fields, one TridentTuple of all
        fields. Without output fields the results have the names of the input fields. A callable with annotations of
        pandas Series or DataFrames returns one row for each tuple. `onError` works as in `each`. Meaning:
        ``org.apache.storm.trident.Stream.map``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.map(lambda t: (t.word.upper(), t.n + 1))
        Stream(words/1:map(<lambda>): word string, n bigint)
        >>> words.map("n", lambda n: n / 2, "half double").fields
        ('half',)
        """
        step = self._step("map")
        call = read_arguments(step, "map" + _USAGE, args, {"function": function}, inputFields, outputFields)
        return self._mapped(call, onError, many=False)

    def flatMap(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        function: object = None,
        outputFields: OutputsLike | None = None,
        onError: OnErrorLike = "fail",
    ) -> StreamT:
        """Replace every tuple by all tuples that a function returns for it: a list, a generator or any iterable.

        A callable gets one positional argument for each input field; without input fields, one TridentTuple of all
        fields. A callable with annotations of pandas Series or DataFrames gives any number of rows for all tuples of a
        call. `onError` works as in `each`. Meaning: ``org.apache.storm.trident.Stream.flatMap``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> lines = TridentTopology().newStream("lines", FixedBatchSpout("line string", [[("a dog",)]]))
        >>> lines.flatMap("line", str.split, "word string")
        Stream(lines/1:flatMap(str.split): word string)
        """
        step = self._step("flatMap")
        call = read_arguments(step, "flatMap" + _USAGE, args, {"function": function}, inputFields, outputFields)
        return self._mapped(call, onError, many=True)

    def transform(self, function: Any, outputFields: OutputsLike | None = None, **frames: Any) -> StreamT:
        """Replace the batch by ``function(batch, **frames)``. The function gets a DataFrame and returns one.

        The function may use the whole DataFrame API. It runs on Spark only. `frames` are static DataFrames of the
        session that starts the topology; the function gets them as keyword arguments. Without `outputFields` the
        function must return the fields that it gets.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.transform(lambda df: df.dropDuplicates(["word"]))
        Stream(words/1:transform(<lambda>): word string, n bigint)
        """
        site = operation_site(function)
        step = self._step("transform").with_function(site)
        if not callable(function):
            raise step.wrong(f"{brief(function)} is not a callable that takes and returns a DataFrame")
        bind(
            function,
            1,
            "it is called with the batch's DataFrame, and with the static DataFrames as keyword arguments",
            step,
            tuple(frames),
        )
        schema = self.schema
        if outputFields is not None:
            operation = Operation(function, site, Call.FRAME)
            schema = resolve(read_outputs(outputFields, step), operation, Returns(), step)
        operation = Operation(function, site, Call.FRAME)
        frozen = tuple(frames.items())
        return self._then(nodes.Transform(self._node, operation, frozen, **step.gives(schema)))

    def _mapped(self, call: Arguments, onError: object, many: bool) -> StreamT:
        return self._then(self._map_node(call, onError, many))

    def _map_node(self, call: Arguments, onError: object, many: bool) -> nodes.Map:
        """Return the step of a call of `map` or `flatMap`."""
        step = call.step
        if isinstance(call.operation, Mapping):
            outputs, expressions = read_mapping(call.operation, self.fields, step)
            call = replace(call, operation=expressions, outputs=outputs)
        inputs, operation, returns = self._operation(call, tuples=call.inputs is None)
        self._check_reads(inputs, operation, step)
        operation, returns = _as_many(operation, returns, step) if many else _as_one(operation, returns, step)
        if call.outputs is None:
            schema = keep_names(select(self.schema, inputs), operation, returns, step)
        else:
            schema = resolve(read_outputs(call.outputs, step), operation, returns, step)
        if is_expressions(call.operation):
            operation = with_types(operation, schema, step)
        policy = self._policy(onError, operation, step)
        return nodes.Map(self._node, inputs, operation, policy, **step.gives(schema))


def _as_one(operation: Operation, returns: Returns, step: Step) -> tuple[Operation, Returns]:
    """Return the operation of `map`. Raises an error if it may return no tuple, or several, for one tuple."""
    if operation.call is Call.FILTER:
        raise step.wrong("it is a Filter; use filter")
    if operation.call is Call.FUNCTION:
        raise step.wrong("it is a Function, which emits any number of tuples; use each or flatMap")
    if operation.many:
        raise step.error(TypeDeclarationError, "it returns many tuples for one tuple, but map expects one; use flatMap")
    return operation, returns


def _as_many(operation: Operation, returns: Returns, step: Step) -> tuple[Operation, Returns]:
    """Return the operation of `flatMap`, marked as returning many tuples, and the return annotation of one tuple.

    Raises TopologyError for a Filter or a udf, and TypeDeclarationError if the annotation of the operation says that
    it returns one value.
    """
    if operation.call is Call.FILTER:
        raise step.wrong("it is a Filter; use filter")
    if isinstance(operation.target, Computed):
        raise step.wrong("an expression gives one value for each tuple; use map")
    if operation.call is Call.UDF:
        raise step.wrong("a udf returns one value per row; use map, or expr('explode(...)')")
    if operation.call.native or operation.many:
        return operation, returns
    if returns.eager:
        returns = returns.element
    elif returns.known and (type_of(returns.hint) is not None or several_of(returns.hint) is not None):
        raise step.error(
            TypeDeclarationError,
            f"it is annotated to return {shown(returns)}, but flatMap needs many tuples; yield them, or return a list",
        )
    return Operation(operation.target, operation.site, operation.call, many=True), returns
