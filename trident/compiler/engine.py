"""The protocol of an engine. An engine runs one stage of one attempt at a time.

A run uses the Spark engine, or the Arrow engine if it is started with ``engine="embedded"``. The Arrow engine also
answers DRPC requests.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError
from trident.compiler.arrow.evaluation import Answer, compile_request
from trident.compiler.program import Group, RequestPlan, Stage
from trident.compiler.results import StageResult
from trident.compiler.spark.frozen_frames import Frames
from trident.compiler.spark.state_puts import Puts
from trident.plan.nodes import Node
from trident.plan.topology_protocol import EngineName
from trident_spouts.executor import Emission


class Slot(Protocol):
    """An engine's place for one attempt at a time; on Spark a session of its own.

    One thread at a time calls `run`; another thread may call `cancel` while it runs.
    """

    def run(
        self, stage: Stage, inputs: Mapping[Node, Emission | pa.Table], attempt: TransactionAttempt, scratch: Path
    ) -> StageResult:
        """Run `stage` over these inputs.

        `scratch` is a folder of this attempt for temporary files. Raises UserFunctionError, SpoutError or
        FailedException. Any other error is a failure of the engine; the attempt then fails too.
        """
        ...

    def cancel(self) -> None:
        """Stop the attempt that is running in this slot, and no other attempt. `run` then raises an error."""
        ...

    def close(self) -> None: ...


def check_fields(node: Node, names: Sequence[str]) -> list[str]:
    """Return the node's fields in the order of its schema. `names` are the fields of its tuples, in any order.

    Raises SpoutContractError if the tuples have other fields than the node declares.
    """
    if sorted(names) != sorted(node.schema.names):
        raise SpoutContractError(
            f"{node.step}: the tuples have the fields ({', '.join(names)}), declared are "
            f"({', '.join(node.schema.names)})"
        )
    return node.schema.names


class Engine(Protocol):
    """The part of a run that executes stages, in slots. The defaults here fit an engine without a Spark session."""

    name: EngineName
    """The name by which `start` chooses the engine."""

    def slot(self, group: Group) -> Slot:
        """Make a slot for batches of this group."""
        ...

    @property
    def frames(self) -> Callable[[], Frames] | None:
        """A function that returns the maker of DataFrames of frozen rows; None without a Spark session."""
        return None

    @property
    def puts(self) -> Puts | None:
        """The object through which workers put batches into states; None without workers or a folder for frozen files.

        Only `Puts.check_reached` shows whether the workers reach the folder.
        """
        return None

    def compile_request(self, plan: RequestPlan) -> Answer:
        """Compile a DRPC function. Raises MissingSessionError if only Spark can run one of its operations."""
        return compile_request(plan)

    def close(self) -> None: ...
