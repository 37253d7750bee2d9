"""Operations that only Spark runs: expressions, Columns, udfs and transforms, under the declared names and types.

The form of an expression's result is learned from Spark once, with the first batch: whether it is a generator or a
struct, and whether it has to be cast.
"""

import contextlib
from collections.abc import Iterator, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.base.change_kinds import CHANGE
from trident.base.errors import TridentError, UserCodeError
from trident.compiler.columns.function_errors import Where
from trident.compiler.spark.plan_calls import selected
from trident.compiler.spark.sessions import visible_in
from trident.compiler.spark.sql_names import all_quoted, cast, plain, quoted, widens
from trident.expressions.rules import quoted_text
from trident.operations.functions import Call, Operation, words_of
from trident.plan.nodes import Each, Filter, Map, Node, Transform

Learned = dict[tuple[int, str], str]
"""The findings of the first batch, by a node's id and a question: "form", "types" or "seen"."""

_STRUCT = "__trident_struct"
_NO_GENERATOR = ("MULTI_ALIAS_WITHOUT_GENERATOR", "UNSUPPORTED_GENERATOR", "NUM_COLUMNS_MISMATCH")


class Expressions:
    """Native operations over the frames of one attempt."""

    def __init__(self, learned: Learned) -> None:
        self._learned = learned

    def appended(self, node: Each | Map, frame: DataFrame, outputs: StructType, before: Sequence[str]) -> DataFrame:
        """Return the fields in `before`, then those of the node's function."""
        operation = node.function
        if len(outputs.fields) > 1:
            result = self._several(node, frame, _column(node, operation, node.inputs), outputs, before)
        elif operation.call is Call.EXPRESSION:
            result = selected(frame, [*all_quoted(before), (operation.target.text, outputs.names[0])])
        else:
            column = _column(node, operation, node.inputs)
            result = frame.select(*all_quoted(before), column.alias(outputs.names[0]))
        return self._typed(node, result, outputs, before)

    def _several(
        self, node: Each | Map, frame: DataFrame, column: Column, outputs: StructType, before: Sequence[str]
    ) -> DataFrame:
        """Return several fields of one expression: a generator's columns, or a struct's fields."""
        form = self._learned.get((id(node), "form"))
        if form != "struct":
            try:
                result = frame.select(*all_quoted(before), column.alias(*outputs.names))
                if form is None:
                    _ = result.schema  # Connect analyses a plan only on request
                    self._learned[id(node), "form"] = "generator"
                return result
            except AnalysisException as error:
                if form is not None or error.getCondition() not in _NO_GENERATOR:
                    raise
                self._learned[id(node), "form"] = "struct"
        result = frame.select(*all_quoted(before), column.alias(_STRUCT))
        actual = result.schema[_STRUCT].dataType
        if not isinstance(actual, StructType) or len(actual.fields) != len(outputs.fields):
            raise where_of(node, node.function).error(
                f"returns {plain(actual)}, but {len(outputs.fields)} fields are declared: "
                f"({', '.join(outputs.names)}); "
                "use a generator or a struct with that many fields"
            )
        pairs = zip(actual.names, outputs.names, strict=True)
        items = [f"{_STRUCT}.{quoted(own)} AS {quoted(name)}" for own, name in pairs]
        return selected(result, [*all_quoted(before), *items])

    def _typed(self, node: Each | Map, result: DataFrame, outputs: StructType, before: Sequence[str]) -> DataFrame:
        """Return `result` with the declared types. Raises UserCodeError if a cast to them could lose information."""
        known = self._learned.get((id(node), "types"))
        if known is None:
            where = where_of(node, node.function)
            known = self._learned[id(node), "types"] = _fit(where, result.schema, outputs, "gives")
        if known == "same":
            return result
        return selected(result, [*all_quoted(before), *_declared(node, outputs)])

    def filtered(self, node: Filter, frame: DataFrame) -> DataFrame:
        """Return the tuples for which the node's condition is true."""
        result = frame.filter(_column(node, node.predicate, node.inputs))
        if (id(node), "seen") not in self._learned:
            _ = result.schema
            self._learned[id(node), "seen"] = "yes"
        return result

    def transformed(self, node: Transform, frame: DataFrame) -> DataFrame:
        """Return the result of the user's function over the whole DataFrame."""
        where = where_of(node, node.function)
        result: DataFrame
        try:
            result = node.function.target(
                frame, **{name: visible_in(frame.sparkSession, own) for name, own in node.frames}
            )
        except (AnalysisException, ParseException):
            raise
        except Exception as cause:
            raise where.raised(cause, [], 0) from cause
        if not hasattr(result, "selectExpr"):
            what = f"returned {type(result).__name__}; expected a DataFrame"
            raise where.error(what, kind=UserCodeError)
        known = self._learned.get((id(node), "types"))
        if known is None:
            known = self._learned[id(node), "types"] = _fit(where, result.schema, node.schema, "gave")
        if known == "same":
            return selected(result, all_quoted(node.schema.names))
        return selected(result, _declared(node, node.schema))


