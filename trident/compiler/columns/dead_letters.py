"""What is caught: tuples on which a user's function failed, as they travel from where they are to the driver."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from trident.base.errors import StateValueError, UserFunctionError
from trident.compiler.columns.columns import Columns
from trident.compiler.columns.failures import Where
from trident_state.records.documents import Documents


@dataclass(frozen=True, slots=True)
class Caught:
    """That tuples on which a work fails leave the stream: as dead letters of these fields, or only counted."""

    dead: bool
    fields: pa.Schema


Told = dict[str, Any]
"""A dead letter, or how many tuples a step skipped, as it travels from a worker."""


@dataclass(slots=True)
class Letters:
    """What is caught on the way: of a batch on the driver, of a partition on a worker."""

    dead: list[Told] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def add(self, where: Where, caught: Caught, row: Columns, error: UserFunctionError) -> None:
        """Take in a tuple on which a work failed."""
        step = where.step
        if not caught.dead:
            self.skipped[step] = self.skipped.get(step, 0) + 1
            return
        cause = error.__cause__
        told = {
            "step": step,
            "function": str(where.site),
            "error": type(error if cause is None else cause).__name__,
            "message": str(error if cause is None else cause),
            "tuple": tuple_json(row, caught.fields),
        }
        self.dead.append(told)

    def texts(self) -> list[str]:
        """All of it as lines, and begin anew."""
        told: list[Told] = [*self.dead, *({"step": step, "skipped": n} for step, n in self.skipped.items())]
        self.dead, self.skipped = [], {}
        return [json.dumps(each) for each in told]

    def take_in(self, texts: Sequence[str]) -> None:
        """What a worker told."""
        for told in map(json.loads, texts):
            if "skipped" in told:
                self.skipped[told["step"]] = self.skipped.get(told["step"], 0) + told["skipped"]
            else:
                self.dead.append(told)


def tuple_json(row: Columns, fields: pa.Schema) -> str:
    """A tuple as JSON by field."""
    kind = pa.struct(list(fields))
    struct = pa.StructArray.from_arrays([row[name].array() for name in fields.names], fields=list(fields))
    try:
        return bytes(Documents(kind, bare=True).pack(0, struct, struct)[0].as_py()).decode()
    except (StateValueError, ValueError, TypeError):  # a date that Python does not know, say
        return json.dumps({name: repr(row[name].array()[0]) for name in fields.names})
