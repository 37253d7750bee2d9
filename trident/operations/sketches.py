"""CountDistinct and Quantiles: answers within a known error from a few kilobytes, by Apache DataSketches.

The package is an extra: ``pip install 'trident-pyspark[sketches]'``. What a state holds is the sketch in its own
portable binary form, which the Java and C++ libraries read too.
"""

import datetime
import decimal
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy
from pyspark.sql import types as spark

from trident.base.errors import MissingPackageError, TopologyError
from trident.base.types import type_ddl
from trident.operations.builtin_aggregators import EXACT, NUMERIC, BuiltinAggregator, one_field


@dataclass(frozen=True)
class CountDistinct(BuiltinAggregator):
    """How many different values a field has, or different tuples several fields have, nearly: an HLL sketch.

    The standard error is 1.04 / sqrt(2^lgK), 1.6 % for ``lgK=12``; small counts are exact or nearly so. A sketch takes
    2^lgK / 2 bytes at most, 2 kB. Tuples with a null are skipped, as in ``count(DISTINCT ...)`` of SQL; numbers are
    equal as Spark means it. Sketches meet in any order, over partitions, batches and drivers. The output is a bigint.

    Raises
    ------
    MissingPackageError
        Where the extra ``sketches`` is not installed.
    TopologyError
        Where `lgK` is not from 4 to 21.

    >>> distinct = CountDistinct()
    >>> three = distinct.combine(distinct.gathered([("dog",), ("cat",)]), distinct.gathered([("dog",), ("ox",)]))
    >>> distinct.present(three)
    3
    """

    lgK: int = 12
    gathers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _library("CountDistinct")
        if not isinstance(self.lgK, int) or isinstance(self.lgK, bool) or not 4 <= self.lgK <= 21:
            raise TopologyError(f"CountDistinct keeps 2^lgK registers, lgK from 4 to 21, not lgK={self.lgK!r}")

    def init(self, tuple: Any) -> bytes:
        return self.gathered([tuple])

    def combine(self, a: bytes, b: bytes) -> bytes:
        library = _library("CountDistinct")
        union = library.hll_union(self.lgK)
        union.update(library.hll_sketch.deserialize(a))
        union.update(library.hll_sketch.deserialize(b))
        return _compact(union.get_result(library.tgt_hll_type.HLL_4))

    def zero(self) -> bytes:
        return self.gathered([])

    def present(self, acc: bytes) -> int:
        """The estimate."""
        estimate: float = _library("CountDistinct").hll_sketch.deserialize(acc).get_estimate()
        return round(estimate)

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> bytes:
        library = _library("CountDistinct")
        sketch = library.hll_sketch(self.lgK, library.tgt_hll_type.HLL_4)
        for values in tuples:
            if None not in values:
                sketch.update(_item(values[0] if len(values) == 1 else values))
        return _compact(sketch)

    def problem(self, inputs: spark.StructType) -> str:
        if not inputs.fields:
            return "CountDistinct tells values apart; name the fields before it"
        for field in inputs.fields:
            if "map<" in type_ddl(field.dataType):
                return f"CountDistinct tells values apart, no maps, and {field.name!r} is {type_ddl(field.dataType)}"
        return ""

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return spark.BinaryType()


@dataclass(frozen=True, init=False)
class Quantiles(BuiltinAggregator):
    """The values at these ranks of one numeric field, nearly: a KLL sketch.

    ``Quantiles(0.5, 0.99)`` gives an array of two doubles, the median and the value that 99 % do not exceed. With
    ``k=200`` the rank of each is within 1.33 % of the one asked for, with 99 % confidence, from some 2 kB; a greater
    `k` is more exact. Up to `k` values are kept as they are. Nulls and NaN are skipped; of nothing it is null. The
    ranks are no part of what a state holds: ask it for others whenever you like.

    Raises
    ------
    MissingPackageError
        Where the extra ``sketches`` is not installed.
    TopologyError
        Where a rank is not from 0 to 1, or there is none, or `k` is not from 8 to 65535.

    >>> quartiles = Quantiles(0.25, 0.5, 0.75)
    >>> quartiles.present(quartiles.gathered([(n,) for n in range(1, 101)]))
    [25.0, 50.0, 75.0]
    """

    ranks: tuple[float, ...]
    k: int
    gathers: ClassVar[bool] = True

    def __init__(self, *ranks: float, k: int = 200) -> None:
        _library("Quantiles")
        wrong = [rank for rank in ranks if not isinstance(rank, int | float) or not 0 <= rank <= 1]
        if wrong or not ranks:
            what = f"not {wrong[0]!r}" if wrong else "at least one"
            raise TopologyError(f"Quantiles takes ranks from 0 to 1, {what}; write Quantiles(0.5, 0.99)")
        if not isinstance(k, int) or isinstance(k, bool) or not 8 <= k <= 65535:
            raise TopologyError(f"Quantiles takes k from 8 to 65535, not k={k!r}")
        object.__setattr__(self, "ranks", tuple(map(float, ranks)))
        object.__setattr__(self, "k", k)

    def init(self, tuple: Any) -> bytes:
        return self.gathered([tuple])

    def combine(self, a: bytes, b: bytes) -> bytes:
        library = _library("Quantiles")
        sketch = library.kll_doubles_sketch.deserialize(a)
        sketch.merge(library.kll_doubles_sketch.deserialize(b))
        return bytes(sketch.serialize())

    def zero(self) -> bytes:
        return self.gathered([])

    def present(self, acc: bytes) -> list[float] | None:
        """The value at each rank."""
        sketch = _library("Quantiles").kll_doubles_sketch.deserialize(acc)
        return None if sketch.is_empty() else [float(sketch.get_quantile(rank, True)) for rank in self.ranks]

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> bytes:
        sketch = _library("Quantiles").kll_doubles_sketch(self.k)
        sketch.update(numpy.array([value for (value,) in tuples if value is not None], numpy.float64))
        return bytes(sketch.serialize())

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("Quantiles", "orders numbers", inputs, NUMERIC)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return spark.BinaryType()


def _library(name: str) -> Any:
    try:
        return importlib.import_module("datasketches")
    except ImportError as error:
        raise MissingPackageError(
            f"{name} needs the package datasketches, also where Spark's workers run: "
            "pip install 'trident-pyspark[sketches]'"
        ) from error


def _compact(sketch: Any) -> bytes:
    return bytes(sketch.serialize_compact())


def _item(value: Any) -> int | float | str:
    """A value as the sketch hashes it. All values that meet are of one declared type, so that no two meet by chance. A
    sketch passes over an empty text, so that none is."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):  # to a sketch, too, 0.0 is -0.0 and every NaN is one
        return value
    return f"={value if isinstance(value, str) else _text(value)}"


def _text(value: Any) -> str:
    """A value as text, another one for another value."""
    match value:
        case str():
            return f"{len(value)}:{value}"
        case bytes():
            return f"{len(value)}:{value.decode('latin-1')}"
        case float():
            return repr(value if value else 0.0)
        case decimal.Decimal():
            return str(value.normalize(EXACT)) if value else "0"
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).isoformat()
        case datetime.date():
            return value.isoformat()
        case tuple() | list():
            return "(" + ",".join(_text(each) for each in value) + ")"
    return repr(value)
