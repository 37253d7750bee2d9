"""A topology as plain data: what is drawn, built, and evaluated by the oracle."""

from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]
Fields = tuple[tuple[str, str], ...]
"""Names with types: string, long or double."""


OVER_TIME = ("dedup", "table", "interval", "state")
"""Verbs of which more than one batch must be seen: what leaves them depends on the batches before."""
LAST = (*OVER_TIME, "window", "bundle")
"""Verbs behind which no plan goes on."""


@dataclass(frozen=True)
class Step:
    """One verb: over the streams that earlier steps gave (by their places), with its arguments by name."""

    verb: str
    sources: tuple[int, ...]
    args: dict[str, Any] = field(default_factory=dict)
    fields: Fields = ()
    """Those that leave it; none of a verb in LAST."""


@dataclass(frozen=True)
class Plan:
    """Steps, each after those that it reads, and the batches of each spout (by its step's place)."""

    steps: tuple[Step, ...]
    batches: dict[int, tuple[tuple[Row, ...], ...]]

    @property
    def sinks(self) -> tuple[int, ...]:
        """The streams that nobody reads."""
        read = {source for step in self.steps for source in step.sources}
        return tuple(at for at in range(len(self.steps)) if at not in read)

    def __str__(self) -> str:
        told = (f"{step.verb}{step.sources} {step.args} -> {dict(step.fields)}" for step in self.steps)
        lines = [f"{at}: {step}" for at, step in enumerate(told)]
        return "\n".join([*lines, f"batches: {self.batches}"])


def names(fields: Fields) -> tuple[str, ...]:
    return tuple(name for name, _ in fields)


def ddl(fields: Fields) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in fields)
