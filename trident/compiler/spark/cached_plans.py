"""Plans of small batches, which Spark analyses and plans once and executes again with other rows.

A plan is kept for a stage, a schema of its input and the settings of the session. It is used by one batch at a time: a
batch takes it out, and puts it back when its job has ended well. See decision 65.
"""

import logging
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from trident.compiler.program import Stage
from trident.compiler.spark.plan_calls import to_arrow
from trident.compiler.spark.plan_leaf import PlanLeaf, message_of
from trident.compiler.spark.repeatable_plans import leaves_of, made_by_data, why_not_repeatable
from trident.compiler.spark.sessions import Profile, is_connect
from trident.compiler.stage_layout import StageLayout
from trident.plan.nodes import Node
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission

logger = logging.getLogger(__name__)

MOST_KEPT = 16
"""The most plans that a slot keeps. The least recently used one is dropped."""

_MOST_BYTES = 256 << 10
"""The largest input of a kept plan. Each task carries the whole leaf, and Spark warns of tasks over a megabyte."""

_LEAST_BYTES = 64 << 10

_NOT_SO = AttributeError, Py4JError, PySparkException
"""The errors of a Spark version without the private functions that are called here."""


@dataclass(slots=True)
class _Entry:
    """The plan for one key. It is made after the first batch, because findings of that batch change the plan."""

    plan: "_Plan | None" = None
    seen: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan that is proved to be repeatable, with its leaf."""

    leaf: PlanLeaf
    frame: DataFrame
    schema: StructType
    counters: tuple[Any, ...]
    """The number of rows that each scan of the leaf has read in the last execution, in the JVM."""
    settings: Any
    """The settings of the session as they were before the plan was made, in the JVM."""

    def rows(self, message: bytes, count: int) -> pa.Table | None:
        """Execute the plan with these `count` rows; None if its leaf was read an unexpected number of times."""
        self.leaf.put(message)
        rows = to_arrow(self.frame, self.schema)
        return rows if all(counter.value() == count for counter in self.counters) else None


class CachedPlans:
    """The kept plans of one slot. `layouts` are those of its stages, by their numbers."""

    def __init__(self, session: SparkSession, layouts: Mapping[int, StageLayout]) -> None:
        self._session = session
        self._settings: Any = None
        self._stages = set() if is_connect(session) else {n for n, plain in layouts.items() if made_by_data(plain)}
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def use(self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], profile: Profile) -> "PlanUse | None":
        """Return the use of a kept plan by a batch; None if the batch needs a new plan."""
        if stage.number not in self._stages or stage.debugs or stage.effects or not profile.tiny or len(inputs) != 1:
            return None
        ((node, source),) = inputs.items()
        table = source.table if isinstance(source, ArrowEmission) else source
        if not isinstance(table, pa.Table) or not table.num_rows or table.nbytes > _MOST_BYTES:
            return None
        entry = self._entry((stage.number, profile, table.schema))
        return None if entry is None else PlanUse(self, entry, node, table, message_of(table))

    def _entry(self, key: Hashable) -> _Entry | None:
        """Return the entry of a key; None for the first batch, and if the plan is not repeatable."""
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        if len(self._entries) > MOST_KEPT:
            self._entries.popitem(last=False)
        seen, entry.seen = entry.seen, True
        return entry if seen and not entry.refused else None

    @property
    def settings(self) -> Any:
        """The live settings of the session, in the JVM."""
        if self._settings is None:
            spark: Any = self._session
            self._settings = spark._jsparkSession.sessionState().conf().settings()  # noqa: SLF001
        return self._settings

    def settings_now(self) -> Any:
        """Return a copy of the settings of the session, in the JVM."""
        jvm: Any = self._session.sparkContext._jvm  # noqa: SLF001
        return jvm.java.util.HashMap(self.settings)

    def leaf(self, schema: pa.Schema, message: bytes) -> PlanLeaf:
        """Return a leaf for a message of this length, or a somewhat longer one."""
        return PlanLeaf.of(self._session, schema, max(_LEAST_BYTES, 2 * len(message)))

    def close(self) -> None:
        """Keep no plan any more."""
        self._entries.clear()


@dataclass(slots=True)
class PlanUse:
    """The use of a kept plan by one batch: `again` executes it; otherwise `entering` and `keep` make it."""

    _plans: CachedPlans
    _entry: _Entry
    _node: Node
    _table: pa.Table
    _message: bytes
    _leaf: PlanLeaf | None = None
    _settings: Any = None

    def again(self) -> pa.Table | None:
        """Execute the kept plan with the batch's rows, and return the rows of its result; None if there is no plan."""
        plan, self._entry.plan = self._entry.plan, None  # a batch that fails, or is cancelled, does not put it back
        if plan is None or len(self._message) > plan.leaf.capacity or not plan.settings.equals(self._plans.settings):
            return None
        rows = plan.rows(self._message, self._table.num_rows)
        if rows is None:
            logger.warning("a kept plan did not read its input; the batch is computed by a new plan")
            self._refused("it did not read its input")
            return None
        self._entry.plan = plan
        return rows

    def entering(self) -> Mapping[Node, Emission | pa.Table]:
        """Return the input of the stage, for a plan that is to be kept."""
        try:
            leaf = self._plans.leaf(self._table.schema, self._message)
            self._settings = self._plans.settings_now()
            leaf.put(self._message)
        except _NOT_SO as error:
            return {self._node: self._refused(f"{type(error).__name__}: {error}")}
        self._leaf = leaf
        return {self._node: _InLeaf(self._table, leaf=leaf)}

    def keep(self, frame: DataFrame, schema: StructType) -> None:
        """Keep the plan of a frame that ran successfully, if it is repeatable."""
        if self._leaf is None:
            return
        try:
            why = why_not_repeatable(frame, self._leaf.rdd)
            counters = () if why else tuple(map(_counter, leaves_of(_executed(frame))))
        except (*_NOT_SO, ValueError) as error:
            why, counters = f"{type(error).__name__}: {error}", ()
        if why is None:
            self._entry.plan = _Plan(self._leaf, frame, schema, counters, self._settings)
        else:
            self._refused(why)

    def _refused(self, why: str) -> pa.Table:
        """Record that no plan can be kept for this key, and return the rows of the batch."""
        logger.debug("the plan of a small batch is not kept: %s", why)
        self._entry.refused = True
        return self._table


@dataclass(frozen=True, slots=True)
class _InLeaf(ArrowEmission):
    """An emission whose rows enter the plan by a leaf."""

    leaf: PlanLeaf | None = None

    def dataframe(self, spark: SparkSession, scratch: Path) -> DataFrame:
        """Return the rows of the leaf, so that Spark knows that they are one partition, and plans no shuffle."""
        assert self.leaf is not None
        return self.leaf.frame.coalesce(1)


def _executed(frame: DataFrame) -> Any:
    classic: Any = frame
    return classic._jdf.queryExecution().executedPlan()  # noqa: SLF001


def _counter(leaf: Any) -> Any:
    return leaf.metrics().apply("numOutputRows")
