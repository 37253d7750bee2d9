"""SparkSpout: a spout of any source that Spark can read, in ranges that a user's function names."""

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_choice
from trident.base.attempt import TransactionAttempt
from trident.base.callsite import site_of
from trident.base.copied_values import own_value
from trident.base.descriptions import keep
from trident.base.errors import SpoutContractError, TopologyError
from trident.base.short_texts import brief, shorten
from trident.base.spark_types import ddl
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.configurable import configurable
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_spouts.rows import read_schema
from trident_spouts.spark_emission import Read, ReadLocal, SparkEmission
from trident_spouts.user_calls import asks_for, call_function, json_of

Plan: TypeAlias = Callable[..., Metadata]


@configurable
@dataclass(frozen=True, init=False, repr=False, eq=False)
class SparkSpout:
    """A spout of any source that Spark can read as a DataFrame, in batches that a function of yours names.

    `plan` runs in the driver and names the next range of the source: ids, days, versions, offsets. The log keeps its
    result. `read` makes a DataFrame of exactly the rows of a range; Spark reads it in the workers, and no row passes
    through the driver. This works in classic mode and on Spark Connect.

    The spout cannot check the full promise of `read`: the same rows at every call for the metadata of one range, even
    in another process, and no row in two ranges. It notices a range that `plan` names a second time in a run, and, with
    `readLocal` on the embedded engine, a replay with other rows. Test the other properties with
    ``trident.testing.SpoutContract``.

    Parameters
    ----------
    read : function
        ``read(spark, metadata)`` returns a DataFrame of that SparkSession, with the declared fields in any order.
    plan : function
        ``plan(previous)`` or ``plan(previous, budget)`` returns the metadata of the range that follows `previous`, as
        JSON, or None if the source has no further rows. `previous` is None for the first batch, then the metadata of
        the previous batch. If the metadata is a dict with the numbers ``rows`` or ``bytes``, `targetBatchSecs` uses
        them; `budget` (a `Budget`) is then the maximum size of the batch.
    schema : str or StructType
        The fields with their types, ``"id long, name string"``. The DataFrame must have exactly these types.
    kind : "transactional" or "opaque"
        Transactional: a replay within a run reads the range that was planned. Opaque: the batch is planned again from
        the same `previous`, and may have other rows. Either is exactly-once with opaque and transactional states.
    readLocal : function, optional
        ``readLocal(metadata)`` returns the same rows without Spark, in any form that a spout may emit: for
        ``engine="embedded"`` and tests. Without it the embedded engine refuses the topology.

    Raises
    ------
    UserFunctionError
        A function raised; the message names it with file and line.
    SpoutContractError
        `plan` returned a value that is not JSON, or the metadata of the previous batch again; `read` did not return a
        DataFrame of its session with the declared fields.

    Examples
    --------
    >>> def days(previous):
    ...     return {"day": 1} if previous is None else None
    >>> def events(spark, metadata):
    ...     return spark.read.parquet(f"/lake/events/day={metadata['day']}")
    >>> SparkSpout(events, days, "user string, amount double")
    SparkSpout(events, days, 'user string, amount double')
    """

    read: Read
    plan: Plan
    schema: StructType
    kind: SpoutKind
    forkable: ClassVar[bool] = True
    readLocal: ReadLocal | None

    def __init__(
        self,
        read: Read,
        plan: Plan,
        schema: str | StructType,
        *,
        kind: Literal["transactional", "opaque"] = "transactional",
        readLocal: ReadLocal | None = None,
    ) -> None:
        _check_function("read", read, "read(spark, metadata)", None, None)
        _check_function("plan", plan, "plan(previous) or plan(previous, budget)", None)
        if readLocal is not None:
            _check_function("readLocal", readLocal, "readLocal(metadata)", None)
        check_choice("SparkSpout: kind", kind, ("transactional", "opaque"))
        keep(
            self,
            read=read,
            plan=plan,
            schema=read_schema(schema),
            kind=SpoutKind(kind),
            readLocal=readLocal,
        )

    @property
    def needs_spark(self) -> bool:
        """Return whether only Spark can read the tuples."""
        return self.readLocal is None

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        return _SparkExecutor(self)

    def __repr__(self) -> str:
        parts = [site_of(self.read).name, site_of(self.plan).name, repr(ddl(self.schema))]
        if self.kind is SpoutKind.OPAQUE:
            parts.append("kind='opaque'")
        if self.readLocal is not None:
            parts.append(f"readLocal={site_of(self.readLocal).name}")
        return f"SparkSpout({', '.join(parts)})"


_PLANS_KEPT = 10_000
"""The number of ranges of a run that are remembered, each by 16 bytes, to notice plans that repeat in a cycle."""


class _SparkExecutor(SpoutExecutor):
    """The executor of a SparkSpout. A range is its own position, so the next range can be planned ahead."""

    plans_ahead = True

    def __init__(self, spout: SparkSpout) -> None:
        self._spout = spout
        self._line: dict[bytes, None] = {}
        """The ranges of this run that led to the last planned range, in order."""

    def _check_new(self, planned: Metadata, previous: Metadata, where: str) -> None:
        """Raise SpoutContractError if a range was already planned in this run: the plans repeat in a cycle."""
        name, before = _digest(planned), _digest(previous)
        while self._line and next(reversed(self._line)) != before:  # later ranges were planned but not used
            self._line.popitem()
        if name in self._line:
            raise SpoutContractError(
                f"{where} returned a range that this run has already read: {shorten(repr(planned))}, now after "
                f"{shorten(repr(previous))}. Its rows would count twice. Expected a new range, or None if there is "
                f"nothing more; to read the same rows again on purpose, put something new in the range, such as a "
                f"counter"
            )
        self._line |= {before: None, name: None}
        while len(self._line) > _PLANS_KEPT:
            del self._line[next(iter(self._line))]

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        plan = self._spout.plan
        where = f"SparkSpout: {site_of(plan)}"
        asked = {"budget": budget} if asks_for(plan, "budget") else {}
        planned = json_of(call_function("SparkSpout", plan, own_value(previous), **asked), f"{where} returned metadata")
        if planned is not None and planned == previous:
            # The same metadata for two batches means that the same rows are read twice.
            raise SpoutContractError(
                f"{where} returned the previous batch's metadata again: {shorten(repr(planned))}; expected the "
                f"range after it, or None if there is nothing more"
            )
        if planned is not None:
            self._check_new(planned, previous, where)
        return planned

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        return SparkEmission(self._spout.read, self._spout.readLocal, metadata, self._spout.schema)


def _digest(metadata: Metadata) -> bytes:
    return hashlib.blake2b(json.dumps(metadata, sort_keys=True).encode(), digest_size=16).digest()


def _check_function(name: str, function: object, form: str, *arguments: object) -> None:
    """Raise TopologyError unless `function` can be called with these arguments, which `form` describes."""
    if not callable(function):
        raise TopologyError(f"SparkSpout: {name}={brief(function)}: expected a function, {form}")
    budget = {"budget": NO_LIMIT} if asks_for(function, "budget") else {}
    try:
        inspect.signature(function).bind(*arguments, **(budget if name == "plan" else {}))
    except TypeError as error:
        raise TopologyError(f"SparkSpout: {name}={site_of(function)} cannot be called as {form}: {error}") from None
    except ValueError:  # a builtin without a known signature
        return
