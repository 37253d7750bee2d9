"""Outputs into Delta tables without a run around them."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.support.topologies import DeclaredSpout
from trident.base.callsite import CallSite
from trident.base.spark_types import parse_schema
from trident.outputs.delta.outlet import DeltaOutlet
from trident.outputs.run_identity import OutputMemory, ProcessMemory, RunIdentity
from trident.plan.delta_target import DeltaTarget
from trident.plan.nodes import SpoutSource, WriteDelta
from trident_spouts.executor import SpoutKind


def sink_of(path: "Path | str", fields: str, name: str = "out", **target: Any) -> WriteDelta:
    """Return the step of an output."""
    site, schema = CallSite("x"), parse_schema(fields)
    source = SpoutSource("s", DeclaredSpout(SpoutKind.TRANSACTIONAL), step="s/0", site=site, schema=schema)
    given: dict[str, Any] = {"options": ()} | target
    return WriteDelta(source, name, DeltaTarget(str(path), **given), step="s/1:writeDelta", site=site, schema=schema)


def outlet(
    path: "Path | str",
    fields: str,
    epoch: int = 1,
    name: str = "out",
    last_frozen: int = 0,
    memory: OutputMemory | None = None,
    **target: Any,
) -> DeltaOutlet:
    """Return an output of the topology "topology"."""
    run = RunIdentity("topology", "uuid", epoch, last_frozen, "", memory or ProcessMemory())
    return DeltaOutlet(sink_of(path, fields, name, **target), run, lambda result: [result])


def rows(path: "Path | str", *columns: str) -> list[Any]:
    """Return the rows of a table, in any order."""
    held = DeltaTable(str(path)).to_pyarrow_table()
    return [tuple(row[name] for name in columns or held.column_names) for row in held.to_pylist()]
