"""The protocol of an engine. An engine runs one stage of one attempt at a time.

A run uses the Spark engine; the Arrow engine if it is started with ``engine="embedded"``; or, with ``engine="auto"``,
both. The Arrow engine also answers DRPC requests.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError
from trident.compiler.columns.columns import Columns
from trident.compiler.keyed_job import KeyedJob, KeyedResult
from trident.compiler.latest_times import LatestTimes
from trident.compiler.parquet_files import Part, Target
from trident.compiler.program import Group, RequestPlan, Stage
from trident.compiler.states.queries import Read
from trident.frozen.results import FrozenFiles, Result, StageResult
from trident.plan.nodes import Node
from trident.plan.topology_protocol import EngineName
from trident_spouts.executor import Emission
from trident_state.store import SharedBatch, SharedSnapshot
from trident_state.store_messages import Put

REQUEST = pa.field("\0request", pa.int64())
"""The field that distinguishes requests while they are answered. Users cannot give a field this name."""


class Slot(Protocol):
    """The part of an engine that runs one attempt at a time; on Spark it has a separate session.

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

    Raises SpoutContractError if the fields of the tuples are not those that the node declares.
    """
    if sorted(names) != sorted(node.schema.names):
        raise SpoutContractError(
            f"{node.step}: the tuples have the fields ({', '.join(names)}), but ({', '.join(node.schema.names)}) is "
            f"declared"
        )
    return node.schema.names


class Frames(Protocol):
    """A maker of DataFrames of frozen rows."""

    def frame(self, result: Result, schema: StructType, scratch: Path) -> DataFrame:
        """Return the rows as a DataFrame of these fields.

        It is valid until the frozen content or `scratch` is removed.
        """
        ...

    def write_parquet(self, frozen: FrozenFiles, target: Target, partitions: Sequence[str]) -> list[Part] | None:
        """Write the rows of frozen files as Parquet files to `target`, and return these Parquet files.

        Returns None if the workers do not reach both `target` and the frozen files.
        """
        ...

    def cancel(self) -> None:
        """Stop the jobs over these DataFrames. Return at once."""
        ...

    def close(self) -> None: ...


class Puts(Protocol):
    """The work of Spark's workers in a commit turn: puts of frozen rows into a state, updates, latest times."""

    @property
    def ready(self) -> bool:
        """Return whether workers are available. Otherwise the driver does the work that both can do."""
        ...

    def put(self, frozen: FrozenFiles, batch: SharedBatch) -> list[Put]:
        """Put the rows of every file into the state. If the state refused some of them, raise its error."""
        ...

    def update(self, job: KeyedJob) -> KeyedResult:
        """Compute an update of a state. If the user's function failed or the state refused, raise that error."""
        ...

    def latest(self, times: LatestTimes) -> pa.Table:
        """Return a table of one tuple: the latest time in a field of the tuples, null if there is none."""
        ...

    def cancel(self, job: KeyedJob | LatestTimes) -> None:
        """Stop a running update, or a search for the latest time. Return at once."""
        ...

    def sees_files(self, needed: bool = False) -> bool:
        """Return whether the workers reach the frozen files. The workers are tested once, and not after `miss_files`.

        If only workers can do the work (`needed`), they are tested again after a test that they failed.
        """
        ...

    def miss_files(self) -> None:
        """Record that a worker wrote a file that the driver does not find: the workers do not reach the files."""
        ...

    def check_reached(self, shared: SharedBatch | SharedSnapshot) -> None:
        """Raise StateError unless the workers reach the frozen files and the same server as the driver."""
        ...


class Answer(Protocol):
    """A compiled DRPC function.

    Its arguments are the requests, a reader of states, and a check that it calls between steps; the check raises if no
    caller waits for the answer. The requests have the field `REQUEST`, with numbers that do not repeat, and then the
    function's arguments. The answers have that field, too, and then the fields of the function's last step.
    """

    def __call__(self, requests: Columns, read: Read, check: Callable[[], None] = lambda: None, /) -> Columns: ...


class Engine(Protocol):
    """The part of a run that executes stages, in slots. The defaults here fit an engine without a Spark session."""

    name: EngineName
    """The name by which `start` chooses the engine."""

    def slot(self, group: Group) -> Slot:
        """Return a new slot, which runs the attempts of this group's batches, one at a time."""
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
        ...

    def close(self) -> None: ...
