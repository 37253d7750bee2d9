"""The records that the parts of a run share: one for the whole run, one for each batch group."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from trident.base.attempt import Lease
from trident.base.clock import Clock
from trident.base.log_fields import RunLogger
from trident.base.metrics import MetricsRegistry
from trident.batches import coordinator_events as on
from trident.batches.attempt_slots import Slots
from trident.batches.sources import Sources
from trident.commits.committer import Committer
from trident.commits.output_memory import LogMemory
from trident.compiler.engine import Engine
from trident.compiler.program import Group
from trident.configuration.settings import Settings
from trident.log.group_records import History
from trident.log.protocol import TransactionLog
from trident.plan.topology_protocol import TopologyPlan
from trident.reads.static_states import ReadableStore
from trident.recovery.acquisition import Begun
from trident.recovery.lease_renewal import LeaseRenewal
from trident.recovery.takeover import explained
from trident.telemetry.batch_trace import Trace
from trident.telemetry.progress import Progress
from trident.user_calls.daemon_threads import MakeThreads, Threads


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything that `start` opens for a whole run, before it creates the runs of the groups."""

    topology: TopologyPlan
    settings: Settings
    runId: str
    """The UUID of this run only; the log's uuid stays the same over restarts."""
    log: TransactionLog
    begun: Begun
    """The result of acquisition: the lease, the stores, the histories, and the program with the log's names for its
    groups."""
    engine: Engine
    state_threads: Threads
    """The threads that write to states. If the user wrote the store, its methods run in its lane, and these threads
    wait for them."""
    progress: Progress
    trace: Trace
    memory: LogMemory
    statics: Mapping[str, ReadableStore] = field(default_factory=dict)
    """The states that no batch of this topology writes. They belong to no group."""
    make_threads: MakeThreads = Threads
    metrics: MetricsRegistry = field(default_factory=MetricsRegistry)
    renewal: LeaseRenewal | None = None
    """The renewal of the lease, until the run closes."""


@dataclass(frozen=True, slots=True)
class GroupContext:
    """The objects that the loop, the attempts and the commit turns of one batch group share."""

    group: Group
    settings: Settings
    log: TransactionLog
    lease: Lease
    history: History
    """The group's progress in the log when this driver took the group."""
    sources: Sources
    slots: Slots
    committer: Committer
    trace: Trace

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group.name

    @property
    def clock(self) -> Clock:
        """The run's clock."""
        return self.settings.clock

    def logger(self, module: str) -> RunLogger:
        """Return the logger of a module. Its records name this topology and this group."""
        return RunLogger(logging.getLogger(module), topology=self.settings.name, group=self.name)

    def broken(self, error: BaseException) -> on.Broken:
        """Return the event that ends the group. Its error is a FencedError if another driver took the log."""
        return on.Broken(explained(error, self.log, self.lease))
