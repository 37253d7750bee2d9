"""Runs for tests on the embedded engine, with drivers that a test can kill."""

from collections.abc import Callable
from typing import Any

from trident.base.durations import Duration
from trident.plan.nodes import SpoutSource
from trident.plan.topology_protocol import TopologyPlan
from trident.run.running import RunningTopology
from trident.run.start import start
from trident.testing.crashes import DriverCrashedError, crash_options
from trident.testing.source import TestSource

Start = Callable[..., RunningTopology]
"""A function that starts a topology with options: `start_local`, or the value of an `engines` fixture."""


def start_local(topology: TopologyPlan, **options: Any) -> RunningTopology:
    """Start a topology for a test. It is `TridentTopology.start` with ``engine="embedded"`` and the same options.

    It adds aids for tests: the option ``clock``, such as a `ManualClock`, and drivers that die at a CRASH or within
    `crash_at`. Raises MissingSessionError for steps that only Spark can run (``expr``, a Column, ``transform``).
    """
    return start(topology, engine="embedded", **start_options(topology, options))


def start_options(topology: TopologyPlan, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a start, with a log that the driver can lose if the test lets a driver crash."""
    spouts = (node.spout for node in topology.nodes if isinstance(node, SpoutSource))
    return crash_options(any(isinstance(spout, TestSource) and spout.crashes for spout in spouts), options)


def run_through(
    topology: TopologyPlan, *, start: Start = start_local, timeout: Duration = 60.0, **options: Any
) -> RunningTopology:
    """Start a topology, process all data of its sources, with another start after each crash, and return the run.

    The returned run is the last run, and is still running: use it as a context manager. `timeout` (a duration) is the
    limit of each run.

    >>> import tempfile
    >>> from trident import Count, TridentTopology
    >>> from trident.state import MemoryMapState
    >>> from trident.testing import CRASH, TestSource, run_through
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", TestSource("word string", [["cow"], CRASH, ["cow", "dog"]]))
    >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> with tempfile.TemporaryDirectory() as folder, run_through(topology, checkpointLocation=folder) as running:
    ...     dict(running.state("counts").items())
    {'cow': 2, 'dog': 1}
    """
    while True:
        running: RunningTopology | None = None
        try:
            running = start(topology, **options)
            running.processAllAvailable(timeout)
            return running
        except DriverCrashedError:
            if running is not None:
                running.stop()
        except BaseException:
            if running is not None:
                running.stop()
            raise
