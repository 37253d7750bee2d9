"""CountDistinct and Quantiles, whose accumulators are small sketches with a known error.

The sketches are those of Apache DataSketches.

The package is an extra: ``pip install 'trident-pyspark[sketches]'``. A state holds the sketch in a portable binary
form, which the Java and C++ libraries can read, too.
"""

import datetime
import decimal
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import pyarrow as pa
from pyspark.sql import types as spark

from trident.base.argument_checks import check_flag, check_whole_number
from trident.base.errors import TopologyError
from trident.base.option_names import known_fields
from trident.base.optional_packages import optional_package
from trident.base.spark_types import type_ddl
from trident.base.value_conversion import to_python
from trident.operations.aggregates.base import EXACT, NUMERIC, BuiltinAggregator, WhereLike, check_parameter, one_field
from trident.operations.aggregates.element_lists import Elements
from trident.operations.aggregates.exact_distinct import ExactDistinct


@known_fields({})
@dataclass(frozen=True)
class CountDistinct(BuiltinAggregator):
    """The number of distinct values of a field, or of distinct tuples of several fields: an estimate, or exact.

    Tuples with a null are skipped, as in ``count(DISTINCT ...)`` of SQL. Numbers are equal if they are equal in Spark.
    The output is a bigint.

    The estimate is that of an HLL sketch. Its standard error is 1.04 / sqrt(2^lgK), 1.6 % for ``lgK=12``; small counts
    are exact or nearly so. A sketch takes at most 2^lgK / 2 bytes, 2 kB by default. Sketches combine in any order, over
    partitions, batches and drivers.

    With ``exact=True`` the number is exact: a group keeps its distinct values in an array, and each change of a key in
    a state writes the whole array. It needs no extra package. A state of one form cannot be used with the other.
    Meaning: ``count_distinct`` of PySpark; without `exact`, ``approx_count_distinct``.

    Raises
    ------
    MissingPackageError
        If the extra ``sketches`` is not installed, without `exact`.
    TopologyError
        If `lgK` is not a whole number from 4 to 21, or is given with `exact`.

    >>> distinct = CountDistinct(exact=True)
    >>> three = distinct.combine(distinct.gathered([("dog",), ("cat",)]), distinct.gathered([("dog",), ("ox",)]))
    >>> distinct.present(three)
    3
    """

    idempotent: ClassVar[bool] = True

    lgK: int = 12
    exact: bool = False
    gathers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_flag("CountDistinct: exact", self.exact)
        if not self.exact:
            _library("CountDistinct")
        check_parameter("CountDistinct", "lgK", self.lgK, 4, 21)
        if self.exact and self.lgK != 12:
            raise TopologyError(
                f"CountDistinct: lgK={self.lgK!r} sets the size of a sketch, but exact=True uses none: remove one of "
                "the two"
            )
        object.__setattr__(self, "_form", ExactDistinct() if self.exact else _DistinctSketch(self.lgK))

    @property
    def variant(self) -> str:
        return "exact" if self.exact else ""

    def init(self, tuple: Any) -> Any:
        return self._form.gathered([tuple])

    def combine(self, a: Any, b: Any) -> Any:
        return self._form.combine(a, b)

    def zero(self) -> Any:
        return self._form.gathered([])

    def present(self, acc: Any) -> int:
        """Return the number."""
        return self._form.present(acc)

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> Any:
        return self._form.gathered(tuples)

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        return self._form.initColumn(columns, groups, count)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        return self._form.combineColumn(a, b)

    def problem(self, inputs: spark.StructType) -> str:
        if not inputs.fields:
            return "CountDistinct counts distinct values; name the fields before the aggregator"
        return self._form.problem(inputs)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return self._form.type_of(inputs)

    if TYPE_CHECKING:

        @property
        def _form(self) -> "ExactDistinct | _DistinctSketch":
            """The accumulators of the chosen form, exact or estimated."""


@dataclass(frozen=True)
class _DistinctSketch:
    """The accumulators that estimate the number of distinct values."""

    lgK: int

    def combine(self, a: bytes, b: bytes) -> bytes:
        library = _library("CountDistinct")
        union = library.hll_union(self.lgK)
        union.update(library.hll_sketch.deserialize(a))
        union.update(library.hll_sketch.deserialize(b))
        return _compact(union.get_result(library.tgt_hll_type.HLL_4))

    def present(self, acc: bytes) -> int:
        """Return the estimate."""
        estimate: float = _library("CountDistinct").hll_sketch.deserialize(acc).get_estimate()
        return round(estimate)

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> bytes:
        library = _library("CountDistinct")
        sketch = library.hll_sketch(self.lgK, library.tgt_hll_type.HLL_4)
        for values in tuples:
            if None not in values:
                sketch.update(_item(values[0] if len(values) == 1 else values))
        return _compact(sketch)

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        library, several = _library("CountDistinct"), columns.num_columns > 1
        sketches = [library.hll_sketch(self.lgK, library.tgt_hll_type.HLL_4) for _ in range(count)]
        tuples = zip(*map(to_python, columns.columns), strict=True)
        for group, values in zip(groups.tolist(), tuples, strict=True):
            if None not in values:
                sketches[group].update(_item(values if several else values[0]))
        return _compacts(sketches)

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        library = _library("CountDistinct")
        read, make, kind = library.hll_sketch.deserialize, library.hll_union, library.tgt_hll_type.HLL_4
        unions = []
        for one, other in zip(a.to_pylist(), b.to_pylist(), strict=True):
            union = make(self.lgK)
            union.update(read(one))
            union.update(read(other))
            unions.append(union.get_result(kind))
        return _compacts(unions)

    def problem(self, inputs: spark.StructType) -> str:
        for field in inputs.fields:
            if "map<" in type_ddl(field.dataType):
                return f"CountDistinct cannot compare maps, and {field.name!r} is {type_ddl(field.dataType)}"
        return ""

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return spark.BinaryType()


