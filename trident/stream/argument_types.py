"""The types of the positional arguments of verbs: fields and the operation, in every order that verbs accept.

Type checkers refuse everything else. Which argument is which is decided at the call (`trident.stream.arguments`).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import StructType

from trident.base.names import FieldsLike
from trident.expressions.tree import ColumnExpression
from trident.operations.aggregators import Aggregator, CombinerAggregator, ReducerAggregator
from trident.operations.debug import Debug
from trident.operations.evolution import Evolution
from trident.operations.expressions import Expression
from trident.operations.functions import Filter, Function, QueryFunction, StateUpdater
from trident.operations.stateful import StatefulOperation, TransactionOperation
from trident_state.store import StateFactory

_Fields = FieldsLike | StructType

FunctionArgument = (
    _Fields
    | Callable[..., Any]
    | Function
    | Filter
    | Debug
    | ColumnExpression
    | Mapping[str, ColumnExpression]
    | Expression
    | Column
)
"""An argument of a verb that takes a function of tuples."""

_OfPandas = Callable[..., float | str | bytes | bool | date | Decimal | Sequence[Any] | Mapping[Any, Any] | None]
"""A function from pandas objects to one value."""

_Aggregator = CombinerAggregator | ReducerAggregator | Aggregator | _OfPandas

AggregatorArgument = _Fields | _Aggregator | Mapping[str, _Aggregator | tuple[FieldsLike, _Aggregator]]
"""An argument of a verb that takes an aggregator, or several by the names of their output fields."""

WindowArgument = AggregatorArgument | StateFactory
"""An argument of a window verb: an aggregator, or the state factory that may precede it."""

QueryArgument = _Fields | QueryFunction
"""An argument of a verb that takes a query function."""

UpdaterArgument = _Fields | StateUpdater | Callable[..., Any]
"""An argument of a verb that takes a state updater."""

EvolveLike = Evolution | list[Evolution] | tuple[Evolution, ...] | None
"""The argument `evolve` of a verb that updates a state."""

IndexLike = str | list[str | tuple[str, ...]] | None
"""The argument `index` of a verb that updates a state: a field, or one entry for each index."""

StatefulArgument = _Fields | StatefulOperation | TransactionOperation | Callable[..., Any]
"""An argument of a verb that takes a stateful operation."""
