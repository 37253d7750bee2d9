"""The plan of a whole topology, as the compiler, a run and a reset see it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from trident.plan.nodes import Node, RequestSource
from trident.plan.parallelism_hints import Hints

EngineName = Literal["spark", "embedded", "auto"]
"""``"spark"``: each batch is a Spark job. ``"embedded"``: the driver's process computes the batches, without a JVM.
``"auto"``: each stage of a batch runs where it is expected to be faster."""


class TopologyPlan(Protocol):
    """The part of `TridentTopology` that the compiler, a run and a reset use without importing it."""

    @property
    def sinks(self) -> tuple[Node, ...]:
        """The nodes that have an effect."""

    @property
    def requests(self) -> Mapping[str, tuple[RequestSource, Node]]:
        """The DRPC functions by name: the source of each, and the node with the tuples of its answer."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that lead to an effect or to an answer, each after the nodes that it reads."""

    def explain(
        self,
        engine: EngineName = "spark",
        parallelismHints: Hints | None = None,
        ledger: bool = False,
        *,
        name: str | None = None,
        checkpointLocation: str | Path | None = None,
        log: Any = None,
    ) -> None:
        """Print the steps on this engine, the batch groups and stages, and the guarantees of the states."""

    def draw(self, format: str = "svg") -> str:
        """Return the steps as a picture."""
