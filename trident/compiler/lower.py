"""A stage's plan as DataFrames: a new one for every attempt.

Native operations become Columns, adjacent Python operations one ``mapInArrow``, aggregates Catalyst's own where it
knows them, else partial folds, a shuffle by key and a merge.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from trident.base.errors import TridentError, UserFunctionError
from trident.base.types import arrow_schema, select
from trident.compiler.aggregates import Tail, aggregated, meeting
from trident.compiler.evaluate import fold_spec
from trident.compiler.failures import Where
from trident.compiler.kernels import Work, compile_chain
from trident.compiler.layout import Layout, is_filter_null
from trident.compiler.names import all_quoted, cast, plain, quoted, widens
from trident.compiler.sessions import Profile
from trident.compiler.worker import Chain, Partial
from trident.operations.functions import Call, Operation
from trident.plan.nodes import (
    Aggregate,
    Debug,
    Each,
    Filter,
    Join,
    Map,
    Merge,
    Node,
    PartitionBy,
    PersistentAggregate,
    Project,
    Transform,
)


class Lowering:
    """One attempt's DataFrames, by node. `frames` are the starts' (by id)."""

    def __init__(
        self, layout: Layout, frames: Mapping[int, DataFrame], profile: Profile, learned: dict[int, str]
    ) -> None:
        self.layout = layout
        self.profile = profile
        self._frames = dict(frames)
        self._learned = learned
        self._kept: list[DataFrame] = []

    def frame(self, node: Node) -> DataFrame:
        """What leaves this node: the fields that anybody reads, and perhaps more."""
        found = self._frames.get(id(node))
        if found is None:
            found = self._lowered(node)
            if self.layout.shared(node):
                found = self._keep(found.select(*all_quoted(self.layout.names(node))))
            self._frames[id(node)] = found
        return found

    def keep_start(self, node: Node) -> None:
        """Read a start once, however many read it."""
        self._frames[id(node)] = self._keep(self._frames[id(node)])

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist())
        return self._kept[-1]

    def release(self) -> None:
        """Let go of what was kept for several readers."""
        for frame in self._kept:
            with contextlib.suppress(PySparkException):  # the session may be gone; the storage goes with it
                frame.unpersist(blocking=False)
        self._kept.clear()

    def select(self, node: Node, names: Sequence[str]) -> DataFrame:
        """These fields of what leaves this node, in this order."""
        return self.frame(node).select(*all_quoted(names))

    # --- Python operations -----------------------------------------------------------------------------------------

    def chain(self, node: Node) -> tuple[Chain, DataFrame] | None:
        """The Python operations that end in this node as one function, and the DataFrame it runs over."""
        if id(node) in self._frames:
            return None
        works, below = self.layout.chain(node)
        if not works:
            return None
        return self._chain(works, below, self.layout.names(node), node)

    def _chain(self, works: tuple[Work, ...], below: Node, leaving: list[str], node: Node) -> tuple[Chain, DataFrame]:
        _, needed = compile_chain(works, leaving)
        entering = [name for name in below.schema.names if name in needed] or below.schema.names[:1]
        frame = self.frame(below).select(*all_quoted(entering))
        schemas = arrow_schema(select(below.schema, entering)), arrow_schema(select(node.schema, leaving))
        return Chain(works, *schemas), frame

    def tail(self, node: Node) -> Tail | None:
        """The Python function that this node ends in, not yet part of a DataFrame; None where Spark's own work is
        last, or where others read what leaves it."""
        if id(node) in self._frames:
            return None
        chain = self.chain(node)
        if chain is not None:
            return Tail(chain[1], chain[0], chain[0].leaving)
        if isinstance(node, Aggregate | PersistentAggregate) and node.aggregation.native is None:
            with analysed(node):
                return self._merging(node)
        return None

    def _lowered(self, node: Node) -> DataFrame:
        tail = self.tail(node)
        if tail is not None:
            return tail.frame()
        with analysed(node):
            return self._native(node)

    # --- operations that Spark knows -------------------------------------------------------------------------------

    def _native(self, node: Node) -> DataFrame:
        match node:
            case Each(function=operation, outputs=outputs):
                return self._appended(
                    node, self.frame(node.source), operation, node.inputs, outputs, node.source.schema.names
                )
            case Map(function=operation):
                return self._appended(node, self.frame(node.source), operation, node.inputs, node.schema, [])
            case Filter(predicate=operation):
                return self._filtered(node, self.frame(node.source), operation)
            case Project(names=names):
                return self.frame(node.source).select(*all_quoted(names))
            case PartitionBy(names=names):
                return self.frame(node.source).repartition(*[F.col(name) for name in all_quoted(names)])
            case Debug():
                return self.frame(node.source)
            case Aggregate() | PersistentAggregate():
                return self._aggregated(node)
            case Merge():
                return self._merged(node)
            case Join():
                return self._joined(node)
            case Transform():
                return self._transformed(node)
        raise TypeError(f"{node.step}: the Spark engine knows no {type(node).__name__}")

    def _appended(
        self,
        node: Node,
        frame: DataFrame,
        operation: Operation,
        inputs: tuple[str, ...],
        outputs: StructType,
        before: list[str],
    ) -> DataFrame:
        """The needed ones of the fields in `before`, then those of an expression, by declared names and types."""
        column = _column(node, operation, inputs)
        names = [name for name in before if name in self.layout.needed[id(node)]]
        if len(outputs.fields) == 1:
            made = frame.select(*all_quoted(names), column.alias(outputs.names[0]))
        else:
            made = self._several(node, frame, column, outputs, names)
        return self._typed(node, made, operation, outputs, names)

    def _several(
        self, node: Node, frame: DataFrame, column: Column, outputs: StructType, names: list[str]
    ) -> DataFrame:
        """Several fields of one expression: a generator's columns, or a struct's fields."""
        if self._learned.get(id(node)) != "struct":
            try:
                return frame.select(*all_quoted(names), column.alias(*outputs.names))
            except AnalysisException as error:
                if error.getCondition() not in _NO_GENERATOR:
                    raise
                self._learned[id(node)] = "struct"
        made = frame.select(*all_quoted(names), column.alias(_STRUCT))
        fields = made.schema[_STRUCT].dataType
        if not isinstance(fields, StructType) or len(fields.fields) != len(outputs.fields):
            raise Where(node.step, node.site).error(
                f"gives {plain(fields)} where {len(outputs.fields)} fields are declared: ({', '.join(outputs.names)}); "
                "use a generator or a struct of as many fields"
            )
        items = [
            f"{_STRUCT}.{quoted(own)} AS {quoted(name)}" for own, name in zip(fields.names, outputs.names, strict=True)
        ]
        return made.selectExpr(*all_quoted(names), *items)

    def _typed(
        self, node: Node, made: DataFrame, operation: Operation, outputs: StructType, names: list[str]
    ) -> DataFrame:
        """The same under the declared types; refuses what cannot be cast without a loss."""
        learned = self._learned.get(~id(node))
        if learned is None:
            come = {field.name: field.dataType for field in made.schema.fields}
            for field in outputs.fields:
                if not widens(come[field.name], field.dataType):
                    raise Where(node.step, operation.site).error(
                        f"gives {plain(come[field.name])} for field {field.name!r}, declared {plain(field.dataType)}; "
                        f"cast it in the expression, or declare it so"
                    )
            same = all(plain(come[field.name]) == plain(field.dataType) for field in outputs.fields)
            learned = self._learned[~id(node)] = "same" if same else "cast"
        if learned == "same":
            return made
        items = [cast(quoted(field.name), field.dataType, field.name) for field in outputs.fields]
        return made.selectExpr(*all_quoted(names), *items)

    def _filtered(self, node: Filter, frame: DataFrame, operation: Operation) -> DataFrame:
        if is_filter_null(node):
            return frame.filter(F.expr(" AND ".join(f"{name} IS NOT NULL" for name in all_quoted(node.inputs))))
        return frame.filter(_column(node, operation, node.inputs))

    # --- aggregates --------------------------------------------------------------------------------------------------

    def _merging(self, node: Aggregate | PersistentAggregate) -> Tail:
        """A combiner of Python's: folded in every partition, brought together by key, met."""
        return meeting(self.folding(node).frame(), fold_spec(node), self.profile)

    def folding(self, node: Aggregate | PersistentAggregate) -> Tail:
        """One accumulator a key and partition, folded where the Python operations before it run, if there are any."""
        spec, chain = fold_spec(node), self.folding_chain(node)
        if chain is None:
            wanted = {*node.group, *node.inputs}
            names = [name for name in node.source.schema.names if name in wanted] or node.source.schema.names[:1]
            schema = arrow_schema(select(node.source.schema, names))
            chain = Chain((), schema, schema), self.select(node.source, names)
        return Tail(chain[1], Partial(chain[0], spec), spec.schema)

    def _aggregated(self, node: Aggregate | PersistentAggregate) -> DataFrame:
        spec = fold_spec(node)
        if self.folding_chain(node) is None:
            return aggregated(self.frame(node.source), spec, partial=False)
        return aggregated(self.folding(node).frame(), spec, partial=True)

    def folding_chain(self, node: Aggregate | PersistentAggregate) -> tuple[Chain, DataFrame] | None:
        """The Python operations before an aggregate that nobody else reads: the fold can run with them."""
        source = node.source
        if id(source) in self._frames or self.layout.shared(source):
            return None
        works, below = self.layout.chain(source)
        if not works:
            return None
        wanted = {*node.group, *node.inputs}
        leaving = [name for name in source.schema.names if name in wanted] or source.schema.names[:1]
        return self._chain(works, below, leaving, source)

    # --- several sources -------------------------------------------------------------------------------------------

    def _merged(self, node: Merge) -> DataFrame:
        needed = set(self.layout.names(node))
        places = [place for place, name in enumerate(node.schema.names) if name in needed]
        parts = []
        for source in node.sources:
            items = []
            for place in places:
                come, field = source.schema.fields[place], node.schema.fields[place]
                same = plain(come.dataType) == plain(field.dataType)
                items.append(_item(come, field, same))
            parts.append(self.frame(source).selectExpr(*items))
        return reduce(lambda left, right: left.unionAll(right), parts)

    def _joined(self, node: Join) -> DataFrame:
        """Inner, null meets null. Every side gets names of its own, so that a stream can be joined with itself."""
        sides = []
        for at, source in enumerate(node.sources):
            used = [name for name in source.schema.names if name in self.layout.needed[id(source)]]
            sides.append(self.frame(source).selectExpr(*[f"{quoted(n)} AS {_side(at, n)}" for n in used]))
        joined = sides[0]
        for at, side in enumerate(sides[1:], 1):
            pairs = zip(node.keys[0], node.keys[at], strict=True)
            condition = " AND ".join(f"{_side(0, left)} <=> {_side(at, right)}" for left, right in pairs)
            joined = joined.join(side, on=F.expr(condition), how="inner")
        origins = [(0, name) for name in node.keys[0]]
        for at, (source, key) in enumerate(zip(node.sources, node.keys, strict=True)):
            origins += [(at, name) for name in source.schema.names if name not in key]
        items = [
            cast(_side(*origin), f.dataType, f.name) for origin, f in zip(origins, node.schema.fields, strict=True)
        ]
        return joined.selectExpr(*items)

    # --- the whole DataFrame API -----------------------------------------------------------------------------------

    def _transformed(self, node: Transform) -> DataFrame:
        where = Where(node.step, node.function.site)
        given = self.frame(node.source).select(*all_quoted(node.source.schema.names))
        made: DataFrame
        try:
            made = node.function.target(given, **dict(node.frames))
        except (AnalysisException, ParseException):
            raise
        except Exception as cause:
            raise where.raised(cause, [], 0) from cause
        if not hasattr(made, "selectExpr"):
            raise where.error(f"gave {type(made).__name__} where a DataFrame is expected; return the DataFrame")
        learned = self._learned.get(~id(node))
        if learned is None:
            learned = self._learned[~id(node)] = _same_fields(where, made.schema, node.schema)
        if learned == "same":
            return made.select(*all_quoted(node.schema.names))
        return made.selectExpr(*[cast(quoted(f.name), f.dataType, f.name) for f in node.schema.fields])


