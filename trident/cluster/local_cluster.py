"""LocalCluster: topologies by name in this process, with the methods of Storm's LocalCluster."""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trident.base.argument_checks import check_whole_number
from trident.base.context_manager import Ending
from trident.base.durations import Duration, read_limit
from trident.base.errors import TopologyActiveError, TopologyConditionError, TopologyError, TopologyNotFoundError
from trident.base.names import did_you_mean
from trident.compiler.engine_choice import check_engine_name
from trident.display.display import Condition
from trident.plan.topology_protocol import EngineName
from trident.run.running import RunningTopology
from trident.topology import TridentTopology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

ClusterCondition = Literal["STARTING", "KILLED"] | Condition
"""The condition of a topology in a cluster: Storm's statuses, and statuses for its beginning and its end."""

OWN = ("name", "engine", "standby", "replace")
"""The options of a start that the cluster sets itself."""


@dataclass(slots=True)
class _Member:
    """A topology of the cluster, and its run once it has started."""

    running: RunningTopology | None = None
    killed: bool = False
    """True once a kill was called, even if the kill was interrupted. The next kill then continues it."""
    removed: bool = False
    killing: threading.Lock = field(default_factory=threading.Lock)
    """Held by the call that kills the topology now."""

    @property
    def condition(self) -> ClusterCondition:
        if self.killed:
            return "KILLED"
        return "STARTING" if self.running is None else self.running.condition


