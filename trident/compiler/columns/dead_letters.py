"""The collection of tuples on which a user's function failed, on workers and on the driver."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any

import pyarrow as pa

from trident.base.errors import StateValueError
from trident.compiler.columns.columns import Columns
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.row_failures import Failure
from trident.compiler.tracking.arrivals import Arrivals
from trident.compiler.tracking.ledger import is_report
from trident_state.records.documents import Documents


@dataclass(frozen=True, slots=True)
class Caught:
    """The treatment of the tuples on which a step's function fails: they leave the stream.

    If `dead` is true they become dead letters, with the fields `fields` of the tuple; else they are only counted.
    """

    dead: bool
    fields: pa.Schema


LetterRecord = dict[str, Any]
"""A dead letter, or the number of tuples that a step skipped, as a worker sends it."""


@dataclass(slots=True)
class Letters:
    """Dead letters, and counts of skipped tuples by step.

    On the driver they are those of a batch, on a worker of a partition.

    `arrivals`: on a worker, the rows that entered its partition, if the batch has a ledger.
    """

    dead: list[LetterRecord] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    arrivals: Arrivals = field(default_factory=Arrivals)

    def add(self, where: Where, caught: Caught, tuples: Columns, failures: Sequence[Failure]) -> None:
        """Add tuples on which a step's function failed, as dead letters or to the count of skipped tuples."""
        if not caught.dead:
            self.skipped[where.step] = self.skipped.get(where.step, 0) + tuples.rows
            return
        origin = {"step": where.step, "function": str(where.site)}
        for failure, text in zip(failures, tuple_texts(tuples, caught.fields), strict=True):
            self.dead.append({**origin, "error": failure.error, "message": failure.message, "tuple": text})

    def take_lines(self) -> list[str]:
        """Remove all dead letters, counts and reports, and return them as lines of text."""
        records: list[LetterRecord] = [*self.dead, *({"step": step, "skipped": n} for step, n in self.skipped.items())]
        self.dead, self.skipped = [], {}
        handed_on, self.arrivals.lines = self.arrivals.lines, []
        return [*map(json.dumps, records), *handed_on]

    def add_lines(self, texts: Sequence[str]) -> None:
        """Add the content of lines that `take_lines` returned on a worker."""
        self.arrivals.lines += filter(is_report, texts)
        for record in map(json.loads, filterfalse(is_report, texts)):
            if "skipped" in record:
                self.skipped[record["step"]] = self.skipped.get(record["step"], 0) + record["skipped"]
            else:
                self.dead.append(record)


def tuple_texts(tuples: Columns, fields: pa.Schema) -> list[str]:
    """Return each tuple as a JSON object of its fields."""
    kind = pa.struct(list(fields))
    struct = pa.StructArray.from_arrays([tuples[name].array() for name in fields.names], fields=list(fields))
    try:
        return [text.decode() for text in Documents(kind, bare=True).pack(0, struct, struct).to_pylist()]
    except (StateValueError, ValueError, TypeError):  # a date that Python does not know, say
        if tuples.rows > 1:
            return [text for row in range(tuples.rows) for text in tuple_texts(tuples.take([row]), fields)]
        return [json.dumps({name: repr(tuples[name].array()[0]) for name in fields.names})]