_STRUCT = "__trident_struct"
_NO_GENERATOR = ("MULTI_ALIAS_WITHOUT_GENERATOR", "UNSUPPORTED_GENERATOR", "NUM_COLUMNS_MISMATCH")


def _same_fields(where: Where, made: StructType, declared: StructType) -> str:
    """Whether a transform gave what was declared ("same") or what may be cast to it ("cast"); else an error."""
    come = {field.name: field.dataType for field in made.fields}
    for field in declared.fields:
        if field.name not in come:
            raise where.error(f"gave a DataFrame without {field.name!r}; its columns are ({', '.join(made.names)})")
        if not widens(come[field.name], field.dataType):
            gave = plain(come[field.name])
            raise where.error(f"gave {gave} for field {field.name!r}, declared {plain(field.dataType)}")
    return "same" if all(plain(come[f.name]) == plain(f.dataType) for f in declared.fields) else "cast"


def _side(at: int, name: str) -> str:
    return quoted(f"{at}.{name}")


def _item(come: StructField, field: StructField, same: bool) -> str:
    if not same:
        return cast(quoted(come.name), field.dataType, field.name)
    return quoted(come.name) if come.name == field.name else f"{quoted(come.name)} AS {quoted(field.name)}"


def _column(node: Node, operation: Operation, inputs: tuple[str, ...]) -> Column:
    """A native operation as a Column over its input fields."""
    target = operation.target
    if operation.call is Call.EXPRESSION:
        return F.expr(target.text)
    if operation.call is Call.COLUMN:
        ready: Column = target
        return ready
    where = Where(node.step, operation.site)
    made: Column
    try:
        made = target(*[F.col(name) for name in all_quoted(inputs)])
    except Exception as cause:
        raise where.raised(cause, [], 0) from cause
    if not isinstance(made, Column):
        raise where.error(f"gave {type(made).__name__} where a Column is expected; it is annotated '-> Column'")
    return made


@contextlib.contextmanager
def analysed(node: Node) -> Iterator[None]:
    """What Spark refuses while a step is lowered is said with the step's name."""
    try:
        yield
    except TridentError:
        raise
    except (AnalysisException, ParseException) as error:
        operation = getattr(node, "function", None) or getattr(node, "predicate", None)
        site = operation.site if isinstance(operation, Operation) else node.site
        raise UserFunctionError(f"{node.step}: {site}: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """What a Spark error says, without the plan that follows."""
    return str(error).partition("\n")[0].partition("; line ")[0].strip()