class LocalCluster(Ending):
    """Topologies by name in this process: submit, activate, deactivate, rebalance and kill them.

    It runs each topology exactly as `TridentTopology.start` does, on one Spark session. This is the given session, or
    the active session, or a local session, which the cluster makes for its first topology and stops at its `shutdown`.
    As a context manager, it shuts down at the end of the block.

    Parameters
    ----------
    spark : SparkSession, optional
        The session for all topologies. The cluster does not stop it.
    engine : "spark", "embedded" or "auto"
        The engine of all topologies. The embedded engine has no session. On "auto" the cluster makes no session: a
        topology that needs Spark starts a local Spark, which stays up after `shutdown`.
    cores : int, optional
        How many tasks run at once in the local session that the cluster makes; all cores by default.
    checkpointLocation : path, optional
        The checkpoint of each topology whose `conf` has no checkpoint. Without a checkpoint, states are lost at the end
        of their run.

    Notes
    -----
    Meaning: ``org.apache.storm.LocalCluster``. The guide's page on the life cycle says how it differs from Storm's.

    >>> from trident import Count, LocalCluster, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> with LocalCluster(engine="embedded") as cluster:
    ...     running = cluster.submitTopology("wordcount", {"maxSpoutPending": 1}, topology)
    ...     running.processAllAvailable()
    ...     _ = cluster.deactivate("wordcount", wait=None)
    ...     print(cluster.topologies, running.state("counts")["dog"])
    ...     cluster.killTopology("wordcount")
    {'wordcount': 'INACTIVE'} 2
    """

    def __init__(
        self,
        spark: "SparkSession | None" = None,
        *,
        engine: EngineName = "spark",
        cores: int | None = None,
        checkpointLocation: str | Path | None = None,
    ) -> None:
        check_engine_name(engine)
        if cores is not None:
            check_whole_number("cores", cores)
            if spark is not None or engine != "spark":
                raise TopologyError(
                    "cores= applies to a local Spark session that the cluster creates, but this cluster creates none; "
                    "omit cores="
                )
        self._spark, self._engine, self._cores = spark, engine, cores
        self._checkpoint = checkpointLocation
        self._owned: SparkSession | None = None
        self._members: dict[str, _Member] = {}
        self._lock = threading.Lock()
        self._session_lock = threading.Lock()
        self._over = False

    # --- the calls of Storm ------------------------------------------------------------------------------------------

    def submitTopology(self, name: str, conf: Mapping[str, Any] | None, topology: TridentTopology) -> RunningTopology:
        """Start a topology under a name, and return the handle of its run.

        If two calls submit the same name, one fails.

        Parameters
        ----------
        name : str
            The topology's name, which is free again after `killTopology`.
        conf : dict, optional
            Options of `TridentTopology.start`; ``{"active": False}`` starts it INACTIVE.
        topology : TridentTopology

        Raises
        ------
        TopologyActiveError
            The cluster has a topology of this name, or one runs in this process outside of it.
        TopologyError, GuaranteeError, ...
            The errors of `TridentTopology.start`. After such an error the name is free.
        """
        if not isinstance(topology, TridentTopology):
            raise TopologyError(f"submitTopology(name, conf, topology): {topology!r} is not a TridentTopology")
        options = dict(conf or {})
        for option in OWN:
            if option in options:
                raise TopologyError(f"conf has {option!r}, which the cluster sets: leave it out")
        if self._checkpoint is not None:
            options.setdefault("checkpointLocation", self._checkpoint)
        member = self._reserved(name)
        try:
            member.running = topology.start(self._session(), engine=self._engine, name=name, **options)
            with self._lock:
                over = self._over
            if over:  # a shutdown came meanwhile, before the run was known
                raise self._shut_down()
        except BaseException:  # also an exception that interrupts this call after the start
            if member.running is not None:
                member.running.stop()
            self._remove(name, member)
            raise
        return member.running

    def killTopology(self, name: str, waitSecs: Duration | None = 30) -> None:
        """Stop a topology and remove it. Return when the name is free and nothing of the run is left.

        The topology plans no new batch, and commits those that it has planned, for `waitSecs` at most. Batches that are
        not frozen by then are cancelled, and are emitted again if the topology is submitted again over its checkpoint.
        States and log stay; ``topology.reset`` drops them. A failed topology is removed, too; its handle says why it
        failed.

        Raises
        ------
        TopologyNotFoundError
            The cluster has no topology of this name.
        TopologyConditionError
            The topology is still starting.
        """
        limit = read_limit("waitSecs", waitSecs, zero=True)
        with self._lock:
            member = self._member(name)
            running = member.running
            if running is None:
                raise TopologyConditionError(f"topology {name!r} is STARTING; kill it when submitTopology has returned")
            member.killed = True
        with member.killing:  # a call that waits here continues the kill if the first call was interrupted
            if not member.removed:
                self._drain(running, limit)
                running.stop()
                self._remove(name, member)

    def _drain(self, running: RunningTopology, limit: float | None) -> None:
        try:
            if not running.deactivate(wait=limit):
                logger.warning("topology %r did not commit its planned batches within %g s", running.name, limit)
        except TopologyConditionError as error:  # the run has ended, or is between two plans
            logger.info("%s; it is killed", error)

    def activate(self, name: str) -> None:
        """Let a topology plan new batches again; see `RunningTopology.activate`.

        Raises TopologyConditionError if the topology is KILLED or REBALANCING, or has ended.
        """
        self._running(name, "activate").activate()

    def deactivate(self, name: str, wait: Duration | None = 0) -> bool:
        """Let a topology plan no new batch; see `RunningTopology.deactivate`.

        Raises TopologyConditionError if the topology is KILLED or REBALANCING, or has ended.
        """
        return self._running(name, "deactivate").deactivate(wait)

    def rebalance(
        self, name: str, parallelismHints: Mapping[str, int], waitSecs: Duration | None = "5 minutes"
    ) -> None:
        """Change the parallelismHints of a topology between two batches; see `RunningTopology.rebalance`.

        Raises TopologyConditionError if the topology is KILLED or REBALANCING, or has ended.
        """
        self._running(name, "rebalance").rebalance(parallelismHints, waitSecs)

    def shutdown(self) -> None:
        """Stop all topologies in good order, and the Spark session that the cluster made. May be called again."""
        with self._lock:
            self._over = True
            members = dict(self._members)
        for member in members.values():
            if member.running is not None:
                member.running.stop_soon()
        for name, member in members.items():
            if member.running is not None:
                member.running.stop()
                self._remove(name, member)
        with self._session_lock:
            if self._owned is not None:
                self._owned.stop()
                self._owned = None

    # --- the topologies -----------------------------------------------------------------------------------------------

    @property
    def topologies(self) -> dict[str, ClusterCondition]:
        """The condition of each topology, by name.

        ACTIVE, INACTIVE, REBALANCING and KILLED as in Storm; STARTING before the run begins; STOPPED or FAILED for a
        run that has ended by itself and was not killed yet.
        """
        with self._lock:
            return {name: member.condition for name, member in self._members.items()}

    def isReady(self, name: str | None = None) -> bool:
        """Return whether a topology is ACTIVE and all its batch groups work.

        Without a name: whether all topologies are.

        False for a cluster that was shut down. Raises TopologyNotFoundError for an unknown name.
        """
        with self._lock:
            members = [*self._members.values()] if name is None else [self._member(name)]
            over = self._over
        return not over and all(
            member.condition == "ACTIVE" and member.running is not None and member.running.exception() is None
            for member in members
        )

    def running(self, name: str) -> RunningTopology:
        """Return the handle of a topology's run: for its states, DRPC functions and progress.

        Raises TopologyNotFoundError, or TopologyConditionError if the topology is still starting.
        """
        with self._lock:
            running = self._member(name).running
        if running is None:
            raise TopologyConditionError(f"topology {name!r} is STARTING; submitTopology returns its handle")
        return running

    def status(self, name: str) -> dict[str, Any]:
        """Return the result of `RunningTopology.status`, with the topology's condition in this cluster."""
        running = self.running(name)
        with self._lock:
            condition = self._member(name).condition
        return {**running.status, "condition": condition}

    _end = shutdown

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {condition}" for name, condition in self.topologies.items())
        return f"<LocalCluster on engine {self._engine!r}: {shown or 'no topology'}>"

    # --- internals ----------------------------------------------------------------------------------------------------

    def _reserved(self, name: str) -> _Member:
        with self._lock:
            if self._over:
                raise self._shut_down()
            if name in self._members:
                raise TopologyActiveError(
                    f"the cluster has a topology {name!r}, which is {self._members[name].condition}; kill it first, or "
                    f"submit this one under another name"
                )
            self._members[name] = member = _Member()
            return member

    def _shut_down(self) -> TopologyConditionError:
        return TopologyConditionError("the cluster was shut down; create another LocalCluster")

    def _session(self) -> "SparkSession | None":
        if self._engine != "spark" or self._spark is not None:
            return self._spark
        from trident.compiler.spark.sessions import is_spark_up, local_session

        with self._session_lock:
            if self._owned is None and not is_spark_up():
                self._owned = local_session(f"local[{self._cores or '*'}]")
            return self._owned

    def _member(self, name: str) -> _Member:
        if name not in self._members:
            known = f"its topologies are {', '.join(self._members)}" if self._members else "it has none"
            raise TopologyNotFoundError(
                f"the cluster has no topology {name!r}{did_you_mean(name, self._members)}; {known}"
            )
        return self._members[name]

    def _running(self, name: str, verb: str) -> RunningTopology:
        """Return the run of a topology if its condition can be changed now; otherwise raise TopologyConditionError."""
        with self._lock:
            member = self._member(name)
            if member.killed or member.running is None:
                raise TopologyConditionError(f"cannot {verb} topology {name!r}: it is {member.condition}")
            return member.running

    def _remove(self, name: str, member: _Member) -> None:
        with self._lock:
            if self._members.get(name) is member:
                del self._members[name]
            member.removed = True
