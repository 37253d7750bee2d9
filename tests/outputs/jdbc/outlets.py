"""Outputs into a database without a run around them."""

from typing import Any

from tests.support.topologies import DeclaredSpout
from trident.base.callsite import CallSite
from trident.base.spark_types import parse_schema
from trident.outputs.jdbc.outlet import JdbcOutlet
from trident.outputs.run_identity import OutputMemory, ProcessMemory, RunIdentity
from trident.plan.jdbc_target import JdbcTarget
from trident.plan.nodes import SpoutSource, WriteJdbc
from trident_spouts.executor import SpoutKind


def sink_of(url: str, table: str, fields: str, name: str = "out", **target: Any) -> WriteJdbc:
    """Return the step of an output."""
    site, schema = CallSite("x"), parse_schema(fields)
    source = SpoutSource("s", DeclaredSpout(SpoutKind.TRANSACTIONAL), step="s/0", site=site, schema=schema)
    given: dict[str, Any] = {"key": ()} | target
    return WriteJdbc(source, name, JdbcTarget(url, table, **given), step="s/1:writeJdbc", site=site, schema=schema)


def outlet(
    url: str,
    table: str,
    fields: str,
    epoch: int = 1,
    last_frozen: int = 0,
    memory: OutputMemory | None = None,
    **target: Any,
) -> JdbcOutlet:
    """Return an output of the topology named like the table."""
    run = RunIdentity(table, "uuid", epoch, last_frozen, "", memory or ProcessMemory())
    return JdbcOutlet(sink_of(url, table, fields, **target), run, lambda result: [result])
