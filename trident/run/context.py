"""The records that the parts of a run share: one for the whole run, one for each batch group."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trident.base.attempt import Lease
from trident.base.clock import Clock
from trident.compiler.engine import Engine
from trident.compiler.program import Group
from trident.log.history import History
from trident.log.protocol import TransactionLog
from trident.plan.topology_protocol import TopologyPlan
from trident.reads.static_states import ReadableStore
from trident.recovery.acquisition import Begun
from trident.recovery.settings import Settings
from trident.recovery.takeover import explained
from trident.run import events as on
from trident.run.batch_trace import Trace
from trident.run.committer import Committer
from trident.run.progress import Progress
from trident.run.slots import Slots
from trident.run.sources import Sources
from trident.user_calls.threads import MakeThreads, Threads


@dataclass(frozen=True, slots=True)
class RunContext:
    """What `start` has opened for a run, before its groups are made."""

    topology: TopologyPlan
    settings: Settings
    runId: str
    """Of this run alone; the log's uuid stays the same over restarts."""
    log: TransactionLog
    begun: Begun
    """Lease, stores, histories and the program, as the log knows it."""
    engine: Engine
    state_threads: Threads
    """Where stores that run no user code are written."""
    progress: Progress
    trace: Trace
    statics: Mapping[str, ReadableStore] = field(default_factory=dict)
    """The states that are only read; they belong to no group."""
    make_threads: MakeThreads = Threads


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What the loop, the attempts and the commit turns of one batch group share."""

    group: Group
    settings: Settings
    log: TransactionLog
    lease: Lease
    history: History
    """What the log knew of the group when this driver took it."""
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

    def broken(self, error: BaseException) -> on.Broken:
        """Return the event that ends the group, with a takeover by another driver as the cause where there was one."""
        return on.Broken(explained(error, self.log, self.lease))
