"""Operations that only Spark runs: expressions, Columns, udfs and transforms, under the declared names and types.

What an expression gives is asked of Spark once, with the first batch, and remembered: whether it is a generator or a
struct, and whether it has to be cast.
"""

import contextlib
from collections.abc import Iterator, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.base.errors import TridentError, UserCodeError
from trident.compiler.columns.failures import Where
from trident.compiler.spark.sessions import seen_in
from trident.compiler.spark.sql_names import all_quoted, cast, plain, quoted, widens
from trident.operations.functions import Call, Operation
from trident.plan.nodes import Each, Filter, Map, Node, Transform

Learned = dict[tuple[int, str], str]
"""What is known of a node (by id) since the first batch."""

_STRUCT = "__trident_struct"
_NO_GENERATOR = ("MULTI_ALIAS_WITHOUT_GENERATOR", "UNSUPPORTED_GENERATOR", "NUM_COLUMNS_MISMATCH")


class Expressions:
    """Native operations over the frames of one attempt."""

    def __init__(self, learned: Learned) -> None:
        self._learned = learned

    def appended(self, node: Each | Map, frame: DataFrame, outputs: StructType, before: Sequence[str]) -> DataFrame:
        """The fields in `before`, then those of the node's function."""
        column = _column(node, node.function, node.inputs)
        if len(outputs.fields) == 1:
            made = frame.select(*all_quoted(before), column.alias(outputs.names[0]))
        else:
            made = self._several(node, frame, column, outputs, before)
        return self._typed(node, made, outputs, before)

    def _several(
        self, node: Each | Map, frame: DataFrame, column: Column, outputs: StructType, before: Sequence[str]
    ) -> DataFrame:
        """Several fields of one expression: a generator's columns, or a struct's fields."""
        form = self._learned.get((id(node), "form"))
        if form != "struct":
            try:
                made = frame.select(*all_quoted(before), column.alias(*outputs.names))
                if form is None:
                    _ = made.schema  # Connect looks at a plan only when it is asked
                    self._learned[id(node), "form"] = "generator"
                return made
            except AnalysisException as error:
                if form is not None or error.getCondition() not in _NO_GENERATOR:
                    raise
                self._learned[id(node), "form"] = "struct"
        made = frame.select(*all_quoted(before), column.alias(_STRUCT))
        come = made.schema[_STRUCT].dataType
        if not isinstance(come, StructType) or len(come.fields) != len(outputs.fields):
            raise where_of(node, node.function).error(
                f"gives {plain(come)} where {len(outputs.fields)} fields are declared: ({', '.join(outputs.names)}); "
                "use a generator or a struct of as many fields"
            )
        pairs = zip(come.names, outputs.names, strict=True)
        items = [f"{_STRUCT}.{quoted(own)} AS {quoted(name)}" for own, name in pairs]
        return made.selectExpr(*all_quoted(before), *items)

    def _typed(self, node: Each | Map, made: DataFrame, outputs: StructType, before: Sequence[str]) -> DataFrame:
        """The same under the declared types; refuses what cannot be cast without a loss."""
        known = self._learned.get((id(node), "types"))
        if known is None:
            where = where_of(node, node.function)
            known = self._learned[id(node), "types"] = _fit(where, made.schema, outputs, "gives")
        if known == "same":
            return made
        items = [cast(quoted(field.name), field.dataType, field.name) for field in outputs.fields]
        return made.selectExpr(*all_quoted(before), *items)

    def filtered(self, node: Filter, frame: DataFrame) -> DataFrame:
        """The tuples for which the node's condition is true."""
        made = frame.filter(_column(node, node.predicate, node.inputs))
        if (id(node), "seen") not in self._learned:
            _ = made.schema
            self._learned[id(node), "seen"] = "yes"
        return made

    def transformed(self, node: Transform, frame: DataFrame) -> DataFrame:
        """What the user's function makes of the whole DataFrame."""
        where = where_of(node, node.function)
        made: DataFrame
        try:
            made = node.function.target(frame, **{name: seen_in(frame.sparkSession, own) for name, own in node.frames})
        except (AnalysisException, ParseException):
            raise
        except Exception as cause:
            raise where.raised(cause, [], 0) from cause
        if not hasattr(made, "selectExpr"):
            what = f"gave {type(made).__name__} where a DataFrame is expected; return the DataFrame"
            raise where.error(what, kind=UserCodeError)
        known = self._learned.get((id(node), "types"))
        if known is None:
            known = self._learned[id(node), "types"] = _fit(where, made.schema, node.schema, "gave")
        if known == "same":
            return made.select(*all_quoted(node.schema.names))
        return made.selectExpr(*[cast(quoted(field.name), field.dataType, field.name) for field in node.schema.fields])


def _fit(where: Where, made: StructType, declared: StructType, gives: str) -> str:
    """Whether what was made is what was declared ("same") or may be cast to it ("cast"); else an error."""
    come = {field.name: field.dataType for field in made.fields}
    for field in declared.fields:
        if field.name not in come:
            what = f"{gives} a DataFrame without {field.name!r}; its columns are ({', '.join(made.names)})"
            raise where.error(what, kind=UserCodeError)
        if not widens(come[field.name], field.dataType):
            raise where.error(
                f"{gives} {plain(come[field.name])} for field {field.name!r}, declared {plain(field.dataType)}; "
                "cast it there, or declare it so",
                kind=UserCodeError,
            )
    return "same" if all(plain(come[field.name]) == plain(field.dataType) for field in declared.fields) else "cast"


def _column(node: Node, operation: Operation, inputs: tuple[str, ...]) -> Column:
    """A native operation as a Column over its input fields."""
    target = operation.target
    if operation.call is Call.EXPRESSION:
        return F.expr(target.text)
    if operation.call is Call.COLUMN:
        ready: Column = target
        return ready
    where = where_of(node, operation)
    made: Column
    try:
        made = target(*[F.col(name) for name in all_quoted(inputs)])
    except Exception as cause:
        raise where.raised(cause, [], 0) from cause
    if not isinstance(made, Column):
        what = f"gave {type(made).__name__} where a Column is expected; it is annotated '-> Column'"
        raise where.error(what, kind=UserCodeError)
    return made


def where_of(node: Node, operation: Operation | None) -> Where:
    """Whose work an error is about. An expression has no place of its own: it stands where the verb was called."""
    if operation is None:
        return Where(node.step, node.site)
    if operation.call in (Call.EXPRESSION, Call.COLUMN):
        return Where(node.step, CallSite(repr(operation.target), node.site.file, node.site.line))
    return Where(node.step, operation.site)


@contextlib.contextmanager
def analysed(node: Node) -> Iterator[None]:
    """What Spark refuses while a step is lowered is said with the step's name."""
    try:
        yield
    except TridentError:
        raise
    except (AnalysisException, ParseException) as error:
        operation = getattr(node, "function", None) or getattr(node, "predicate", None)
        raise where_of(node, operation).error(first_line(error), kind=UserCodeError) from None


def first_line(error: BaseException) -> str:
    """What a Spark error says, without the plan that follows."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].partition("; line ")[0].strip() if lines else type(error).__name__
