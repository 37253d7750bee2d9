"""The function openTopology: a topology's DRPC functions and states, read without its driver."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from trident.access.follower import GroupFollower
from trident.access.locations import StateLocation, read_location
from trident.access.opened_state import Followed, FollowedStore
from trident.access.replica import MemoryReplica
from trident.access.watched_topology import WatchedTopology
from trident.base.context_manager import Ending
from trident.base.durations import Duration, read_limit
from trident.base.errors import StateClosedError, StateError, StateShapeError, TopologyError
from trident.base.metrics import MetricsRegistry
from trident.base.names import check_name, did_you_mean
from trident.base.run_facts import RunFacts
from trident.base.short_texts import brief
from trident.compiler.program import Program, RequestPlan
from trident.compiler.stages import cut
from trident.configuration.layers import user_config
from trident.drpc.local import LocalDRPC
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.log import RedisLog
from trident.log.protocol import LogReading
from trident.log.snapshot_home import NoHome
from trident.plan.nodes import StateWriter
from trident.plan.topology_protocol import TopologyPlan
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.commit_times import CommitTimes
from trident.reads.committed_reads import Isolation
from trident.reads.state_changes import StateChanges, expires
from trident.reads.state_description import StateDescription
from trident.reads.state_view import StateView
from trident.reads.static_states import ReadableStore, close_statics, open_statics
from trident.reads.stream_positions import StreamPosition, positions_in
from trident.reads.tagging import Tagged, TopologyTags
from trident.sql.queryable import Queryable
from trident.sql.state_queries import StateQueries
from trident_state.fingerprint import shown_shapes
from trident_state.state_shape import StateIdentity, StateKind, StateShape

_TIMEOUT_SECONDS = 300.0


def openTopology(
    topology: TopologyPlan,
    *,
    name: str = "topology",
    checkpointLocation: str | Path | None = None,
    log: RedisLog | None = None,
    filesLocation: str | None = None,
    filesStorage: Mapping[str, str] | None = None,
    timeoutSecs: Duration = _TIMEOUT_SECONDS,
) -> "OpenedTopology":
    """Open the states of a topology for reading, so that its DRPC functions answer without its driver.

    The topology may run elsewhere, be stopped, or stop and start again meanwhile. The call takes no lease, writes
    nothing, and delays no driver. Any number of processes may do this.

    Parameters
    ----------
    topology
        The same program that is started elsewhere. Its functions and aggregators are called here.
    name
        The name that `start` got.
    checkpointLocation
        The folder that `start` got, for states in memory: each is copied into this process, and the copy follows the
        driver's commits. A topology with all states on servers needs none.
    log
        The `RedisLog` that `start` got, if any.
    filesLocation, filesStorage
        The location of the topology's files and the options of its store, if `start` got them.
    timeoutSecs
        The time limit of requests without a timeout.

    Raises
    ------
    StateError
        A state of the topology does not exist yet; or one of its subclasses: StateShapeError (another program wrote
        it), StateUnavailableError (a server does not answer), StateLostError, StateCorruptError.
    LogError
        There is no such log, or it cannot be read.
    TopologyError
        The topology has nothing to read, a state in memory has no checkpointLocation, or a DRPC function needs Spark.

    Examples
    --------
    >>> import tempfile
    >>> from trident import Count, MapGet, TridentTopology, openTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> _ = topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with topology.start(engine="embedded", name="wc", checkpointLocation=folder) as running:
    ...         running.processAllAvailable()
    ...     with openTopology(topology, name="wc", checkpointLocation=folder) as opened:
    ...         print(opened.drpc.execute("count", "dog"), opened.state("counts")["cat"])
    [Row(word='dog', count=2)] 1
    """
    if not hasattr(topology, "sinks"):
        raise TopologyError(
            f"openTopology({brief(topology)}): expected the TridentTopology of the program that is started "
            f"elsewhere, whose name is name=; openState(topology, state) opens a state by names, without the program"
        )
    check_name("name", name)
    program = cut(topology).in_run(RunFacts(name, user_config(name)))
    writers = {step.state.name: step for group in program.groups for step in group.states}
    if not writers and not program.requests:
        raise TopologyError("nothing to read: the topology has no state and no DRPC function")
    for plan in program.requests:
        _check_runs_here(plan)
    timeout = read_limit("timeoutSecs", timeoutSecs)
    with ExitStack() as undo:
        location = _location(writers, checkpointLocation, log, filesLocation, filesStorage)
        opened: dict[str, Followed] = {}
        for state, step in writers.items():
            opened[state] = _open(name, step, program.shapes[state], location)
            undo.callback(opened[state].close)
        statics = open_statics(program)
        undo.callback(close_statics, statics)
        reading = None if location is None else location.open_log_to_read(name)
        if reading is not None:
            undo.callback(reading.close)
        at: FileStore = DiskFiles(Path())
        if location is not None and reading is not None and location.has_files:
            at = location.place(name, reading)
        source = _OpenedSource(name, program, opened, statics, reading, at)
        return OpenedTopology(name, topology, program, source, timeout, undo.pop_all())


def _check_runs_here(plan: RequestPlan) -> None:
    """Raise TopologyError if a DRPC function has a step that only Spark can compute."""
    if not plan.python:
        raise TopologyError(
            f"DRPC {plan.function!r} has an operation that only Spark can run, such as expr, and there is no Spark "
            f"here: write it as a Python function, or ask the running topology"
        )


def _location(
    writers: Mapping[str, StateWriter],
    checkpoint: str | Path | None,
    log: RedisLog | None,
    filesLocation: str | None,
    filesStorage: Mapping[str, str] | None,
) -> StateLocation | None:
    """Return the location of the log and of the states in memory; None if none was given and no state needs it."""
    kept_here = [state for state, step in writers.items() if step.state.factory.survives != "server"]
    if kept_here and checkpoint is None and (log is None or filesLocation is None):
        raise TopologyError(
            f"state {kept_here[0]!r} is in the driver's memory: give the checkpointLocation of its topology, or its "
            f"log= and filesLocation="
        )
    if checkpoint is None and log is None:
        return None
    return read_location(checkpoint, log, None, "trident", None, filesLocation, filesStorage)


def _open(topology: str, step: StateWriter, shape: StateShape, location: StateLocation | None) -> Followed:
    """Open the state that a step writes. Raises StateError if it does not exist or has another shape."""
    state, factory = step.state.name, step.state.factory
    where = f"{step.step} ({step.site.location}): state {state!r} of topology {topology!r}"
    if factory.survives != "server":
        assert location is not None
        reading = location.open_log_to_read(topology)
        try:
            if state not in reading.births():
                raise StateError(f"{where} does not exist yet: start the topology first, or correct the name")
            replica = MemoryReplica(reading, location.place(topology, reading), state, shape.combine)
            _check_shape(where, replica.manifest.fingerprint, replica.manifest.kind, shape, factory.kind)
            replica.committed()
        except BaseException:
            reading.close()
            raise
        return replica
    store = factory.open(StateIdentity(topology, state, ""), shape, NoHome())
    try:
        report = store.report()
        if report.identity is None or report.fingerprint is None:
            raise StateError(
                f"{where} does not exist yet in {factory!r}: start the topology first, or correct the name"
            )
        _check_shape(where, report.fingerprint, report.kind, shape, factory.kind)
    except BaseException:
        store.close()
        raise
    followed = FollowedStore(store, state, report.incarnation)
    if location is not None:
        followed.first_in_log = partial(location.first_txid, topology, state)
    return followed


def _check_shape(where: str, stored: str, kind: StateKind | None, shape: StateShape, declared: StateKind) -> None:
    """Raise StateShapeError if the program that wrote a state differs from the program that reads it."""
    if stored != shape.fingerprint:
        held, written = shown_shapes(stored, shape.fingerprint)
        raise StateShapeError(f"{where} has {held}, but this program writes {written}")
    if kind is not None and kind is not declared:
        raise StateShapeError(f"{where} is {kind.value}, but {declared.value} in this program")


def _unknown(txid: int) -> None:
    """Return None: without a log the time of a commit is unknown."""


class _OpenedSource:
    """The `ReadSource` of a topology with its driver in another process."""

    def __init__(
        self,
        name: str,
        program: Program,
        opened: Mapping[str, Followed],
        statics: Mapping[str, ReadableStore],
        log: LogReading | None,
        files: FileStore,
    ) -> None:
        self._name = name
        self._log, self._files = log, files
        self._opened = opened
        self._stores: Mapping[str, ReadableStore] = {**opened, **statics}
        written = [(step.state, group.name) for group in program.groups for step in group.states]
        self._groups = {state.name: group for state, group in written}
        self._kinds = dict.fromkeys(statics, StateKind.NON_TRANSACTIONAL)
        self._kinds |= {state.name: state.factory.kind for state, _ in written}
        members: dict[str, list[Followed]] = {}
        for state, group in self._groups.items():
            members.setdefault(group, []).append(opened[state])
        # If all states are copies in this process, a thread updates them. A state on a server changes independently:
        # each read must first update the copies in the same group up to its batch.
        copies = {
            group: [each for each in states if isinstance(each, MemoryReplica)] for group, states in members.items()
        }
        self._followers = {
            group: GroupFollower(group, copies[group])
            for group, states in members.items()
            if len(copies[group]) == len(states)
        }
        self._members = {group: states for group, states in members.items() if group not in self._followers}
        self._times = {
            group: CommitTimes(partial(log.commit_time, group) if log is not None else _unknown) for group in members
        }
        self.closed = False

    def group_of(self, state: str) -> str:
        return self._groups[state]

    def positions(self, spouts: Mapping[str, object]) -> list[StreamPosition]:
        """Return the positions of the streams; none without a log. `spouts` are the program's spouts by stream."""
        return [] if self._log is None else positions_in(self._log, self._name, spouts)

    def first_txid(self, state: str) -> int:
        """Return the first txid as of which a state has values."""
        followed = self._opened.get(state)
        return 0 if followed is None else followed.first

    def times(self, group: str) -> CommitTimes:
        """Return when the group's batches were committed."""
        return self._times[group]

    def committed(self, group: str) -> int:
        """Return the last txid that every state of the group has and the log has committed, as far as is known here."""
        if group in self._followers:
            self._followers[group].check()
            return self._followers[group].committed
        txid = min(followed.committed() for followed in self._members[group])
        return txid if self._is_recorded(group, txid) else txid - 1

    def _is_recorded(self, group: str, txid: int) -> bool:
        """Return whether the log has recorded a batch as committed; True without a log.

        States on a server hold a batch for a moment before the log has its COMMITTED. If the driver died in that
        moment, this lasts until the next start. The states can still be read as of the previous batch, whose time the
        log has, too.
        """
        if self._log is None or self._times[group].of(txid) is not None:
            return True
        # The log no longer keeps the time of an old batch.
        return self._log.last_committed(group) >= txid

    @contextmanager
    def between(self, group: str) -> Iterator[int]:
        """Yield the committed txid, and hold back the copies in this process.

        States on a server cannot be held back.
        """
        if group in self._followers:
            self._followers[group].check()
            with self._followers[group].gate.between() as txid:
                yield txid
        else:
            yield self.committed(group)

    def store(self, state: str) -> ReadableStore:
        if (group := self._groups.get(state)) in self._followers:
            self._followers[group].check()
        return self._stores[state]

    def kind(self, state: str) -> StateKind:
        return self._kinds[state]

    def isPrompt(self, state: str) -> bool:
        """Return False: the state's driver is another process, and a read may have to request its newest batch."""
        return False

    def check(self) -> None:
        if self.closed:
            raise StateClosedError(f"topology {self._name!r} was closed here; open it again")

    def changes(self, view: StateView, passing: bool) -> StateChanges:
        """Return the changes of a state. Raises StateError if no log says which keys each batch changed."""
        if self._log is None:
            raise StateError(
                f"state {view.name!r}: only the topology's log says what a batch changed: open the topology with its "
                f"checkpointLocation= or log= (trident serve: --checkpoint, --log-url)"
            )
        return StateChanges(self, view, self._log, self._files, passing)

    def close(self) -> None:
        """End the threads that follow the driver."""
        self.closed = True
        for follower in self._followers.values():
            follower.close()

    @property
    def asOf(self) -> dict[str, int]:
        """The last committed txid of each group that has a state."""
        return {group: self.committed(group) for group in dict.fromkeys(self._groups.values())}


