"""The hottest key of a batch, read from a state that counts tuples, so that reporting skew costs nothing more."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.value_conversion import to_python
from trident.compiler.states.shapes import new_values
from trident.plan.nodes import Node, PersistentAggregate


@dataclass(frozen=True, slots=True)
class Hottest:
    """The key that most tuples of a batch have: the values of its fields, and the number of those tuples."""

    key: dict[str, Any]
    tuples: int

    def as_dict(self) -> dict[str, Any]:
        """Return the key as progress events show it. Values that JSON cannot hold are shown as text."""
        plain = str | int | float | bool | None
        return {"key": {n: v if isinstance(v, plain) else str(v) for n, v in self.key.items()}, "tuples": self.tuples}


def hottest_of(step: Node, table: pa.Table) -> Hottest | None:
    """Return the hottest key of a batch; None if the state does not count tuples by key, or if the batch is empty."""
    if not isinstance(step, PersistentAggregate) or not step.group or not table.num_rows:
        return None
    accumulators = new_values(step, table).columns[len(step.group) :]
    counting = [at for at, member in enumerate(step.members) if member.how.native == "count"]  # type: ignore[union-attr]
    if not counting:
        return None
    counts = accumulators[counting[0]].to_numpy()
    row = int(counts.argmax())
    key = {name: to_python(table.column(name).slice(row, 1))[0] for name in step.group}
    return Hottest(key, int(counts[row]))
