"""Exactly-once, queryable state for PySpark, in Trident's fluent vocabulary.

Names are looked up when they are first used (PEP 562): ``import trident`` is quick, starts no JVM and opens nothing.
"""

import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

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
    from trident.stream.assembly import Assembly, FirstN
    from trident.stream.custom_verbs import verb
    from trident.topology import TridentTopology

_HOMES = {
    "TridentTopology": "trident.topology",
    "Stream": "trident.stream",
    "GroupedStream": "trident.stream",
    "TridentState": "trident.stream",
    "WindowedStream": "trident.stream",
    "TridentTuple": "trident.operations.tuples",
    "TridentCollector": "trident.operations.functions",
    "Function": "trident.operations.functions",
    "Filter": "trident.operations.functions",
    "QueryFunction": "trident.operations.functions",
    "StateUpdater": "trident.operations.functions",
    "Aggregator": "trident.operations.aggregators",
    "CombinerAggregator": "trident.operations.aggregators",
    "ReducerAggregator": "trident.operations.aggregators",
    "MultiReducer": "trident.operations.multireducers",
    "GroupedMultiReducer": "trident.operations.multireducers",
    "JoinType": "trident.operations.join_kinds",
    "JoinOutFieldsMode": "trident.operations.join_kinds",
    "Count": "trident.operations.builtin_aggregators",
    "Sum": "trident.operations.builtin_aggregators",
    "Min": "trident.operations.builtin_aggregators",
    "Max": "trident.operations.builtin_aggregators",
    "Average": "trident.operations.averages",
    "TopK": "trident.operations.top_k",
    "CountDistinct": "trident.operations.sketches",
    "Quantiles": "trident.operations.sketches",
    "Assembly": "trident.stream.assembly",
    "FirstN": "trident.stream.assembly",
    "MapGet": "trident.operations.builtin_functions",
    "SnapshotGet": "trident.operations.builtin_functions",
    "TupleCollectionGet": "trident.operations.builtin_functions",
    "FilterNull": "trident.operations.builtin_filters",
    "Equals": "trident.operations.builtin_filters",
    "Negate": "trident.operations.builtin_filters",
    "OperationContext": "trident.operations.context",
    "Debug": "trident.operations.builtin_functions",
    "expr": "trident.operations.builtin_functions",
    "TumblingCountWindow": "trident.operations.windows",
    "SlidingCountWindow": "trident.operations.windows",
    "TumblingDurationWindow": "trident.operations.windows",
    "SlidingDurationWindow": "trident.operations.windows",
    "TumblingEventTimeWindow": "trident.operations.windows",
    "SlidingEventTimeWindow": "trident.operations.windows",
    "SessionWindow": "trident.operations.windows",
    "DeadLetter": "trident.operations.error_policy",
    "active": "trident.run.running",
    "publishedFiles": "trident.outputs.published",
    "readParquet": "trident.outputs.published",
    "verb": "trident.stream.custom_verbs",
    "openState": "trident.access.opening",
    "listStates": "trident.access.listing",
    "dropState": "trident.access.removal",
    "FailedException": "trident.base.errors",
    "TridentError": "trident.base.errors",
}

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


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"trident.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("trident-pyspark")
    if name not in _HOMES:
        raise _unknown(name)
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def _unknown(name: str) -> Exception:
    """The error for a name that is not here: where it is, or what may have been meant.

    ``from trident import X`` forgets the words of an AttributeError, so the error is an ImportError where the import
    asks. Its parts that were not imported yet it asks for in the same way; they are none of our business.
    """
    asks = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    if name.startswith("_") or (asks and find_spec(f"trident.{name}") is not None):
        return AttributeError(f"module 'trident' has no attribute {name!r}")
    from trident.base.names import by_any_case, did_you_mean
    from trident.stream import foreign_names

    homes = [home for home in ("spouts", "state") if name in importlib.import_module(f"trident.{home}").__all__]
    meant = by_any_case(name, foreign_names.MODULE)
    if homes:
        hint = f"; write: from trident.{homes[0]} import {name}"
    else:
        hint = did_you_mean(name, __all__) if meant is None else f"; use {foreign_names.MODULE[meant]}"
    if asks:
        return ImportError(f"cannot import name {name!r} from 'trident'{hint}", name="trident")
    return AttributeError(f"module 'trident' has no attribute {name!r}{hint}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