@known_fields({})
@dataclass(frozen=True, init=False)
class Quantiles(BuiltinAggregator):
    """Estimates of the values at the given ranks of one numeric field (a KLL sketch).

    ``Quantiles(0.5, 0.99)`` gives an array of two doubles, the median and the 99th percentile. With
    ``k=200`` the rank of each value is within 1.33 % of the requested rank, with 99 % confidence, and a sketch takes
    some 2 kB; a greater `k` is more exact. Up to `k` values are kept exactly. The ranks 0 and 1 are the
    exact least and greatest value. Nulls and NaN are skipped; without
    any value the result is null. A state does not store the ranks, so a later start may use others.

    Raises
    ------
    MissingPackageError
        If the extra ``sketches`` is not installed.
    TopologyError
        If a rank is not from 0 to 1, or there is none, or `k` is not a whole number from 8 to 65535.

    >>> quartiles = Quantiles(0.25, 0.5, 0.75)
    >>> quartiles.present(quartiles.gathered([(n,) for n in range(1, 101)]))
    [25.0, 50.0, 75.0]
    """

    ranks: tuple[float, ...]
    k: int
    gathers: ClassVar[bool] = True

    def __init__(self, *ranks: float, k: int = 200, where: WhereLike = None) -> None:
        _library("Quantiles")
        wrong = [rank for rank in ranks if not isinstance(rank, int | float) or not 0 <= rank <= 1]
        if wrong or not ranks:
            problem = f"got {wrong[0]!r}" if wrong else "got none"
            field = wrong[0] if wrong and isinstance(wrong[0], str) else "price"
            way_out = f"name the field before the aggregator, as in ({field!r}, Quantiles(0.5, 0.99))"
            raise TopologyError(f"Quantiles takes one or more ranks from 0 to 1, but {problem}; {way_out}")
        check_whole_number("Quantiles: k", k, 8, 65535)
        object.__setattr__(self, "ranks", tuple(map(float, ranks)))
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "where", where)

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
        """Return the value at each rank."""
        sketch = _library("Quantiles").kll_doubles_sketch.deserialize(acc)
        if sketch.is_empty():
            return None
        # the minimum and maximum are exact, unlike other quantiles
        ends = {0.0: sketch.get_min_value, 1.0: sketch.get_max_value}
        return [float(ends[rank]() if rank in ends else sketch.get_quantile(rank, True)) for rank in self.ranks]

    def gathered(self, tuples: Sequence[tuple[Any, ...]]) -> bytes:
        sketch = _library("Quantiles").kll_doubles_sketch(self.k)
        sketch.update(numpy.array([value for (value,) in tuples if value is not None], numpy.float64))
        return bytes(sketch.serialize())

    def initColumn(self, columns: pa.RecordBatch, groups: Any, count: int) -> pa.Array:
        """Return the accumulators of `count` groups."""
        found = Elements.valid(columns.column(0), groups, columns.column(0)).ranked()
        make, sketches = _library("Quantiles").kll_doubles_sketch, []
        numbers = numpy.array(found.values.to_pylist(), numpy.float64)
        ends = numpy.searchsorted(found.lists, numpy.arange(count + 1))
        for start, end in itertools.pairwise(ends.tolist()):
            sketch = make(self.k)
            sketch.update(numbers[start:end])
            sketches.append(sketch.serialize())
        return pa.array(sketches, pa.binary())

    def combineColumn(self, a: pa.Array, b: pa.Array) -> pa.Array:
        """Return the combined accumulators of `a` and `b`, row by row."""
        read, merged = _library("Quantiles").kll_doubles_sketch.deserialize, []
        for one, other in zip(a.to_pylist(), b.to_pylist(), strict=True):
            sketch = read(one)
            sketch.merge(read(other))
            merged.append(sketch.serialize())
        return pa.array(merged, pa.binary())

    def problem(self, inputs: spark.StructType) -> str:
        return one_field("Quantiles", "orders numbers", inputs, NUMERIC)

    def type_of(self, inputs: spark.StructType) -> spark.DataType:
        return spark.BinaryType()


def _library(name: str) -> Any:
    need = f"{name} needs the package datasketches, also where Spark's workers run"
    return optional_package("datasketches", "sketches", need)


def _compacts(sketches: list[Any]) -> pa.Array:
    return pa.array([sketch.serialize_compact() for sketch in sketches], pa.binary())


def _compact(sketch: Any) -> bytes:
    return bytes(sketch.serialize_compact())


def _item(value: Any) -> int | float | str:
    """Return a value in the form in which the sketch hashes it.

    Numbers and texts cannot be confused: all values of a sketch have one declared type. Every text gets a "=" before
    it, because a sketch ignores the empty text.
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):  # a sketch, like Spark, treats 0.0 and -0.0 as equal, and all NaNs, too
        return value
    return f"={value if isinstance(value, str) else _text(value)}"


def _text(value: Any) -> str:
    """Return a string for a value. Two values have the same string only if they are equal."""
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
            return "(" + ",".join(map(_text, value)) + ")"
    return repr(value)
