"""The verbs each, filter, peek, project, drop and rename, which keep tuples and change their fields."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from trident.base.names import FieldsLike
from trident.base.spark_types import ddl
from trident.base.verb_call import Step
from trident.expressions.tree import col
from trident.operations.annotations import Returns
from trident.operations.bound_expressions import (
    Several,
    bound_operation,
    is_expressions,
    read_mapping,
    with_members,
    with_types,
)
from trident.operations.builtin_filters import FilterNull
from trident.operations.callables import check_arguments, check_predicate, read_operation
from trident.operations.debug import Debug
from trident.operations.error_policy import DeadLetter, OnError, OnErrorLike, read_policy
from trident.operations.functions import Call, Operation
from trident.operations.output_fields import OutputsLike, read_outputs, resolve
from trident.plan import nodes, step_checks
from trident.stream.argument_types import FunctionArgument
from trident.stream.arguments import Arguments, check_replace, read_arguments
from trident.stream.base import StreamBase, StreamT

_EACH = "each([inputFields,] function, outputFields), or each([inputFields,] filter)"


class EachVerbs(StreamBase[StreamT]):
    """Verbs that keep tuples, perhaps with other fields; `filter` drops some tuples."""

    __slots__ = ()

    def each(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        function: object = None,
        filter: object = None,
        outputFields: OutputsLike | None = None,
        onError: OnErrorLike = "fail",
        replace: bool = False,
    ) -> StreamT:
        """Append the result of a function to every tuple; without output fields keep the tuples that a filter accepts.

        Meaning: ``org.apache.storm.trident.Stream.each``. Omitted input fields mean all fields (in Trident: none).

        Parameters
        ----------
        inputFields : str or list of str, optional
            The fields that the operation sees, one positional argument each. Omitted: a callable gets one TridentTuple
            of all fields.
        function, filter : callable, Function, Filter, expression, dict, expr, Column or udf
            An expression, ``col("price") * 0.9``, runs on both engines, and its type follows from the fields; a dict
            from output fields to expressions gives several fields at once. A callable returns one value; a tuple means
            several values, None a null. A generator, or a callable annotated with ``Iterator``, gives any number of
            tuples; if it gives none, the input tuple is dropped. A callable with annotations of pandas Series or
            DataFrames gets many tuples in one call, as whole columns, and gives one row for each of them. ``Debug()``
            shows the tuples that pass.
        outputFields : str, list of str or StructType, optional
            Names for the results, with types if the function has no annotations: ``"word string"``.
        onError : "fail", "skip", "deadLetter" or DeadLetter
            The treatment of a tuple on which the function fails. "fail": the batch fails and is retried. "skip":
            the tuple is left out and counted. "deadLetter": the tuple is left out, and is kept for `deadLetters`.
        replace : bool
            True: an output field with the name of a field of the tuple replaces that field, in the same position and
            perhaps with another type; other output fields are appended. False: such an output field is refused.

        Raises
        ------
        FieldNotFoundError, DuplicateFieldError, TypeDeclarationError, TopologyError
            If the call is wrong. The error is raised by this call, not at the start of the topology.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> lines = TridentTopology().newStream("lines", FixedBatchSpout("line string", [[("a dog",)]]))
        >>> lines.each("line", lambda line: line.split(), "words array<string>")
        Stream(lines/1:each(<lambda>): line string, words array<string>)
        >>> lines.each("line", lambda line: len(line) > 3).fields
        ('line',)
        >>> lines.each("line", lambda line: line.split(), "line array<string>", replace=True)
        Stream(lines/3:each(<lambda>): line array<string>)
        >>> from trident import col, functions as F
        >>> lines.each({"length": F.length("line"), "loud": F.upper(col("line"))})
        Stream(lines/4:each(length(col('line')), upper(col('line'))): line string, length int, loud string)
        """
        return self._each(args, inputFields, function, filter, outputFields, onError, replace)

    def filter(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        filter: object = None,
        onError: OnErrorLike = "fail",
    ) -> StreamT:
        """Keep the tuples that a filter accepts: a callable that returns a bool, a Filter, ``col("n") > 3``.

        A callable gets one positional argument for each input field; without input fields, one TridentTuple of all
        fields. A callable with annotations of pandas returns a Series of bool. A tuple for which an expression is null
        is dropped. `onError` works as in `each`. Meaning: ``org.apache.storm.trident.Stream.filter``.

        >>> from trident import TridentTopology, col
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.filter(lambda t: t.n > 1).filter("word", str.isalpha).filter(col("n") < 9)
        Stream(words/3:filter(col('n') < 9): word string, n bigint)
        """
        return self._filtered(
            read_arguments(
                self._step("filter"), "filter([inputFields,] filter)", args, {"filter": filter}, inputFields
            ),
            onError,
        )

    def project(self, *fields: FieldsLike) -> StreamT:
        """Keep only the named fields, in the order in which they are named.

        A name with a dot is a field of a struct, ``"bid.price"``, which keeps its last name. Meaning:
        ``org.apache.storm.trident.Stream.project``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.project("n", "word")
        Stream(words/1:project: n bigint, word string)
        """
        step = self._step("project")
        if names := with_members(fields, self.schema):
            inputs, operation = bound_operation(Several(tuple(map(col, names))), self.schema, step)
            schema = step_checks.members(self.schema, names, operation.target.outputType, step)
            return self._then(nodes.Map(self._node, inputs, operation, None, **step.gives(schema)))
        return self._projected(self._named(fields, step), step)

    def drop(self, *fields: FieldsLike) -> StreamT:
        """Drop the named fields, and keep all others in their order.

        Trident has no counterpart: its `project` names the fields that stay.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.drop("n")
        Stream(words/1:drop: word string)
        """
        step = self._step("drop")
        dropped = self._named(fields, step)
        step_checks.chosen(self.schema, dropped, step)
        kept = tuple(name for name in self.fields if name not in dropped)
        if not kept:
            raise step.wrong(f"no field is left; the fields are ({ddl(self.schema)})")
        return self._projected(kept, step)

    def rename(self, old: str | Mapping[str, str], new: str | None = None) -> StreamT:
        """Rename one field, or several by a dict of old names to new ones. Each field keeps its position.

        Meaning: ``pyspark.sql.DataFrame.withColumnRenamed``, but an unknown field is refused.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.rename("n", "count")
        Stream(words/1:rename: word string, count bigint)
        >>> words.rename({"word": "n", "n": "word"}).take(1)
        [Row(n='dog', word=2)]
        """
        step = self._step("rename")
        schema = step_checks.renamed(self.schema, _renames(old, new, step), step)
        return self._then(nodes.Project(self._node, self.fields, **step.gives(schema)))

    def peek(
        self,
        *args: FunctionArgument,
        inputFields: FieldsLike | None = None,
        action: object = None,
        onError: OnErrorLike = "fail",
    ) -> StreamT:
        """Call an action with every tuple, and keep the tuple as it is.

        The action runs in the process that has the tuple, and again if the batch is retried. It gets one
        positional argument for each input field; without input fields, one TridentTuple of all fields. `onError` works
        as in `each`: with "skip" or "deadLetter", a tuple on which the action fails is left out of the stream. Meaning:
        ``org.apache.storm.trident.Stream.peek``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.peek(print)
        Stream(words/1:peek(print): word string, n bigint)
        """
        step = self._step("peek")
        call = read_arguments(step, "peek([inputFields,] action)", args, {"action": action}, inputFields)
        if isinstance(call.operation, Debug):
            return self._debug(call, call.operation, onError)
        step = call.step
        if is_expressions(call.operation):
            raise step.wrong("peek takes a plain callable, not an expression")
        inputs, operation, _ = self._operation(call, tuples=call.inputs is None)
        if operation.call not in (Call.VALUES, Call.TUPLE) or operation.many:
            raise step.wrong("peek takes a plain callable and ignores its result")
        if call.outputs is not None:
            raise step.wrong("peek has no outputFields; each(function, outputFields) appends fields")
        policy = self._policy(onError, operation, step)
        return self._then(nodes.Peek(self._node, inputs, operation, policy, **step.gives(self.schema)))

    def _projected(self, names: tuple[str, ...], step: Step) -> StreamT:
        schema = step_checks.chosen(self.schema, names, step)
        return self._then(nodes.Project(self._node, names, **step.gives(schema)))

    # --- shared ---------------------------------------------------------------------------------------------------

    def _each(
        self,
        args: Sequence[object],
        inputFields: FieldsLike | None,
        function: object,
        filter: object,
        outputFields: OutputsLike | None,
        onError: OnErrorLike,
        replace: bool,
        group: tuple[str, ...] = (),
    ) -> StreamT:
        """Return the stream of an `each` call. Refuse to replace a field of `group`."""
        call = read_arguments(
            self._step("each"), _EACH, args, {"function": function, "filter": filter}, inputFields, outputFields
        )
        step = call.step
        check_replace(replace, step, _EACH)
        if isinstance(call.operation, Mapping):
            call = _expressions(call, self.fields)
        if replace and call.outputs is None:
            raise step.wrong(f"replace=True needs outputFields, the fields to replace; write {_EACH}")
        if isinstance(call.operation, Debug):
            return self._debug(call, call.operation, onError)
        if call.outputs is None:
            return self._filtered(call, onError)
        if filter is not None:
            raise step.wrong(f"a filter takes no outputFields; write {_EACH}")
        inputs, operation, outputs = self._function(call)
        schema = step_checks.appended(self.schema, outputs, step, replace=replace)
        for name in outputs.names:
            if name in group:
                raise step.wrong(
                    f"the group field {name!r} cannot be replaced; replace it before groupBy, or in the ungrouped "
                    f"stream toStream()"
                )
        policy = self._policy(onError, operation, step)
        return self._then(nodes.Each(self._node, inputs, operation, outputs, policy, **step.gives(schema)))

    def _operation(self, call: Arguments, tuples: bool) -> tuple[tuple[str, ...], Operation, Returns]:
        """Return the input fields, the operation, and its return annotation.

        Raises TopologyError if the operation cannot be called with the input fields.
        """
        if is_expressions(call.operation):
            return *self._expressions(call), Returns()
        inputs = self._inputs(call.inputs, call.step)
        operation, returns = read_operation(call.operation, call.step, tuples)
        check_arguments(operation, inputs, call.step)
        return inputs, operation, returns

    def _expressions(self, call: Arguments, condition: bool = False) -> tuple[tuple[str, ...], Operation]:
        """Return the fields that the expressions read, and their operation."""
        if call.inputs is not None:
            raise call.step.wrong("an expression names its fields itself; remove inputFields")
        return bound_operation(call.operation, self.schema, call.step, condition)

    def _function(self, call: Arguments) -> tuple[tuple[str, ...], Operation, StructType]:
        """Return the input fields, the function, and its output fields with types. Refuse a Filter."""
        inputs, operation, returns = self._operation(call, tuples=call.inputs is None)
        self._check_reads(inputs, operation, call.step)
        if operation.call is Call.FILTER:
            raise call.step.wrong("a Filter has no output fields; remove outputFields")
        assert call.outputs is not None
        outputs = resolve(read_outputs(call.outputs, call.step), operation, returns, call.step)
        if is_expressions(call.operation):
            operation = with_types(operation, outputs, call.step)
        return inputs, operation, outputs

    def _policy(self, onError: object, operation: Operation, step: Step) -> OnError | None:
        """Return the policy for tuples on which `operation` fails; None means that the batch fails.

        Raises TopologyError for a policy other than "fail" on a DRPC request, and for dead letters of a best-effort
        branch.
        """
        policy = read_policy(onError, operation, step)
        if policy is not None and step_checks.is_request(self._node):
            raise step.wrong("onError applies to batches only; a failed DRPC request returns its error to the caller")
        if self._register.branch and isinstance(policy, DeadLetter):
            raise step.wrong("a best-effort branch cannot keep dead letters; use onError='skip', or omit it")
        return policy

    def _filtered(self, call: Arguments, onError: object) -> StreamT:
        step = call.step
        if call.outputs is not None:
            raise step.wrong(f"a filter takes no outputFields, {call.outputs!r}; to append fields use each")
        if is_expressions(call.operation):
            inputs, operation = self._expressions(call, condition=True)
        else:
            inputs, operation, returns = self._operation(call, tuples=call.inputs is None)
            check_predicate(operation, returns, step)
        self._check_reads(inputs, operation, step)
        policy = self._policy(onError, operation, step)
        if isinstance(operation.target, FilterNull):  # it cannot fail, and without a policy Spark may run it natively
            policy = None
        return self._then(nodes.Filter(self._node, inputs, operation, policy, **step.gives(self.schema)))

    def _debug(self, call: Arguments, debug: Debug, onError: object) -> StreamT:
        step = call.step
        if onError != "fail":
            raise step.wrong("Debug cannot fail, so it takes no onError")
        if call.outputs is not None:
            raise step.wrong("Debug has no outputFields")
        inputs = self._inputs(call.inputs, step)
        label = debug.label or step.label
        return self._then(nodes.Debug(self._node, inputs, label, debug.limit, **step.gives(self.schema)))


def _expressions(call: Arguments, fields: tuple[str, ...]) -> Arguments:
    """Convert a call whose operation is a mapping from output fields to expressions: both become separate arguments."""
    for name, given in {"inputFields": call.inputs, "outputFields": call.outputs}.items():
        if given is not None:
            raise call.step.wrong(
                f"{name} {given!r} cannot be combined with a mapping, which already names the output fields"
            )
    outputs, operation = read_mapping(call.operation, fields, call.step)
    return Arguments(None, operation, outputs, call.step)


def _renames(old: str | Mapping[str, str], new: str | None, step: Step) -> Mapping[str, str]:
    """Return the new name of each renamed field, by its old name."""
    renames: Mapping[Any, Any] = old if isinstance(old, Mapping) and new is None else {old: new}
    for name in [*renames, *renames.values()]:
        if not isinstance(name, str) or not name:
            raise step.wrong(
                f"{name!r} is not the name of a field; write rename('old', 'new') or rename({{'old': 'new'}})"
            )
    return renames
