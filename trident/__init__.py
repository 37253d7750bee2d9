"""Exactly-once, queryable state for PySpark, in Trident's fluent vocabulary.

Names are imported when they are first used (PEP 562): ``import trident`` is quick, starts no JVM and opens nothing.
"""

import importlib
import sys
from typing import TYPE_CHECKING

from trident.base.missing_names import missing_name

if TYPE_CHECKING:
    from trident import errors
    from trident.access.listing import listStates
    from trident.access.opening import openState
    from trident.access.removal import dropState
    from trident.base.errors import FailedException, TridentError
    from trident.operations.aggregators import Aggregator, CombinerAggregator, ReducerAggregator
    from trident.operations.averages import Average
    from trident.operations.builtin_aggregators import Count, Max, Min, Sum
    from trident.operations.builtin_filters import Equals, FilterNull, Negate
    from trident.operations.builtin_functions import Debug, MapGet, SnapshotGet, TupleCollectionGet, expr
    from trident.operations.context import OperationContext
    from trident.operations.error_policy import DeadLetter
    from trident.operations.functions import Filter, Function, QueryFunction, StateUpdater, TridentCollector
    from trident.operations.join_kinds import JoinOutFieldsMode, JoinType
    from trident.operations.multireducers import GroupedMultiReducer, MultiReducer
    from trident.operations.sketches import CountDistinct, Quantiles
    from trident.operations.top_k import TopK
    from trident.operations.tuples import TridentTuple
    from trident.operations.windows import (
        SessionWindow,
        SlidingCountWindow,
        SlidingDurationWindow,
        SlidingEventTimeWindow,
        TumblingCountWindow,
        TumblingDurationWindow,
        TumblingEventTimeWindow,
    )
    from trident.outputs.published import publishedFiles, readParquet
    from trident.run.running import active
    from trident.stream import GroupedStream, Stream, TridentState, WindowedStream
    from trident.stream.apply_assembly import Assembly, FirstN
    from trident.stream.custom_verbs import verb
    from trident.topology import TridentTopology

_NAMES = {
    "trident.access.listing": "listStates",
    "trident.access.opening": "openState",
    "trident.access.removal": "dropState",
    "trident.base.errors": "FailedException TridentError",
    "trident.operations.aggregators": "Aggregator CombinerAggregator ReducerAggregator",
    "trident.operations.averages": "Average",
    "trident.operations.builtin_aggregators": "Count Sum Min Max",
    "trident.operations.builtin_filters": "FilterNull Equals Negate",
    "trident.operations.builtin_functions": "MapGet SnapshotGet TupleCollectionGet Debug expr",
    "trident.operations.context": "OperationContext",
    "trident.operations.error_policy": "DeadLetter",
    "trident.operations.functions": "TridentCollector Function Filter QueryFunction StateUpdater",
    "trident.operations.join_kinds": "JoinType JoinOutFieldsMode",
    "trident.operations.multireducers": "MultiReducer GroupedMultiReducer",
    "trident.operations.sketches": "CountDistinct Quantiles",
    "trident.operations.top_k": "TopK",
    "trident.operations.tuples": "TridentTuple",
    "trident.operations.windows": (
        "TumblingCountWindow SlidingCountWindow TumblingDurationWindow SlidingDurationWindow "
        "TumblingEventTimeWindow SlidingEventTimeWindow SessionWindow"
    ),
    "trident.outputs.published": "publishedFiles readParquet",
    "trident.run.running": "active",
    "trident.stream": "Stream GroupedStream TridentState WindowedStream",
    "trident.stream.apply_assembly": "Assembly FirstN",
    "trident.stream.custom_verbs": "verb",
    "trident.topology": "TridentTopology",
}
"""Each module that defines public names, with these names."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

_MODULES = ("errors", "spouts", "state", "testing")

__all__ = [
    "Aggregator",
    "Assembly",
    "Average",
    "CombinerAggregator",
    "Count",
    "CountDistinct",
    "DeadLetter",
    "Debug",
    "Equals",
    "FailedException",
    "Filter",
    "FilterNull",
    "FirstN",
    "Function",
    "GroupedMultiReducer",
    "GroupedStream",
    "JoinOutFieldsMode",
    "JoinType",
    "MapGet",
    "Max",
    "Min",
    "MultiReducer",
    "Negate",
    "OperationContext",
    "Quantiles",
    "QueryFunction",
    "ReducerAggregator",
    "SessionWindow",
    "SlidingCountWindow",
    "SlidingDurationWindow",
    "SlidingEventTimeWindow",
    "SnapshotGet",
    "StateUpdater",
    "Stream",
    "Sum",
    "TopK",
    "TridentCollector",
    "TridentError",
    "TridentState",
    "TridentTopology",
    "TridentTuple",
    "TumblingCountWindow",
    "TumblingDurationWindow",
    "TumblingEventTimeWindow",
    "TupleCollectionGet",
    "WindowedStream",
    "active",
    "dropState",
    "errors",
    "expr",
    "listStates",
    "openState",
    "publishedFiles",
    "readParquet",
    "verb",
]


def _attribute(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"trident.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("trident-pyspark")
    if name not in _HOMES:
        raise missing_name(__name__, name, lambda: _hint(name), sys._getframe(1))  # noqa: SLF001
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # the next look-up does not come here
    return value


if not TYPE_CHECKING:  # a type checker would take every misspelt name for an object
    __getattr__ = _attribute


def _hint(name: str) -> str:
    """Return what to write instead of an unknown name: the module that has the name, or a similar name."""
    from trident.base.names import by_any_case, did_you_mean
    from trident.stream import foreign_names

    modules = [part for part in ("spouts", "state") if name in importlib.import_module(f"trident.{part}").__all__]
    if modules:
        return f"; write: from trident.{modules[0]} import {name}"
    foreign = by_any_case(name, foreign_names.MODULE)
    return did_you_mean(name, __all__) if foreign is None else f"; use {foreign_names.MODULE[foreign]}"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
