"""Small streams, states and spouts to build topologies from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql.types import StructType

from trident import Stream, TridentTopology
from trident.base.spark_types import parse_schema
from trident.spouts import FixedBatchSpout
from trident_spouts.executor import SpoutExecutor, SpoutKind
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, Store


@dataclass(frozen=True)
class DeclaredSpout:
    """A spout of any kind, to be planned with and never opened."""

    kind: SpoutKind
    fields: str = "word string"

    @property
    def schema(self) -> StructType:
        return parse_schema(self.fields)

    def open(self) -> SpoutExecutor:
        raise AssertionError("a plan opens no spout")


@dataclass(frozen=True)
class DeclaredState:
    """A state of any kind, to be planned with and never opened. `fenced`: whether its store refuses a zombie."""

    kind: StateKind = StateKind.OPAQUE
    survives: Literal["process", "checkpoint", "server"] = field(default="server")
    fenced: bool = True

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        raise AssertionError("a plan opens no state")


def stream(fields: str = "line string", name: str = "lines", topology: TridentTopology | None = None) -> Stream:
    """Return a stream of these fields."""
    return (topology or TridentTopology()).newStream(name, FixedBatchSpout(fields, [[]]))


def split(line: str) -> Iterator[str]:
    """Yield the words of a line."""
    yield from line.split()


def node(of: Any) -> Any:
    """Return the plan node behind a stream or a state."""
    return of._node
