"""What a stream would be, before anything is started: the stateless part over the spout's first batch."""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from trident.base.attempt import TransactionAttempt
from trident.base.errors import TopologyError
from trident.base.types import arrow_schema
from trident.base.values import conform, to_python
from trident.compiler.arrow import columns_of
from trident.compiler.evaluate import Evaluation, Run
from trident.compiler.jobs import start_of
from trident.compiler.layout import layout
from trident.compiler.lower import Lowering
from trident.compiler.names import all_quoted
from trident.compiler.sessions import Confs, Profile, active_session_kept, local_session, released, run_session
from trident.compiler.spark_errors import translated
from trident.compiler.stages import has_python_form
from trident.compiler.tails import Tail
from trident.plan.nodes import Node, RequestSource, SpoutSource, StateStep, walk
from trident_spouts.executor import Emission, SpoutExecutor


def take(node: Node, n: int, spark: SparkSession | None = None) -> list[Row]:
    """The first `n` tuples that leave this node, of its spouts' first batches.

    No txid is used, nothing is committed, no position moves. Spark runs it where a session is given or active, or
    where an operation has no Python form; else it runs in this process.
    """
    nodes = walk(node)
    for below in nodes:
        if isinstance(below, StateStep | RequestSource):
            raise TopologyError(f"{node.step}: {below.step} has no first batch to look at; start the topology")
    sources = [below for below in nodes if isinstance(below, SpoutSource)]
    session = spark or SparkSession.getActiveSession()
    if session is None and not all(map(has_python_form, nodes)):
        session = local_session()
    executors = {source: source.spout.open() for source in sources}
    try:
        emissions = {source: _first(executor) for source, executor in executors.items()}
        table = _in_python(node, emissions, n) if session is None else _in_spark(node, emissions, n, session)
    finally:
        for executor in executors.values():
            executor.close()
    row = Row(*node.schema.names)
    return [row(*values) for values in zip(*[to_python(column) for column in table.columns], strict=True)]


def _first(executor: SpoutExecutor) -> Emission | None:
    """The first batch; None where the source is idle."""
    metadata = executor.plan(1, None, time.time())
    return None if metadata is None else executor.emit(TransactionAttempt(1, 0), metadata)


def _in_python(node: Node, emissions: Mapping[SpoutSource, Emission | None], n: int) -> pa.Table:
    inputs = {id(source): columns_of(source, _given(source, emission)) for source, emission in emissions.items()}
    found = Evaluation({node: node.schema.names}, list(emissions)).run(Run(inputs))[id(node)]
    return found.table(arrow_schema(node.schema)).slice(0, n)


def _in_spark(node: Node, emissions: Mapping[SpoutSource, Emission | None], n: int, spark: SparkSession) -> pa.Table:
    session = run_session(spark)
    try:
        with tempfile.TemporaryDirectory(prefix="trident-take-") as scratch, active_session_kept():
            return _collected(node, emissions, n, session, Path(scratch))
    except Exception as error:
        better = translated(error)
        if better is error:
            raise
        raise better from None
    finally:
        released(session)


def _collected(
    node: Node, emissions: Mapping[SpoutSource, Emission | None], n: int, session: SparkSession, scratch: Path
) -> pa.Table:
    profile = Profile(small=True, partitions=1)
    Confs(session).apply(profile)
    frames: dict[int, DataFrame | Tail] = {}
    for source, emission in emissions.items():
        frames[id(source)] = start_of(source, _given(source, emission), session, scratch)
    lowering = Lowering(layout({node: node.schema.names}, list(emissions)), frames, profile, {})
    try:
        frame = lowering.frame(node).select(*all_quoted(node.schema.names))
        return conform(frame.limit(n).toArrow(), arrow_schema(node.schema))
    finally:
        lowering.release()


def _given(source: SpoutSource, emission: Emission | None) -> Emission | pa.Table:
    return arrow_schema(source.schema).empty_table() if emission is None else emission
