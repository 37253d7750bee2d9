"""The schemas of a step with windows: of the state with the windows, of their panes, and of their results."""

from pyspark.sql import types as spark

from trident.base.change_kinds import KIND
from trident.base.errors import TypeDeclarationError
from trident.base.names import quote
from trident.base.spark_types import type_ddl
from trident.base.verb_call import Step
from trident.operations.window_aggregators import Windowing
from trident.operations.windows import (
    CountWindow,
    EventTimeWindow,
    SessionWindow,
    TimeWindow,
    WindowConfig,
    timestamp_field,
)
from trident.plan import step_checks

PARTITION = "windowPartition"
"""The name of the field with the number of a tuple's partition, if each partition has its own windows."""

START, END, PART, BATCH = "windowStart", "windowEnd", "windowPart", "windowBatch"
LATEST = "windowLatest"
"""The name of the field with the latest time among the tuples of a pane."""

_NONE = "none"
"""The name of a stand-in field for tuples without fields: a struct needs at least one field."""


def time_field(schema: spark.StructType, name: str | None, step: Step) -> spark.DataType:
    """Return the type of a window's times: that of field `name`, or timestamp if the window follows batch time."""
    if name is None:
        return spark.TimestampType()
    step_checks.known_fields(schema, [name], step, " to go by")
    kind = schema[name].dataType
    if not isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        raise step.error(
            TypeDeclarationError,
            f"field {name!r} is {type_ddl(kind)}, but a window needs a timestamp or timestamp_ntz; create one first"
            f"{_timestamp_hint(name, kind, schema)}",
        )
    return kind


def check_zone(config: WindowConfig, kind: spark.DataType, step: Step) -> None:
    """Refuse windows of a time zone over times that have no zone."""
    if isinstance(config, TimeWindow) and config.timeZone is not None and not isinstance(kind, spark.TimestampType):
        raise step.error(
            TypeDeclarationError,
            f"field {config.timestampField!r} is {type_ddl(kind)}, a local time already: leave "
            f"timeZone={config.timeZone!r} out, or make it a timestamp",
        )


_IMPORT = ", with `from trident import functions as F`"


def _timestamp_hint(name: str, kind: spark.DataType, schema: spark.StructType) -> str:
    """Return the end of a sentence that advises how to make a field of this type a timestamp; "" if unknown."""
    plain = quote(name)
    taken = {field.lower() for field in schema.names}
    free = next((new for new in ("at", "time") if new.lower() not in taken), "eventTime")
    match kind:
        case spark.StringType():
            text = f"to_timestamp({plain})"
        case spark.DateType():
            text = f"cast({plain} as timestamp)"
        case spark.ByteType() | spark.ShortType() | spark.IntegerType() | spark.LongType():
            return f", such as .each({{{free!r}: F.timestamp_millis({name!r})}}){_IMPORT}"
        case spark.FloatType() | spark.DoubleType() | spark.DecimalType():
            return f", such as .each({{{free!r}: F.timestamp_seconds({name!r})}}){_IMPORT}"
        case _:
            return ""
    return (
        f", such as .each({name!r}, expr({text!r}), '{free} timestamp'); on the embedded engine, which has no expr, "
        f"with a function that returns a datetime"
    )


def held_tuples(inputs: spark.StructType, time: spark.DataType | None) -> spark.DataType:
    """Return the type of tuples that wait until their window closes. With `time`, each tuple has its time."""
    fields = [spark.StructField(field.name, field.dataType) for field in inputs.fields]
    timed = [] if time is None else [spark.StructField("time", time)]
    held = spark.StructType(fields or [spark.StructField(_NONE, spark.BooleanType())])
    return spark.ArrayType(spark.StructType([spark.StructField("tuple", held), *timed]))


def state_fields(
    windowing: Windowing, group: spark.StructType, inputs: spark.StructType, time: spark.DataType, step: Step
) -> tuple[spark.StructType, spark.StructField]:
    """Return the key fields and the value of a window's state."""
    config, start = windowing.config, spark.StructField(START, time)
    if windowing.panes:
        assert windowing.aggregation is not None
        value = spark.StructField(windowing.aggregation.output, windowing.aggregation.type)
        return _fields([start, *group.fields], group, step), value
    if isinstance(config, CountWindow):
        kind = spark.StructType(
            [spark.StructField("seen", spark.LongType()), spark.StructField("tuples", held_tuples(inputs, None))]
        )
        part = spark.StructField(PART, spark.LongType())
        return _fields([*group.fields, part], group, step), spark.StructField("value", kind)
    if isinstance(config, SessionWindow):
        return group, spark.StructField("sessions", _sessions(windowing, inputs, time))
    batch = spark.StructField(BATCH, spark.LongType())
    held = held_tuples(inputs, time if timestamp_field(config) is not None else None)
    return _fields([start, *group.fields, batch], group, step), spark.StructField("tuples", held)


def _sessions(windowing: Windowing, inputs: spark.StructType, time: spark.DataType) -> spark.DataType:
    """Return the type of the open sessions of a key."""
    held = held_tuples(inputs, time) if windowing.aggregation is None else windowing.aggregation.type
    bounds = [spark.StructField("start", time), spark.StructField("end", time)]
    return spark.ArrayType(spark.StructType([*bounds, spark.StructField("held", held)]))


def result_fields(windowing: Windowing, group: spark.StructType, time: spark.DataType, step: Step) -> spark.StructType:
    """Return the fields of a window's results: its bounds, the group, the aggregator's outputs, the kind of change.

    Only windows by event time, and those with early results, have bounds. Only early results have a kind.
    """
    bounds = []
    if has_bounds(windowing):
        bounds = [spark.StructField(START, time), spark.StructField(END, time)]
    before = _fields([*bounds, *group.fields], group, step)
    final = step_checks.appended(before, windowing.outputs, step, of="the window's results")
    return step_checks.appended(final, KIND, step, of="the window's results") if windowing.early else final


def has_bounds(windowing: Windowing) -> bool:
    """Return whether a window's results begin with the window's bounds. Changes need them to identify the row."""
    return isinstance(windowing.config, EventTimeWindow | SessionWindow) or windowing.early


def pane_fields(windowing: Windowing, group: spark.StructType, time: spark.DataType, step: Step) -> spark.StructType:
    """Return the fields of panes: group and accumulator; by event time also the pane's start and latest time."""
    assert windowing.aggregation is not None
    by_time = timestamp_field(windowing.config) is not None
    start = [spark.StructField(START, time)] if by_time else []
    latest = [spark.StructField(LATEST, time)] if by_time else []
    value = spark.StructField(windowing.aggregation.output, windowing.aggregation.type)
    return _fields([*start, *group.fields, value, *latest], group, step)


def _fields(fields: list[spark.StructField], group: spark.StructType, step: Step) -> spark.StructType:
    """Return the fields as a schema. Raises TopologyError if a group field or an output has a window's own name."""
    names = [field.name.lower() for field in fields]
    for field in fields:
        if names.count(field.name.lower()) > 1:
            raise step.wrong(
                f"field {field.name!r} is added by the window: rename the stream's field first, with project or each"
            )
    return spark.StructType([spark.StructField(field.name, field.dataType) for field in fields])


def by_partition(windowing: Windowing) -> bool:
    """Return whether each partition has separate windows if there are no groups, as in Trident.

    Windows whose results have bounds do not: two results of one window would be indistinguishable.
    """
    return not has_bounds(windowing)
