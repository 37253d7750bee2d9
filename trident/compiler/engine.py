"""What the runtime asks of an engine: run one stage of one attempt. Spark is the engine; the driver-side one answers
DRPC and runs tests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError
from trident.compiler.program import Group, RequestPlan, Stage
from trident.plan.nodes import Node
from trident_spouts.executor import Emission

if TYPE_CHECKING:
    from trident.compiler.arrow.requests import Answer
    from trident.compiler.spark.frozen_frames import Frames


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """A part of a large result, written on an executor and fsynced: name under the attempt's folder, bytes, CRC32."""

    name: str
    bytes: int
    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class FrozenFiles:
    """A large result by reference: the exact list of its files, in `folder` (relative to the checkpoint)."""

    folder: str
    files: tuple[FrozenFile, ...]
    schema: pa.Schema

    @property
    def num_rows(self) -> int:
        """How many rows there are, as a table tells it."""
        return sum(file.rows for file in self.files)


Result: TypeAlias = pa.Table | FrozenFiles


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage came to: a result for each of its outputs by name, the rows it read where that is known, and what
    Debug steps saw (label -> table). Of an optional output without rows there may be none."""

    results: Mapping[str, Result]
    rows: int | None = None
    debug: Mapping[str, pa.Table] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How many tuples steps left out because their function failed on them, by step."""


class Slot(Protocol):
    """One place where a batch can run: a Spark session of its own. `run` is called by one thread at a time, `cancel`
    by another one."""

    def run(
        self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt, scratch: Path
    ) -> StageResult:
        """Run `stage` over these inputs, a new DataFrame each time. Raises UserFunctionError, SpoutError,
        FailedException; anything else is an engine's failure (the attempt fails too). `scratch` is a folder of this
        attempt for temporary files."""
        ...

    def cancel(self) -> None:
        """Stop what is running, and nothing else; `run` then raises."""
        ...

    def close(self) -> None: ...


def check_fields(node: Node, names: Sequence[str]) -> list[str]:
    """Return the node's fields in their order; refuse tuples that have others. Columns meet their fields by name."""
    if sorted(names) != sorted(node.schema.names):
        raise SpoutContractError(
            f"{node.step}: the tuples have the fields ({', '.join(names)}), declared are "
            f"({', '.join(node.schema.names)})"
        )
    return node.schema.names


class Engine(Protocol):
    """Makes slots; a running topology has one engine. The defaults are those of an engine without a Spark session."""

    def slot(self, group: Group) -> Slot:
        """Make a slot for batches of this group."""
        ...

    @property
    def frames(self) -> "Callable[[], Frames] | None":
        """Makes DataFrames of frozen rows; None where there is no Spark session."""
        return None

    def compile_request(self, plan: RequestPlan) -> "Answer":
        """Compile a DRPC function. Raises MissingSessionError at a request where only Spark can run an operation."""
        from trident.compiler.arrow.requests import compile_request

        return compile_request(plan)

    def close(self) -> None: ...