def _declared(node: Each | Map | Transform, fields: StructType) -> list[str]:
    """Return SELECT items that give the columns the declared types. A null fails the query if the field is NOT NULL.

    Spark trusts a declaration: a sum over such nulls would be 0.
    """
    items = []
    for field in fields.fields:
        text = quoted(field.name)
        if not field.nullable:
            said = f"{where_of(node, node.function).step}: a null for field {field.name!r}, which is NOT NULL"
            text = f"coalesce({text}, raise_error({quoted_text(said)}))"
        items.append(cast(text, field.dataType, field.name))
    return items


def _fit(where: Where, result: StructType, declared: StructType, gives: str) -> str:
    """Return "same" if the result has the declared types, and "cast" if it can be cast to them without loss.

    A field that is NOT NULL is cast, too, because the result may be null.

    Raises UserCodeError for any other result.
    """
    actual = {field.name: field.dataType for field in result.fields}
    for field in declared.fields:
        if field.name not in actual:
            what = f"{gives} a DataFrame without {field.name!r}; its columns are ({', '.join(result.names)})"
            raise where.error(what, kind=UserCodeError)
        if not widens(actual[field.name], field.dataType):
            raise where.error(
                f"{gives} {plain(actual[field.name])} for field {field.name!r}, which is declared as "
                f"{plain(field.dataType)}; cast it there, or change the declaration",
                kind=UserCodeError,
            )
    same = all(field.nullable and plain(actual[field.name]) == plain(field.dataType) for field in declared.fields)
    return "same" if same else "cast"


def _column(node: Node, operation: Operation, inputs: tuple[str, ...]) -> Column:
    """Return a native operation as a Column over its input fields."""
    target = operation.target
    if operation.call is Call.EXPRESSION:
        return F.expr(target.text)
    if operation.call is Call.COLUMN:
        ready: Column = target
        return ready
    where = where_of(node, operation)
    result: Column
    try:
        result = target(*[F.col(name) for name in all_quoted(inputs)])
    except Exception as cause:
        raise where.raised(cause, [], 0) from cause
    if not isinstance(result, Column):
        what = f"returned {type(result).__name__}, but is annotated '-> Column'"
        raise where.error(what, kind=UserCodeError)
    if CHANGE in words_of(str(result)) and CHANGE not in inputs:  # in a stream of changes no step may read it
        what = f"returned {result}, which reads {CHANGE!r}, and its input fields are {', '.join(inputs)}"
        raise where.error(what, kind=UserCodeError)
    return result


def where_of(node: Node, operation: Operation | None) -> Where:
    """Return the subject of error messages about this function: the step, the function and the fields that it reads.

    An expression has no source line, so the line of the verb's call is used.
    """
    if operation is None:
        return Where(node.step, node.site)
    if operation.call in (Call.EXPRESSION, Call.COLUMN):
        return Where(node.step, CallSite(repr(operation.target), node.site.file, node.site.line))
    return Where(node.step, operation.site)


@contextlib.contextmanager
def analysed(node: Node) -> Iterator[None]:
    """Raise Spark's errors about a step's plan as UserCodeErrors that name the step, within this block."""
    try:
        yield
    except TridentError:
        raise
    except (AnalysisException, ParseException) as error:
        operation = getattr(node, "function", None) or getattr(node, "predicate", None)
        text = first_line(error)
        hint = _OF_ANOTHER if "MISSING_ATTRIBUTES" in text else ""
        raise where_of(node, operation).error(f"{text}{hint}", kind=UserCodeError) from None


_OF_ANOTHER = (
    " (a Column of another DataFrame: name the field, as in F.col('n') or expr('n'); to use the other DataFrame's "
    "values, join it in transform, or read it with joinTable)"
)


def first_line(error: BaseException) -> str:
    """Return the message of a Spark error, without the plan that follows."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].partition("; line ")[0].strip() if lines else type(error).__name__
