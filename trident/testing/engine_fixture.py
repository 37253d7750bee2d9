"""A pytest fixture that runs each test on each engine."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

from trident.plan.topology_protocol import EngineName, TopologyPlan
from trident.run.running import RunningTopology
from trident.testing.local import start_local, start_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EngineStart:
    """A function ``start(topology, **options)`` for one engine. `stop` stops the topologies that are still running."""

    def __init__(self, engine: EngineName, session: "Callable[[], SparkSession | None]" = lambda: None) -> None:
        self.engine = engine
        """``"embedded"`` (in this process, without Spark), ``"spark"`` or ``"auto"``, as in `TridentTopology.start`."""
        self._session = session
        self._started: list[RunningTopology] = []

    def __call__(self, topology: TopologyPlan, **options: Any) -> RunningTopology:
        """Start a topology. The options are those of `TridentTopology.start`, and ``clock``, as for `start_local`."""
        if self.engine == "embedded":
            running = start_local(topology, **options)
        else:
            from trident.run.start import start

            running = start(topology, self._session(), engine=self.engine, **start_options(topology, options))
        self._started.append(running)
        return running

    def stop(self) -> None:
        """Stop all topologies that were started here and are still running."""
        for running in self._started:
            running.stop()

    def __repr__(self) -> str:
        return f"EngineStart({self.engine!r})"


def engines(
    names: Sequence[str] = ("embedded", "spark"), *, spark: str | None = None, marks: Sequence[Any] = ()
) -> Any:
    """Return a pytest fixture that runs each test on each engine. Its value, an `EngineStart`, starts topologies.

    ::

        from trident.testing import engines

        start = engines()  # in a conftest.py, or in the module itself


        def test_words_are_counted(start):
            with start(topology()) as running: ...

    Parameters
    ----------
    names : sequence of str
        The engines: ``"embedded"``, in the test's process and without Spark, ``"spark"`` and ``"auto"``.
    spark : str, optional
        The name of a fixture that returns the SparkSession. Without it the tests run on the active session, or on a
        local session if no session is active.
    marks : sequence of pytest marks
        Marks for the tests on Spark, such as ``[pytest.mark.slow]``.
    """
    import pytest

    for name in names:
        if name not in get_args(EngineName):
            raise ValueError(f"unknown engine {name!r}; expected 'embedded', 'spark' or 'auto'")

    @pytest.fixture(params=[pytest.param(name, marks=marks if name != "embedded" else ()) for name in names])
    def start(request: pytest.FixtureRequest) -> Iterator[EngineStart]:
        starting = EngineStart(request.param, lambda: request.getfixturevalue(spark) if spark else None)
        yield starting
        starting.stop()

    return start
