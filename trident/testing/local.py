"""A topology with no JVM: the same runtime, log and states, with the driver-side engine in Spark's place."""

from typing import Any

from trident.compiler.arrow.engine import ArrowEngine
from trident.plan.topology_plan import TopologyPlan
from trident.run.running import RunningTopology
from trident.run.start import start_on


def start_local(topology: TopologyPlan, **options: Any) -> RunningTopology:
    """Start a topology for a test, in this process and without Spark. The options are those of `start`.

    Operations that only Spark can run (``expr``, a Column, ``transform``) are refused with MissingSessionError.
    """
    return start_on(lambda settings: ArrowEngine(), topology, **options)
