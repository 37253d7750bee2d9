"""The engine of a run, by the name in its options."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from trident.base.verb_call import user_level
from trident.compiler.arrow.engine import ArrowEngine
from trident.compiler.engine import Engine
from trident.compiler.engine_choice import only_on_spark
from trident.compiler.stages import cut
from trident.compiler.tracking.uncounted_steps import unseen_text
from trident.configuration.settings import Settings
from trident.plan.topology_protocol import EngineName, TopologyPlan
from trident.run.session import is_at_hand, session_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trident.compiler.spark.engine import SparkEngine
    from trident.compiler.spark.warm_up import WarmUp

EngineMaker = Callable[[Settings], Engine]


def engine_maker(
    name: EngineName, topology: TopologyPlan, spark: "SparkSession | None", warm_up: "WarmUp | None"
) -> EngineMaker:
    """Return a function that creates the engine of this name for a run with the given settings."""

    def on_spark(settings: Settings) -> Engine:
        warn_of_unseen(topology, settings)
        return _spark_engine(session_for(spark), settings, warm_up, settings.driverRows)

    def embedded(settings: Settings) -> Engine:
        return ArrowEngine(settings.ledger)

    def auto(settings: Settings) -> Engine:
        from trident.compiler.auto.choice import EngineChoice
        from trident.compiler.auto.deferred_spark import DeferredSpark
        from trident.compiler.auto.engine import AutoEngine

        warn_of_unseen(topology, settings)
        # Looked up here, because the active session depends on the thread.
        given = session_for(spark) if is_at_hand(spark) else None
        later = DeferredSpark(lambda: _warm_engine(given, topology, settings), session=given is not None)
        if steps := only_on_spark(topology.nodes):
            later.begin(f"{steps[0].step} can only run on Spark")
        choice = EngineChoice(settings.autoRows, settings.autoBytes)
        return AutoEngine(later, choice, settings.files is not None, settings.ledger)

    return {"spark": on_spark, "embedded": embedded, "auto": auto}[name]


def warn_of_unseen(topology: TopologyPlan, settings: Settings) -> None:
    """Warn of the steps whose input rows a ledger cannot count on Spark."""
    if settings.ledger and (text := unseen_text(cut(topology))):
        warnings.warn(text, RuntimeWarning, stacklevel=user_level())


def _spark_engine(
    spark: "SparkSession", settings: Settings, warm_up: "WarmUp | None", driver_rows: int = 0
) -> "SparkEngine":
    from trident.compiler.spark.engine import SparkEngine

    return SparkEngine(spark, settings.files, warm_up=warm_up, ledger=settings.ledger, driver_rows=driver_rows)


def _warm_engine(spark: "SparkSession | None", topology: TopologyPlan, settings: Settings) -> "SparkEngine":
    """Return an engine on Spark that has run a first job: the driver's process computes batches meanwhile."""
    from trident.compiler.spark.warm_up import WarmUp

    session = session_for(spark)
    warm_up = WarmUp.begin(session, topology.nodes)
    if warm_up is not None:
        warm_up.wait()
    return _spark_engine(session, settings, warm_up)
