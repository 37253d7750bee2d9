"""Functions that inspect an aggregator over windows: its kind, and its output types."""

from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import types as spark

from trident.base.callsite import CallSite, site_of
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.short_texts import brief
from trident.base.verb_call import Step
from trident.operations.aggregates.registry import called_like
from trident.operations.aggregator_kinds import check_not_pandas, presented_type, read_folding
from trident.operations.aggregator_names import aggregator_name
from trident.operations.aggregators import Aggregation
from trident.operations.bundles import bundle_of
from trident.operations.callables import bind, check_no_lifecycle, check_not_class
from trident.operations.filtered_aggregators import as_written
from trident.operations.output_fields import OutputsLike, read_outputs
from trident.operations.updater_checks import emitted_fields
from trident.operations.windows import CountWindow, SessionWindow, WindowConfig

_ACCEPTED = (
    "an aggregator: one with init(tuple), combine(a, b) and zero(), such as Count(); one with init() and "
    "reduce(curr, tuple); or one with init(batchId, collector), aggregate(val, tuple, collector) and "
    "complete(val, collector)"
)


Emit = Literal["final", "changes"]
"""The results that a window emits: the final one when it is complete, or the changes of its result after each batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Windowing:
    """A window and its aggregator in a plan.

    `outputs` are the aggregator's output fields. `aggregation` is the aggregator as a combiner; None for other kinds,
    whose partial results cannot be combined.
    """

    config: WindowConfig
    kind: Literal["combiner", "reducer", "aggregator"]
    aggregator: Any
    site: CallSite
    outputs: spark.StructType
    aggregation: Aggregation | None
    keepFor: int = 0
    """How long results stay in the state after their emission, in microseconds of the window's clock."""
    emit: Emit = "final"

    @property
    def early(self) -> bool:
        """Return whether the window emits changes of its result before it is complete."""
        return self.emit == "changes"

    @property
    def meaning(self) -> str:
        """The parts of the step that must not change between restarts, as text."""
        changes = ", emit changes" if self.early else ""
        return f"{aggregator_name(self.aggregator)} in {self.config.meaning}{changes}"

    @property
    def combines(self) -> bool:
        """Return whether the state holds an accumulator for each window and group, instead of tuples."""
        return self.aggregation is not None and not isinstance(self.config, CountWindow)

    @property
    def panes(self) -> bool:
        """Return whether the tuples of a pane are combined before they enter the state."""
        return self.combines and not isinstance(self.config, SessionWindow)


def read_windowing(
    config: WindowConfig, target: Any, inputs: spark.StructType, outputs: OutputsLike, keepFor: int, step: Step
) -> Windowing:
    """Read `target` as an aggregator over windows, from the fields `inputs` to the fields `outputs`."""
    kind, site, declared = _kind_of(target, step), site_of(as_written(target)), read_outputs(outputs, step)
    if kind != "aggregator":
        folding = read_folding(target, inputs, declared, step)
        fields = _presented_field(folding.output, presented_type(folding), step)
        aggregation = folding if isinstance(folding, Aggregation) else None
        return Windowing(config, kind, target, site, fields, aggregation, keepFor)
    check_no_lifecycle(target, step)
    bind(target.init, 2, "init is called with the window's number and a collector", step)
    bind(target.aggregate, 3, "aggregate is called with the value, one TridentTuple and a collector", step)
    bind(target.complete, 2, "complete is called with the value and a collector", step)
    fields = emitted_fields(target, outputs, step)
    return Windowing(config, kind, target, site, fields, None, keepFor)


def bundle_windowing(config: WindowConfig, aggregation: Aggregation, keepFor: int) -> Windowing:
    """Return the windowing of a bundle of aggregators. Each has a separate output field."""
    bundle = bundle_of(aggregation)
    assert bundle is not None
    return Windowing(config, "combiner", bundle, aggregation.site, bundle.presented, aggregation, keepFor)


def _kind_of(target: Any, step: Step) -> Literal["combiner", "reducer", "aggregator"]:
    def has(*methods: str) -> bool:
        return all(callable(getattr(target, method, None)) for method in methods)

    kind: Literal["combiner", "reducer", "aggregator"]
    if has("init", "combine", "zero"):
        kind = "combiner"
    elif has("init", "reduce"):
        kind = "reducer"
    elif has("init", "aggregate", "complete"):
        kind = "aggregator"
    else:
        check_not_pandas(target, step)
        builtin = called_like(getattr(target, "__name__", ""))
        hint = "" if builtin is None else f"{builtin}, or "
        raise step.error(TopologyError, f"{brief(target)} is not an aggregator; give {hint}{_ACCEPTED}")
    check_not_class(target, step)
    return kind


def _presented_field(output: str, kind: spark.DataType | None, step: Step) -> spark.StructType:
    """Return the output field of a window, of type `kind`: the value that the aggregator presents.

    Raises TypeDeclarationError if `kind` is None.
    """
    if kind is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of {output!r} is not declared: annotate the return type of present(acc), such as -> float",
        )
    return spark.StructType([spark.StructField(output, kind)])
