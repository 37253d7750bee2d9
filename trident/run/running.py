"""The handle of a running topology, which resembles PySpark's StreamingQuery."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from pyspark.sql import Row

from trident.base.cached_property import cached_property
from trident.base.durations import Duration, read_limit, read_seconds
from trident.base.errors import StateError, TridentError
from trident.base.interruptible_waits import Flag
from trident.base.log_fields import RunLogger
from trident.batches import coordinator_events as on
from trident.batches.group_run import GroupRun
from trident.batches.run_context import RunContext
from trident.batches.run_gauges import gauges_of
from trident.compiler.program import hints_in_groups
from trident.display.display import Condition, html_of, status_of
from trident.display.live_output import LiveOutput
from trident.display.live_progress import show_progress, show_run
from trident.display.live_state import show_state
from trident.drpc.local import LocalDRPC
from trident.picture.draw import as_html
from trident.plan.nodes import StateWriter
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.commit_times import CommitTimes
from trident.reads.committed_reads import Isolation
from trident.reads.state_changes import StateChanges, expires
from trident.reads.state_description import StateDescription
from trident.reads.state_view import StateView
from trident.reads.stream_positions import StreamPosition
from trident.reads.tagging import Tagged, TopologyTags
from trident.run import registry, sigterm
from trident.run.controllable import Controllable
from trident.run.dead_letter_replay import Replay
from trident.run.fence_watch import Watch
from trident.run.read_source import RunReadSource
from trident.run.run_control import RunControl
from trident.run.savepoints import Saving
from trident.run.watched_run import WatchedRun
from trident.server.access_rules import Rights
from trident.server.http_server import Server, serve
from trident.server.limits import Limits
from trident.server.tls import TLS
from trident.sql.queryable import Queryable
from trident.sql.state_queries import StateQueries
from trident.telemetry.batch_spans import exporting
from trident.user_calls.watched_store import unwatched
from trident_spouts.executor import ReadSoFar
from trident_state.state_shape import StateKind

logger = logging.getLogger(__name__)

STOP_SECONDS = 20.0
"""The most seconds that a stop takes."""

_PATIENCE = 2.0
"""Seconds that the end of a run waits for listeners, and for writes to stores for which no commit turn waits."""


class RunningTopology(Queryable, Controllable, Tagged):
    """A running topology: the handle that `TridentTopology.start` returns.

    As a context manager, it stops the run at the end of the block, and raises the error with which the run failed.
    Meaning: ``pyspark.sql.streaming.StreamingQuery``.
    """

    def __init__(
        self,
        context: RunContext,
        runs: Mapping[str, GroupRun],
        source: RunReadSource,
        close: Callable[[bool], None],
    ) -> None:
        """Create the handle; `start` calls this.

        Views and queries read from `source`. `close` closes the opened resources. Its argument is False if a write to a
        store hangs.
        """
        self.name = context.settings.name
        """The topology's name."""
        self.id = context.log.uuid
        """The UUID of the topology's log: the same over restarts from one checkpoint."""
        self.runId = context.runId
        """The UUID of this run alone."""
        self.engine = context.engine.name
        """The engine that computes batches: "spark", "embedded" or "auto"."""
        self.progress = context.progress
        self.metrics = context.metrics
        """The metrics of the run, which the guide's page on metrics lists: ``running.metrics.value(...)``."""
        self._context, self._runs, self._close = context, dict(runs), close
        self._logger = RunLogger(logger, topology=self.name)
        begun, settings = context.begun, context.settings
        self._shapes = begun.program.shapes
        self._watch = Watch(self._runs, begun.stores, context.log, begun.lease)
        self._read_source = source
        self.queries = StateQueries(source, self.states, self.state)
        self.tagging = TopologyTags(source, self.states, self.state)
        self.drpc = LocalDRPC(
            begun.program.requests, self._read_source, context.engine.compile_request, settings.messageTimeoutSecs
        )
        """Ask the topology's DRPC functions: ``running.drpc.execute("words", "cat dog")``."""
        self.metrics.look_with(gauges_of(self.name, self._runs, context.log, unwatched(begun.stores)))
        self._servers: list[Server] = []
        self._stop_asked = False
        self._awaited = False
        """True once a caller has waited for batches; then a run that ends without a batch is not reported as a
        mistake."""
        own_hints = hints_in_groups(begun.program.groups)
        self._switches = RunControl(self.name, self._runs, settings.active, own_hints, settings.hints, self._over)
        self._saving = Saving(context, self._runs, self._switches)
        self._lock = threading.Lock()
        self._ended = Flag()
        self._end_spans: Callable[[], None] = lambda: None

    def launch(self) -> None:
        """Start the watch and the loops of the groups. `start` calls this once, after it has registered the run.

        After an interrupt the run is stopped.
        """
        try:
            self._end_spans = exporting(self.progress.listen)
            self._watch.start()
            for run in self._runs.values():
                run.start(self._group_ended)
                if self._context.settings.availableNow:
                    run.post(on.DrainAsked())
        except BaseException:  # Ctrl-C: only the loop of a group can end the group
            for run in self._runs.values():
                run.start(self._group_ended)
            self.stop()
            raise
        if not self._runs and self._context.settings.availableNow:
            self._end()  # the topology has no source to drain

    # --- status -----------------------------------------------------------------------------------------

    @property
    def isActive(self) -> bool:
        """Return whether any batch group is still running."""
        return not self._ended.is_set()

    @property
    def condition(self) -> Condition:
        """``"ACTIVE"``, ``"INACTIVE"``, ``"REBALANCING"``, or after the end ``"STOPPED"`` or ``"FAILED"``."""
        if self._ended.is_set():
            return "STOPPED" if self.exception() is None else "FAILED"
        return self._switches.condition

    @property
    def parallelismHints(self) -> dict[str, int]:
        """The present number of partitions of each `parallelismHint`, by step ("words/2")."""
        return self._switches.all_hints

    @property
    def status(self) -> dict[str, Any]:
        """The condition and the engine; for each batch group its last committed txid, its batches in flight, its waits.

        ``hanging`` lists the calls of your code that are over their limit and have not returned: the call, its start
        time, and the line that it is running. DRPC requests do not belong to a group; ``status["hanging"]`` lists those
        that hang. ``windows`` has the watermark of each window by time, and how many rows it has dropped since the
        start because they came too late. ``lease`` describes the process that holds the log for this run: its epoch,
        host and pid, and the start of the lease (seconds since 1970).
        """
        groups = {}
        for name, run in self._runs.items():
            flight = {str(a): status.value for a, status in list(run.coordinator.in_flight.values())}
            groups[name] = {
                "committed": run.committed,
                "inFlight": flight,
                "isActive": not run.done.is_set(),
                "waitingFor": run.waits_for,
                "hanging": run.hanging,
            }
            if windows := self._context.trace.windows(name):
                groups[name]["windows"] = windows
        about: dict[str, Any] = {"name": self.name, "engine": self.engine, "isActive": self.isActive}
        about["condition"] = self.condition
        if (holder := self._context.begun.holder) is not None:
            about["lease"] = {"epoch": holder.epoch, "host": holder.host, "pid": holder.pid, "since": holder.since}
        return {**about, "groups": groups, "hanging": self.drpc.hanging}

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The event of the last committed batch; None before the first batch."""
        return self.progress.last

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """The last events, oldest first: committed batches and failed attempts."""
        return self.progress.recent

    @property
    def debugOutput(self) -> list[str]:
        """The latest tuples in the Debug steps of the topology, one line for each tuple."""
        return list(self._context.trace.debug_lines)

    @property
    def readSoFar(self) -> dict[str, ReadSoFar]:
        """Return how far each stream's source was read, by stream: ``done``, ``total``, ``unit`` ("bytes", "batches").

        It counts frozen input. Sources of unknown size are missing: endless sources, and sources that you wrote.
        """
        return {stream: read for run in self._runs.values() for stream, read in run.read_so_far.items()}

    @property
    def positions(self) -> dict[str, StreamPosition]:
        """Return the position of each stream in the terms of its source, by stream: offsets, bytes of files, ids.

        A position includes the batches up to its `frozen`; the states have those up to its `committed`. After the end
        of the run `listPositions` reads it from the log.
        """
        return {at.stream: at for run in self._runs.values() for at in run.positions}

    def showProgress(self, every: Duration = 0.5) -> LiveOutput:
        """Show the progress of the run until it ends, updated every `every` (a duration).

        ``.stop()`` of the returned object ends the display earlier. In a notebook the output of the cell keeps itself
        up to date: a button that stops the run (with the package ipywidgets), a bar for each source of known size, a
        row for each batch group, and the tuples of Debug steps. Elsewhere a line is printed whenever something has
        changed. A cell whose value is the run shows the same.
        """
        return show_progress(self, read_seconds("every", every))

    def showState(
        self, name: str, n: int = 10, by: str | Callable[[Any], Any] | None = None, every: Duration = 1
    ) -> LiveOutput:
        """Show a table of the `n` entries of a state with the greatest values, kept up to date until the run ends.

        In a notebook the output of the cell is replaced; elsewhere the table is printed again. The table is as of one
        committed batch, and is read again when a later batch is committed, but not more often than `every` (a
        duration). Each read scans the whole state. The reads take at most a twentieth of the time, so that they do not
        delay commits: a large state is read less often. ``.stop()`` of the returned object ends the display earlier.

        Parameters
        ----------
        name : str
            The state's name.
        n : int
            The number of rows.
        by : str or callable, optional
            The rank of a value, as for ``top`` of a state's view: a field of the value, or a function of it. By default
            the value itself, or no ranking if values have no order.
        every : duration
            The least time between two reads.

        Raises
        ------
        StateError
            There is no state of this name, or `by` is not a field of its values.
        """
        view = self.state(name)
        group = self._read_source.group_of(name)
        return show_state(self, view, lambda: self._read_source.committed(group), n, by, read_seconds("every", every))

    def exception(self) -> BaseException | None:
        """Return the error of the first batch group that failed; None if none failed."""
        return next((run.error for run in self._runs.values() if run.error is not None), None)

    def explain(self) -> None:
        """Print how the topology runs: engine, steps, groups, stages, states and guarantees."""
        self._context.topology.explain(self.engine, self._switches.hints)

    # --- waiting and stopping ----------------------------------------------------------------------------------

    def processAllAvailable(self, timeout: Duration | None = None) -> None:
        """Wait until all data of the sources is committed, including data that arrives meanwhile.

        It does not return while rows come faster than they are processed. In that case give it a `timeout`.

        Raises the error with which the topology failed, if it did; raises TimeoutError after `timeout` (``"5
        minutes"``, seconds, a timedelta), with a message that names the reason of the wait; raises
        TopologyConditionError if the topology is inactive, because it then reads no data from its sources.
        """
        self._check_other_thread("processAllAvailable")
        self._awaited = True
        limit = read_limit("timeout", timeout, zero=True)
        deadline = None if limit is None else time.monotonic() + limit
        for run in self._runs.values():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            in_time = run.rest(left)
            self._raise_failure()
            if not in_time:
                waits_for = run.waits_for
                why = f"; it waits for: {waits_for}" if waits_for else ""
                raise TimeoutError(
                    f"topology {self.name!r} did not process everything within {limit:g} s{why}"
                ) from run.turns.waiting_for

    def awaitTermination(self, timeout: Duration | None = None) -> bool | None:
        """Wait until the topology ends. With `timeout` (a duration), return whether it ended in time.

        Raises the error with which the topology failed, if it did.
        """
        self._check_other_thread("awaitTermination")
        self._awaited = True
        in_time = self._ended.wait(read_limit("timeout", timeout, zero=True))
        sigterm.unwatch()
        self._raise_failure()
        return in_time if timeout is not None else None

    def stop(self) -> None:
        """Stop the run, and return when it has ended.

        No new batch starts, running attempts are cancelled, and a commit in progress is finished. The next start
        commits the frozen batches, and emits the others again.

        If a listener, a spout or a function calls this in one of the run's threads, it only asks for the stop, and
        returns at once.

        This returns within 20 seconds, even if a call hangs. It waits 10 seconds for your running code, and cancels
        Spark jobs. A call that has not returned by then is abandoned, and named in the Python log. That call can no
        longer write: its result is dropped, and its driver no longer holds the log.
        """
        self.stop_soon()
        if not self._owns_this_thread() and not self._ended.wait(STOP_SECONDS):
            self._logger.warning("topology %r does not end within %g s; it is abandoned", self.name, STOP_SECONDS)
        if self._ended.is_set():
            self._stop_servers()  # servers that kept running to show why the run failed
        sigterm.unwatch()

    def stop_soon(self) -> None:
        """Ask the run to stop, and return at once."""
        self._stop_asked = True
        for run in self._runs.values():
            run.post(on.StopAsked())
        if not self._runs:
            self._end()  # a topology with only queries has no group that could end the run

    def wait_ended(self, timeout: float | None) -> bool:
        """Wait until the run has ended, for `timeout` seconds at most. Return whether it has."""
        return self._ended.wait(timeout)

    def leave_to_parent(self) -> None:
        """Forget the run in a forked child: its threads run only in the parent."""
        for run in self._runs.values():
            run.done.set()
        self._ended.set()

    def __enter__(self) -> "RunningTopology":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self._raise_failure()

    # --- reading -----------------------------------------------------------------------------------------------

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states that can be read."""
        return tuple(sorted(self._shapes))

    @property
    def asOfTxid(self) -> dict[str, int]:
        """The last committed txid of each batch group, by name."""
        self._read_source.check()
        return {name: run.committed for name, run in self._runs.items()}

    def commitTimes(self, group: str) -> CommitTimes:
        """Return when the batches of a group were committed."""
        return self._read_source.times(group)

    def group_of(self, state: str) -> str | None:
        """Return the batch group whose txids the state's reads name; None for a non-transactional state."""
        return (
            None if self._read_source.kind(state) is StateKind.NON_TRANSACTIONAL else self._read_source.group_of(state)
        )

    @cached_property
    def watched(self) -> WatchedRun:
        """The view of this run that a server's page reads. From its first use on, it keeps the newest events."""
        settings = self._context.settings
        return WatchedRun(self, self._context.topology, settings.lasting or settings.log is not None)

    def group_of_stream(self, stream: str) -> str:
        """Return the batch group of a stream from a spout."""
        return next(name for name, run in self._runs.items() for spout in run.group.spouts if spout.stream == stream)

    def serve(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        token: str | None = None,
        allowedHosts: Collection[str] = (),
        limits: Limits | None = None,
        insecure: bool = False,
        tokens: Mapping[str, Rights] | None = None,
        tls: TLS | None = None,
    ) -> Server:
        """Serve the DRPC functions and states over HTTP, from a thread of this process, and return at once.

        A browser that opens ``.url`` of the returned server sees the running topology. The server answers until its
        `stop` is called or the run is stopped; after a failed run it keeps showing the reason until one of these calls.
        For a server that continues while the pipeline is stopped, see ``trident serve``. The guide's page on serving
        lists the paths.

        Parameters
        ----------
        port : int
            The port; 0 takes a free one, which ``.url`` of the returned server names.
        host : str
            The address to listen at. Other machines can reach the server only at an address other than loopback, which
            requires a `token`, or `tls` with certificates of clients.
        token : str, optional
            The token that clients send as ``Authorization: Bearer ...``: at least 16 characters, or ``env:NAME`` or
            ``file:path`` that holds it.
        allowedHosts : collection of str
            More names under which clients may address the server (its Host header); ``"*"`` for any.
        limits : Limits, optional
            The limits on a client's requests, answers and waiting time.
        insecure : bool
            Whether other machines may ask without a token.
        tokens : mapping of str to Rights, optional
            More tokens, in the same form as `token`, each with its permissions: ``{"env:SHOP_TOKEN":
            Rights(functions=["count"], states=["counts"])}``.
        tls : TLS, optional
            The server's certificate, and the authority for its clients' certificates: ``TLS("server.pem", "server.key",
            clientCA="clients.pem")``, of ``trident.server.tls``.

        Raises
        ------
        TopologyError
            The address cannot be bound, other machines could ask without a token or a certificate, or a file of `tls`
            cannot be used.
        MissingPackageError
            The packages of the extra ``trident-pyspark[server]`` are not installed.
        """
        server = serve(self, port, host, token, allowedHosts, limits, insecure, tokens, tls)
        self._servers.append(server)
        return server

    def state(self, name: str, isolation: Isolation = "committed", asOf: AsOfBatch | None = None) -> StateView:
        """Return a view of the state with this name, which reads at the last committed txid.

        With ``isolation="latest"`` it reads the newest values, committed or not. With ``asOf="previous"`` it reads as
        of the batch before the last committed batch, whose values a nonTransactional state does not keep. Raises
        StateError, which lists the states, if there is no state of this name.
        """
        if name not in self._shapes:
            raise StateError(f"no state {name!r}; the states are {', '.join(sorted(self._shapes))}")
        return StateView(
            self._read_source,
            StateDescription.of(self._step_of(name), self._shapes[name], self._shapes),
            isolation,
            asOf,
        )

    def _step_of(self, state: str) -> StateWriter:
        return next(step for run in self._runs.values() for step in run.group.states if step.state.name == state)

    def changes(self, state: str) -> StateChanges:
        """Return the changes of a state, as a server feeds them to its clients.

        Raises StateError if there is no such state, or if it is nonTransactional.
        """
        view, step = self.state(state), self._step_of(state)
        return StateChanges(
            self._read_source, view, self._context.log, self._context.settings.place, expires(step.state.factory)
        )

    def replayDeadLetters(
        self,
        stream: str,
        where: Callable[[Row], bool] | None = None,
        *,
        state: str = "deadLetters",
        into: str | None = None,
    ) -> int:
        """Put dead letters back into the stream from which they came, and return how many.

        Call this once the code is fixed. In the next batch each letter's tuple enters its stream again, directly before
        the step that failed on it, and the letter is removed from the state. The tuple enters exactly once, even if
        attempts fail, and no other branch of the stream gets it. The stream must be `Stream.replayable`. A tuple that
        fails again is a new letter. If the run ends before a batch has taken a letter, the letter stays in the state.
        Letters for which an earlier call has asked, and which no committed batch has taken yet, are not counted again.

        Parameters
        ----------
        stream : str
            The stream's name.
        where : callable, optional
            Chooses the letters: it gets each letter as a Row (``id, step, error, message, tuple, ...``),
            and is called only before this method returns.
        state : str
            The name that `deadLetterState` was given.
        into : str, optional
            The label of the step before which all letters of this call enter. Omitted: each enters before the step from
            which it comes. Needed if the program has no step that is recognised as this one, because its function was
            renamed or a step was inserted before it. It must be the step that replaced it, on the same branch.

        Raises
        ------
        TopologyError
            The stream is not replayable, the program no longer has a letter's step, another step has its label, or its
            tuple lacks a field that the stream now has at that step. Or `into` is given, and the letters come from
            several steps of which the program still has one.
        UserFunctionError
            `where` raised an error. No letter is put back.
        """
        view = self.state(state)
        committed = partial(self._read_source.committed, self._read_source.group_of(state))
        replay = Replay(stream, where, into, view, committed)
        letters = replay.ask([run.group for run in self._runs.values()])
        for run in self._runs.values():
            run.post(on.Woken())  # an idle group would not notice: the spout cannot wake it
        return letters

    def __repr__(self) -> str:
        txids = ", ".join(f"{name} at txid {run.committed}" for name, run in self._runs.items())
        doing = f"on engine {self.engine!r}, {status_of(self)}"
        return f"<RunningTopology {self.name!r} {doing}: {txids or repr(self.drpc)}>"

    def _repr_html_(self) -> str:
        return html_of(self, as_html(self._context.topology.draw("svg")))

    def _ipython_display_(self) -> None:
        """Show the progress, kept up to date, and the picture; IPython calls this for a cell whose value is the run."""
        show_run(self, self._context.topology.draw("svg"))

    # --- internals -----------------------------------------------------------------------------------------

    def _owns_this_thread(self) -> bool:
        if self.progress.owns_this_thread() or self._context.state_threads.owns_this_thread():
            return True
        return any(run.owns_this_thread() for run in self._runs.values())

    def _over(self) -> str | None:
        """Return the condition of a run that has ended or was asked to end; None for any other run."""
        if self._ended.is_set():
            return self.condition
        return "stopping" if self._stop_asked else None

    def _check_other_thread(self, method: str) -> None:
        self._read_source.check_process()
        if self._owns_this_thread():
            raise TridentError(
                f"topology {self.name!r}: {method}() was called in a thread of the topology, by a listener, spout "
                f"or function, which cannot wait for itself; call it from another thread"
            )

    def _raise_failure(self) -> None:
        error = self.exception()
        if error is not None and all(run.done.is_set() for run in self._runs.values()):
            self._ended.wait(STOP_SECONDS)  # so that a caller that gets the error can restart the topology at once
        if isinstance(error, TridentError):
            raise error
        if error is not None:
            raise TridentError(f"topology {self.name!r} failed: {type(error).__name__}: {error}") from error

    def _log_end(self) -> None:
        txids = ", ".join(f"{name} at txid {run.committed}" for name, run in self._runs.items())
        error = self.exception()
        forgotten = bool(self._runs) and not self._awaited and self._switches.condition != "INACTIVE"
        if error is None and forgotten and not any(run.committed for run in self._runs.values()):
            self._logger.warning(
                "topology %r stopped before its first batch, so its states are empty; to wait for batches, call "
                "processAllAvailable() or awaitTermination() before stop()",
                self.name,
            )
        elif error is None:
            self._logger.info("topology %r stopped; %s", self.name, txids)
        else:
            self._logger.error("topology %r failed: %s: %s; %s", self.name, type(error).__name__, error, txids)

    def _group_ended(self, run: GroupRun) -> None:
        """Close the run after its last group has ended. The loop of each group calls this at its end."""
        self._end()

    def _stop_servers(self) -> None:
        for server in self._servers:
            server.stop()

    def _end(self) -> None:
        """Close the run, unless a group is still running."""
        with self._lock:
            if self._ended.is_set() or not all(r.done.is_set() for r in self._runs.values()):
                return
            try:
                self._watch.stop()
                self.queries.close()
                if self._stop_asked:
                    self._stop_servers()
                idle = self._context.state_threads.close(_PATIENCE)
                self._close(idle and not any(run.writes_hang for run in self._runs.values()))
                self.progress.flush(_PATIENCE)
                self._end_spans()
            except Exception:  # committed batches remain committed, even if closing the run fails
                self._logger.exception("topology %r stopped, but not all of its resources could be closed", self.name)
            finally:
                self._log_end()
                registry.release(self.name, self)  # before a caller is notified of the end, and starts the next run
                self._ended.set()


def active() -> list[RunningTopology]:
    """Return the running topologies of this process.

    >>> active()
    []
    """
    return [run for run in registry.running_here() if isinstance(run, RunningTopology)]