class OpenedTopology(Ending, Queryable, Tagged):
    """A topology that `openTopology` opened for reading: its DRPC functions and its states.

    Every answer is as of the newest batch that all states of its group hold at that time. The object is a context
    manager, and thread-safe except for `close`.
    """

    def __init__(
        self,
        name: str,
        topology: TopologyPlan,
        program: Program,
        source: _OpenedSource,
        timeout: float | None,
        opened: ExitStack,
    ) -> None:
        self.name = name
        """The topology's name."""
        self._source, self._opened = source, opened
        self._shapes = program.shapes
        self._steps = {step.state.name: step for group in program.groups for step in group.states}
        self._spouts = {spout.stream: spout.spout for group in program.groups for spout in group.spouts}
        self.watched = WatchedTopology(
            name, topology, lambda: self.asOfTxid, self.commitTimes, lambda: self.positions.values()
        )
        """The view of this topology that a server's page reads."""
        self.queries = StateQueries(source, self.states, self.state)
        self.tagging = TopologyTags(source, self.states, self.state)
        self.drpc = LocalDRPC(program.requests, source, timeout=timeout)
        """Ask the topology's DRPC functions: ``opened.drpc.execute("words", "cat dog")``."""
        self.metrics = MetricsRegistry()
        """Metrics that your code registers. The metrics of the batches belong to the running topology."""

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states that can be read."""
        return tuple(sorted(self._steps))

    @property
    def asOfTxid(self) -> dict[str, int]:
        """The last committed txid of each batch group, by name, as a read would see it now."""
        self._source.check()
        return self._source.asOf

    def commitTimes(self, group: str) -> CommitTimes:
        """Return the times at which the batches of a group were committed, as far as the log has them."""
        return self._source.times(group)

    @property
    def positions(self) -> dict[str, StreamPosition]:
        """Return the position of each stream in the terms of its source, by stream, like ``running.positions``.

        The result is empty if the topology was opened without its log.
        """
        self._source.check()
        return {at.stream: at for at in self._source.positions(self._spouts)}

    def group_of(self, state: str) -> str | None:
        """Return the batch group of the txids that the state's reads name; None for a non-transactional state."""
        return None if self._source.kind(state) is StateKind.NON_TRANSACTIONAL else self._source.group_of(state)

    def state(self, name: str, isolation: Isolation = "committed", asOf: AsOfBatch | None = None) -> StateView:
        """Return a view of a state, like ``running.state``. Raises StateError if no state has this name."""
        if name not in self._steps:
            raise StateError(
                f"no state {name!r}{did_you_mean(name, self._steps)}; the states are {', '.join(self.states)}"
            )
        described = StateDescription.of(self._steps[name], self._shapes[name], self._shapes)
        return StateView(self._source, described, isolation, asOf)

    def changes(self, state: str) -> StateChanges:
        """Return the changes of a state, as a server feeds them to its clients.

        Raises StateError if there is no such state, if it is nonTransactional, or if the topology was opened without
        its log.
        """
        view = self.state(state)
        return self._source.changes(view, expires(self._steps[state].state.factory))

    def close(self) -> None:
        """Close connections and files. Results of earlier reads stay valid."""
        if not self._source.closed:
            self._source.close()
            self.queries.close()
            self._opened.close()

    _end = close

    def __repr__(self) -> str:
        if self._source.closed:
            return f"<OpenedTopology {self.name!r}, closed>"
        try:
            at = ", ".join(f"{group} at txid {txid}" for group, txid in self._source.asOf.items())
        except StateError as error:
            at = str(error)
        return f"<OpenedTopology {self.name!r}: {at or repr(self.drpc)}>"
