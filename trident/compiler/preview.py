"""Previews of a stream before a run: its stateless part over the first batches of its spouts."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from trident.base.attempt import TransactionAttempt
from trident.base.errors import TopologyError
from trident.base.run_facts import NO_FACTS, RunFacts
from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import conform, to_python
from trident.compiler.arrow.engine import columns_of
from trident.compiler.arrow.evaluation import Evaluation, Run
from trident.compiler.spark.errors import translated
from trident.compiler.spark.lowering import Lowering
from trident.compiler.spark.sessions import Confs, Profile, active_session_kept, local_session, released, run_session
from trident.compiler.spark.sql_names import all_quoted
from trident.compiler.spark.stage_inputs import stage_input
from trident.compiler.stage_layout import layout
from trident.plan.nodes import CommittedQuery, Node, RequestSource, SpoutSource, StateStep, walk
from trident.plan.traits import has_python_form
from trident_spouts.context import SpoutContext, opened
from trident_spouts.executor import Emission, SpoutExecutor, WaitingExecutor
from trident_spouts.single_reader import check_previewable

Inputs: TypeAlias = Mapping[SpoutSource, Emission | pa.Table]

_PATIENCE_SECS = 10.0
"""The seconds for which a preview asks a source that has not answered yet."""


def take(node: Node, n: int, spark: SparkSession | None = None, facts: RunFacts = NO_FACTS) -> list[Row]:
    """Return the first `n` tuples of this node's output for the first batches of its spouts.

    A preview uses no txid, commits nothing and moves no position. It runs on Spark if a session is given or active, or
    if an operation has no Python form; otherwise in this process. Spouts and operations may read `facts`.
    """
    session = spark or active_session()
    if session is None and not all(map(has_python_form, walk(node))):
        session = local_session()
    with _first_batches(node, facts) as emissions:
        if session is None:
            table = _in_python(node, emissions, n, facts)
        else:
            with _in_spark(node, emissions, session, facts) as frame:
                table = conform(frame.limit(n).toArrow(), arrow_schema(node.schema))
    row = Row(*node.schema.names)
    return [row(*values) for values in zip(*[to_python(column) for column in table.columns], strict=True)]


def active_session() -> SparkSession | None:
    """Return the Spark session that is active in this thread, or None."""
    return SparkSession.getActiveSession()


def explain(node: Node, mode: str, spark: SparkSession | None = None, facts: RunFacts = NO_FACTS) -> None:
    """Print Spark's plan for this node's output over the first batches of its spouts. The plan is not run."""
    session = spark or active_session() or local_session()
    with _first_batches(node, facts) as emissions, _in_spark(node, emissions, session, facts) as frame:
        frame.explain(mode=mode)


@contextmanager
def _first_batches(node: Node, facts: RunFacts) -> Iterator[Inputs]:
    """Open the spouts of the node's tuples, yield the first batch of each, and close the spouts at the end.

    Raises TopologyError if a state or a DRPC request is on the way, or if the rows would be missing in the run.
    """
    nodes = walk(node)
    for below in nodes:
        if isinstance(below, StateStep | CommittedQuery | RequestSource):
            raise TopologyError(
                f"{node.step}: {below.step} has no first batch that a preview could read; start the topology"
            )
    sources = [source for source in nodes if isinstance(source, SpoutSource)]
    for source in sources:
        check_previewable(source.spout, source.step)
    executors = {
        source: opened(source.spout, SpoutContext(facts.topology, source.stream, facts.config)) for source in sources
    }
    try:
        yield {source: _first(source, executor) for source, executor in executors.items()}
    finally:
        for executor in executors.values():
            executor.close()


def _first(source: SpoutSource, executor: SpoutExecutor) -> Emission | pa.Table:
    """Return the first batch of a spout; an empty table if the spout has no rows.

    Raises TopologyError if the spout still waits for its rows after some seconds.
    """
    attempt, until = TransactionAttempt(1, 0), time.monotonic() + _PATIENCE_SECS
    while (metadata := executor.plan(attempt, None, time.time())) is None:
        waits_for = executor.waits_for() if isinstance(executor, WaitingExecutor) else None
        if waits_for is None:
            break
        if time.monotonic() >= until:
            raise TopologyError(
                f"{source.step}: the source returned no row within {_PATIENCE_SECS:g} s, but is not empty: "
                f"{waits_for}. Try again later, or start the topology, which waits for it"
            )
        time.sleep(0.01)
    return arrow_schema(source.schema).empty_table() if metadata is None else executor.emit(attempt, metadata)


def _in_python(node: Node, emissions: Inputs, n: int, facts: RunFacts) -> pa.Table:
    inputs = {id(source): columns_of(source, emission) for source, emission in emissions.items()}
    columns = Evaluation({node: node.schema.names}, list(emissions), facts=facts).run(Run(inputs))[id(node)]
    return columns.table(arrow_schema(node.schema)).slice(0, n)


@contextmanager
def _in_spark(node: Node, emissions: Inputs, spark: SparkSession, facts: RunFacts) -> Iterator[DataFrame]:
    """Yield the node's output as a DataFrame in a new session. The session is released at the end."""
    session = run_session(spark)
    try:
        with tempfile.TemporaryDirectory(prefix="trident-take-") as scratch, active_session_kept(session):
            plan = layout({node: node.schema.names}, list(emissions), facts=facts)
            profile = Profile(small=True, partitions=1, partitioned=plan.partitioned)
            Confs(session).apply(profile)
            inputs = {
                id(source): stage_input(source, plan.names(source), emission, session, Path(scratch))
                for source, emission in emissions.items()
            }
            lowering = Lowering(plan, inputs, profile, {})
            try:
                yield lowering.frame(node).select(*all_quoted(node.schema.names))
            finally:
                lowering.release()
    except Exception as error:
        meant = translated(error, walk(node))
        if meant is error:
            raise
        raise meant from meant.__cause__
    finally:
        released(session)
