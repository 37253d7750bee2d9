"""The key of a batch that most tuples came to, where a state counts tuples: what skew there is, told for nothing."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.values import to_python
from trident.plan.nodes import PersistentAggregate, StateWriter


@dataclass(frozen=True, slots=True)
class Hottest:
    """A key, by its fields, and how many of the batch's tuples it has."""

    key: dict[str, Any]
    tuples: int

    def as_dict(self) -> dict[str, Any]:
        """As it stands in an event: what JSON has no form for, as text."""
        plain = str | int | float | bool | None
        return {"key": {n: v if isinstance(v, plain) else str(v) for n, v in self.key.items()}, "tuples": self.tuples}


def hottest_of(step: StateWriter, table: pa.Table) -> Hottest | None:
    """The hottest key of what a batch counted; None where the state counts no tuples or has one key only."""
    if not isinstance(step, PersistentAggregate) or not step.group or step.aggregation.native != "count":
        return None
    if not table.num_rows:
        return None
    counts = table.column(table.num_columns - 1).to_numpy()
    row = int(counts.argmax())
    key = {name: to_python(table.column(name).slice(row, 1))[0] for name in step.group}
    return Hottest(key, int(counts[row]))
