"""Parts that time-based joins share: the verb of their results, times, watermarks and states."""

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StructField, StructType

from trident.base.spark_types import ddl, type_ddl
from trident.base.verb_call import Step
from trident.operations.interval_joins import Side
from trident.plan import nodes, step_checks
from trident.plan.nodes import SIDES
from trident.plan.step_register import Register
from trident.plan.watermark_names import watermark_name
from trident.plan.window_schema import time_field
from trident.stream.base import StreamBase, StreamT
from trident.stream.state_specs import add_watermark, state_spec
from trident.stream.windowed import late_for


class JoinedVerbs(StreamBase[StreamT]):
    """Verbs that only the stream of a time-based join has."""

    __slots__ = ()

    def late(self, stream: str) -> StreamT:
        """Return the late tuples of one stream, "left" or "right": those older than the watermark, or without a time.

        A late tuple is emitted unchanged, in the batch in which it came.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> views = topology.newStream("views", FixedBatchSpout("ad long, at timestamp, user string", []))
        >>> clicks = topology.newStream("clicks", FixedBatchSpout("ad long, at timestamp", []))
        >>> pairs = views.intervalJoin(
        ...     clicks, "ad", ("0 seconds", "1 hour"), timestampField="at", outputFields="ad, seen, user, clicked"
        ... )
        >>> pairs.late("left")
        Stream(views-clicks/1:late: ad bigint, at timestamp, user string)
        """
        step = self._register.step(self._label, "late")
        if stream not in SIDES:
            raise step.wrong(f"late({stream!r}): expected 'left' or 'right', a stream of the join")
        side = SIDES.index(stream)
        return self._new(late_for(self, self._join, self._join.sources[side], step, side), self._label)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._join.step}: {ddl(self.schema)})"

    @property
    def _join(self) -> nodes.TimeJoin:
        assert isinstance(self._node, nodes.Emitted)
        assert isinstance(self._node.source, nodes.TimeJoin)
        return self._node.source


def common_time(schemas: list[StructType], fields: tuple[str, str], step: Step) -> DataType:
    """Return the type of both streams' times.

    Raises an error if the types differ, because such times cannot be compared.
    """
    left, right = (time_field(schema, field, step) for schema, field in zip(schemas, fields, strict=True))
    if left != right:
        raise step.wrong(
            f"field {fields[0]!r} is {type_ddl(left)} and field {fields[1]!r} is {type_ddl(right)}: convert both to "
            "the same type"
        )
    return left


def held_fields(keys: StructType, schemas: list[StructType], step: Step) -> tuple[StructType, StructField]:
    """Return the key and value fields of a join's state: lists of whole tuples of the left or right stream."""
    before = StructType([StructField("joinSide", IntegerType()), StructField("joinBucket", LongType())])
    nullable = StructType([StructField(field.name, field.dataType) for field in keys.fields])
    held = step_checks.appended(before, nullable, step, of="the state")
    held = step_checks.appended(held, StructType([StructField("joinBatch", LongType())]), step, of="the state")
    tuples = [
        ArrayType(StructType([StructField(field.name, field.dataType) for field in schema.fields]))
        for schema in schemas
    ]
    lists = [StructField(side, kind) for side, kind in zip(SIDES, tuples, strict=True)]
    return held, StructField("tuples", StructType(lists))


def joined_watermarks(
    register: Register,
    label: str,
    streams: Sequence[StreamBase[StreamT]],
    sides: tuple[Side, Side],
    spec: nodes.StateSpec,
    kind: DataType,
    step: Step,
) -> tuple[nodes.Watermark, nodes.Watermark]:
    """Add the steps that keep the watermarks of both joined streams in the state `spec`, and return them."""
    left, right = (
        add_watermark(
            register,
            label,
            stream._node,
            side,
            state_spec(register, watermark_name(spec.name, which), spec.factory, step),
            kind,
            step,
        )
        for stream, side, which in zip(streams, sides, SIDES, strict=True)
    )
    return left, right
