"""Steps of a DRPC function that only Spark can run. Each is a small Spark job over the tuples of requests."""

import threading
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from trident.base.spark_types import arrow_schema, spark_schema
from trident.base.value_conversion import conform
from trident.compiler.columns.columns import Columns, concat
from trident.compiler.spark.errors import translated
from trident.compiler.spark.lowering import Lowering
from trident.compiler.spark.native_operations import Learned
from trident.compiler.spark.plan_calls import to_arrow
from trident.compiler.spark.sessions import Confs, Profile, active_session_kept, released, run_session
from trident.compiler.spark.stage_inputs import StageInput
from trident.compiler.stage_layout import StageLayout, layout
from trident.plan.nodes import Each, Filter, Map, Node, RequestSource, Transform
from trident_spouts.driver_rows import rows_in_plan

_REQUEST = "__trident_request"
_OUT = "__trident_out_"
_SMALL = Profile(small=True, partitions=1)


@dataclass(frozen=True, slots=True)
class _StepAlone:
    """One step of a DRPC function as a separate plan. Its inputs are the request's number and the fields to read."""

    step: Node
    entry: Node
    leaving: StructType
    names: list[str]
    """The final names of the fields that the step emits."""
    layout: StageLayout
    learned: Learned = field(default_factory=dict)


class SparkSteps:
    """The runner of the native steps of DRPC functions. It opens a Spark session when the first such step runs."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._prepared: dict[Node, _StepAlone] = {}

    def __call__(self, node: Node, columns: Columns, requests: Columns) -> Columns:
        """Run one step over the tuples of many requests. A transform gets the tuples of one request at a time."""
        (hidden,) = requests.names
        if isinstance(node, Transform):
            return self._each_alone(node, columns, requests[hidden].values(), hidden)
        names = [name for name in node.source.schema.names if name in columns.names]  # type: ignore[attr-defined]
        prepared = self._prepared.get(node)
        if prepared is None:
            prepared = self._prepared[node] = _prepare(node, names, columns[hidden].kind)
        entering = columns.select([hidden, *names]).rename([_REQUEST, *names])
        return self._run(prepared, entering).rename([hidden, *prepared.names])

    def _each_alone(self, node: Transform, columns: Columns, numbers: list[int], hidden: str) -> Columns:
        prepared = self._prepared.get(node)
        if prepared is None:
            source = RequestSource("", step=node.step, site=node.site, schema=node.source.schema)
            prepared = self._prepared[node] = _plan(
                replace(node, source=source), source, node.schema, node.schema.names
            )
        kind, request_numbers = columns[hidden].kind, columns[hidden].values()
        parts = []
        for number in numbers:
            tuples = columns.take([row for row, request in enumerate(request_numbers) if request == number])
            result = self._run(prepared, tuples.select(node.source.schema.names))
            marks = Columns.of(pa.table({hidden: pa.array([number] * result.rows, kind)}), pa.schema([(hidden, kind)]))
            parts.append(result.plus({hidden: marks[hidden]}))
        return concat(parts)

    def _run(self, prepared: _StepAlone, entering: Columns) -> Columns:
        entering_schema, leaving = prepared.entry.schema, arrow_schema(prepared.leaving)
        session = self._own_session()
        try:
            with active_session_kept(session):
                frame = rows_in_plan(session, entering.table(arrow_schema(entering_schema)), entering_schema)
                lowering = Lowering(
                    prepared.layout, {id(prepared.entry): StageInput.of_frame(frame)}, _SMALL, prepared.learned
                )
                result = to_arrow(lowering.select(prepared.step, leaving.names), prepared.leaving)
        except Exception as error:
            better = translated(error, prepared.layout.nodes, session)
            if better is error:
                raise
            raise better from better.__cause__
        return Columns.of(conform(result, leaving), leaving)

    def _own_session(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                self._session = run_session(self._spark)
                Confs(self._session).apply(_SMALL)
            return self._session

    def close(self) -> None:
        """Release the session, if there is one."""
        with self._lock:
            if self._session is not None:
                released(self._session)
                self._session = None


def _prepare(node: Node, names: list[str], number_kind: pa.DataType) -> _StepAlone:
    """Return an expression or a condition as a separate plan that keeps the number of the request."""
    (number,) = spark_schema(pa.schema([pa.field(_REQUEST, number_kind)])).fields
    match node:
        case Filter(source=source) | Each(source=source) | Map(source=source):
            entering_schema = StructType([number, *[source.schema[name] for name in names]])
            entry = RequestSource("", step=node.step, site=node.site, schema=entering_schema)
        case _:
            raise TypeError(f"{node.step}: Spark cannot run this step for a request")
    match node:
        case Filter():
            return _plan(replace(node, source=entry, schema=entering_schema), entry, entering_schema, names)
        case Each(outputs=outputs):
            kept = [name for name in names if name not in outputs.names]
            leaving = StructType([number, *[entering_schema[name] for name in kept], *outputs.fields])
            return _plan(replace(node, source=entry, schema=leaving), entry, leaving, [*kept, *outputs.names])
        case Map(inputs=inputs, function=function, schema=schema):
            outputs = StructType([StructField(f"{_OUT}{at}", kind.dataType) for at, kind in enumerate(schema.fields)])
            every = StructType([*entering_schema.fields, *outputs.fields])
            step = Each(entry, inputs, function, outputs, step=node.step, site=node.site, schema=every)
            return _plan(step, entry, StructType([number, *outputs.fields]), schema.names)
    raise TypeError(node.step)


def _plan(step: Node, entry: Node, leaving: StructType, names: list[str]) -> _StepAlone:
    return _StepAlone(step, entry, leaving, list(names), layout({step: leaving.names}, [entry]))
