"""The verb that counts tuples in the run's metrics: countMetric."""

import re
from collections.abc import Sequence
from typing import Any, cast

from pyspark.sql import types as spark

from trident.base.errors import TypeDeclarationError
from trident.base.names import FieldsLike
from trident.base.short_texts import typed_brief
from trident.base.spark_types import type_ddl
from trident.base.verb_call import Step
from trident.operations.aggregates.count import Count
from trident.operations.aggregates.sum import Sum
from trident.plan import nodes, step_checks
from trident.stream.aggregate import chained, read_members
from trident.stream.aggregate_conditions import Conditioned
from trident.stream.base import StreamBase, StreamT
from trident.stream.outputs import check_output, output_name

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_NUMBER = "_number"
_OURS = ("topology", "group")
"""The labels that every metric of a run gets."""


class MetricVerbs(StreamBase[StreamT]):
    """The verb that counts a stream's tuples as a metric."""

    __slots__ = ()

    def countMetric(
        self, metric: str, help: str = "", *, labels: FieldsLike | None = None, by: str | None = None
    ) -> StreamT:
        """Count the tuples of committed batches in a counter of ``running.metrics``, and return this stream.

        The workers aggregate each batch, and the driver adds the batch's numbers when the batch is committed: once,
        however often a task, the batch or its commit was retried. Like every counter of a run, it starts at 0 with the
        run. Storm's counterpart is ``TopologyContext.registerMetric`` with a ``CountMetric`` or a ``MultiCountMetric``.

        Parameters
        ----------
        metric : str
            The counter's name, as Prometheus takes it: ``"orders_total"``. It has the labels `topology` and `group`
            too.
        help : str
            The meaning of the metric, shown to readers of the metrics.
        labels : str or list of str, optional
            Fields with the values for labels: each combination of values is a separate series, so choose fields with
            few values. A null becomes the empty text.
        by : str, optional
            A field of non-negative numbers to add up. Omitted: each tuple counts 1.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.testing.local import start_local
        >>> topology = TridentTopology()
        >>> orders = topology.newStream("orders", FixedBatchSpout("shop string, n long", [[("a", 3)], [("a", 4)]]))
        >>> _ = orders.countMetric("sold_total", "Pieces sold.", labels="shop", by="n")
        >>> with start_local(topology, name="shop") as running:
        ...     running.processAllAvailable()
        ...     running.metrics.value("sold_total", topology="shop", group="orders", shop="a")
        7.0
        """
        step = self._step("countMetric")
        if not isinstance(metric, str) or not _METRIC.fullmatch(metric) or metric.startswith("trident_"):
            raise step.wrong(
                f"metric={typed_brief(metric)}: expected letters, digits, '_' and ':', such as 'orders_total', "
                "without the reserved prefix 'trident_'"
            )
        if not isinstance(help, str):
            raise step.wrong(f"help={typed_brief(help)}: expected a text")
        check_output(self, step)
        fields = () if labels is None else step_checks.known_fields(self.schema, labels, step)
        for name in fields:
            if name in _OURS or not _LABEL.fullmatch(name):
                raise step.wrong(
                    f"field {name!r} cannot be a label: expected a letter followed by letters, digits and '_', and "
                    f"not {' or '.join(_OURS)}, which every metric has; rename it with rename({name!r}, ...)"
                )
        self._check_other_metrics(metric, fields, step)
        name = output_name(self, f"countMetric.{metric}", None, step)
        call = (Count(), _NUMBER) if by is None else (_number(self, by, step), Sum(), _NUMBER)
        _, members, _ = read_members(Conditioned.of(self), "batch", call, None, None, None)
        counted = chained(self, fields, "batch", members, step)
        node = nodes.CountMetric(counted._node, name, metric, help, _NUMBER, **step.gives(counted.schema))
        self._register.add(self._label, node)
        return cast("StreamT", self)

    def _check_other_metrics(self, metric: str, labels: Sequence[str], step: Step) -> None:
        """Refuse a metric that Prometheus would confuse with another, or that has different labels in another step."""
        from prometheus_client import Counter  # only here, because its import takes time

        from trident.base.metrics import names_exposed

        exposed = names_exposed(metric, Counter)
        for other in self._register.sinks.values():
            if not isinstance(other, nodes.CountMetric):
                continue
            where = f"{other.step} ({other.site.location})"
            if other.metric != metric and exposed == names_exposed(other.metric, Counter):
                raise step.wrong(
                    f"metric={metric!r}: Prometheus appends '_total' to a counter's name, so it has the same name as "
                    f"{other.metric!r} of {where}; choose another name"
                )
            theirs = [name for name in other.schema.fieldNames() if name != other.number]
            if other.metric == metric and sorted(theirs) != sorted(labels):
                raise step.wrong(
                    f"metric={metric!r}: it has the labels ({', '.join(labels)}) here, but ({', '.join(theirs)}) in "
                    f"{where}; a metric needs the same labels everywhere, so choose another name"
                )


def _number(stream: StreamBase[Any], field: object, step: Step) -> str:
    """Return the name of a numeric field. Raises an error for any other field."""
    if not isinstance(field, str):
        raise step.wrong(f"by={typed_brief(field)}: expected the name of a field")
    (name,) = step_checks.known_fields(stream.schema, field, step)
    kind = stream.schema[name].dataType
    if not isinstance(kind, spark.IntegralType | spark.FractionalType):
        raise step.error(TypeDeclarationError, f"by: field {name!r} is {type_ddl(kind)}: expected a number")
    return name
