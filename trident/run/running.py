"""The handle of a running topology, with the manners of PySpark's StreamingQuery."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from trident.base.errors import FencedError, StateError, TridentError
from trident.compiler.program import Program
from trident.drpc.local import LocalDRPC
from trident.plan.topology_plan import TopologyPlan
from trident.reads.committed_reads import Isolation
from trident.reads.state_view import Described, StateView
from trident.reads.static_states import Readable
from trident.run import events as on
from trident.run import registry
from trident.run.batch_trace import Trace
from trident.run.dead_letter_replay import looking, place_of
from trident.run.display import LiveProgress, html_of, standing
from trident.run.fence_watch import Watch
from trident.run.group_run import GroupRun
from trident.run.progress import Progress
from trident.run.read_source import RunCommits
from trident.user_calls.threads import Threads
from trident_state.store import Store

logger = logging.getLogger(__name__)

STOP_SECONDS = 20.0
"""How long a stop takes at most."""

_PATIENCE = 2.0
"""Seconds that the end of a run waits for writes that nobody waits for any more, and for listeners."""


class RunningTopology:
    """A topology at work, as `TridentTopology.start` returns it.

    As a context manager it stops the run when it is left, and raises what the run failed with.
    Meaning: ``pyspark.sql.streaming.StreamingQuery``.
    """

    def __init__(self, topology: TopologyPlan, program: Program, name: str, id: str) -> None:
        self._topology = topology
        self._program = program
        self.name = name
        """The topology's name."""
        self.id = id
        """The UUID of its log: the same over restarts from one checkpoint."""
        self.runId = uuid.uuid4().hex
        """Of this run alone."""
        self.progress = Progress()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._forked = False

    def _compose(
        self,
        runs: Mapping[str, GroupRun],
        stores: Mapping[str, Store],
        watch: Watch,
        trace: Trace,
        drpc: Callable[[RunCommits], LocalDRPC],
        pool: Threads,
        closing: Callable[[bool], None],
        statics: Mapping[str, Readable] | None = None,
    ) -> None:
        """Put the run together; called once by `start`. `closing` is told whether no write to a store is under way."""
        self._runs, self._stores, self._watch, self._trace = dict(runs), dict(stores), watch, trace
        self._pool, self._closing = pool, closing
        kinds = {s.state.name: s.state.factory.kind for r in runs.values() for s in r.group.states}
        self._commits = RunCommits(runs, stores, kinds, self._check, statics)
        self.drpc = drpc(self._commits)
        """Ask the topology's DRPC functions: ``running.drpc.execute("words", "cat dog")``."""

    # --- how it stands -----------------------------------------------------------------------------------------

    @property
    def isActive(self) -> bool:
        """Whether any batch group is still at work."""
        return not self._ended.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """What each batch group is doing: committed txid, batches in flight, what it waits for, and the calls of your
        code that are over their limit and do not come back (``hanging``: which, since when, and at which line).
        The same of DRPC requests, which belong to no group, is ``status["hanging"]``."""
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
        return {"name": self.name, "isActive": self.isActive, "groups": groups, "hanging": self.drpc.hanging}

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The event of the last committed batch, or None."""
        return self.progress.last

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """The last events, oldest first: committed batches and failed attempts."""
        return self.progress.recent

    @property
    def debugOutput(self) -> list[str]:
        """What the Debug steps of the topology saw lately, a line a tuple."""
        return list(self._trace.debug)

    def showProgress(self, every: float = 0.5) -> LiveProgress:
        """Show how the run goes, looking every so many seconds, until it ends (or ``.stop()`` of what this returns).

        In a notebook the output of the cell keeps itself up to date and shows what Debug steps see; elsewhere a line is
        printed where something has changed.
        """
        return LiveProgress(self, every)

    def exception(self) -> BaseException | None:
        """The error of the first batch group that failed, or None."""
        return next((run.error for run in self._runs.values() if run.error is not None), None)

    def explain(self) -> None:
        """Print how the topology runs: groups, stages, states and guarantees."""
        self._topology.explain()

    # --- waiting and stopping ----------------------------------------------------------------------------------

    def processAllAvailable(self, timeout: float | None = None) -> None:
        """Wait until everything that the sources have now is committed.

        Raises the topology's failure, and TimeoutError after `timeout` seconds, naming what a commit waits for.
        """
        self._check_other_thread("processAllAvailable")
        deadline = None if timeout is None else time.monotonic() + timeout
        for run in self._runs.values():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            in_time = run.rest(left)
            self._raise_failure()
            if not in_time:
                waits_for = run.waits_for
                why = f"; it waits for: {waits_for}" if waits_for else ""
                raise TimeoutError(
                    f"topology {self.name!r} did not process all that was there in {timeout:g} s{why}"
                ) from run.waiting_for

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the topology ends; with `timeout` (seconds) tell whether it did. Raises its failure."""
        self._check_other_thread("awaitTermination")
        in_time = self._ended.wait(timeout)
        self._raise_failure()
        return in_time if timeout is not None else None

    def stop(self) -> None:
        """Stop: nothing new starts, running attempts are cancelled, a commit under way is finished. Returns when the
        run has ended. What was not frozen is emitted again by the next start, what was frozen is committed by it.

        A listener, a spout or a function that calls it in one of the run's own threads only asks for it: there it
        returns at once.

        It returns within 20 seconds, whatever hangs. Code of yours that is at work is waited for 10 seconds, and Spark
        is told to cancel its jobs. What has not come back then is left behind and named in the Python log. It cannot
        write any more: what it gives reaches nobody, and the log is no longer its driver's.
        """
        self.stop_soon()
        if not self._in_own_thread() and not self._ended.wait(STOP_SECONDS):
            logger.warning("topology %r does not end in %g s; it is left behind", self.name, STOP_SECONDS)

    def stop_soon(self) -> None:
        """Ask the run to stop, and return at once."""
        for run in self._runs.values():
            run.post(on.StopAsked())

    def wait_ended(self, timeout: float | None) -> bool:
        """Wait until the run has ended, for `timeout` seconds at most; tell whether it did."""
        return self._ended.wait(timeout)

    def leave_to_parent(self) -> None:
        """Forget the run in a forked child: its threads run in the parent only."""
        # New events, because the parent may have held their locks at the fork.
        for run in self._runs.values():
            run.done = _set_event()
        self._ended, self._forked = _set_event(), True

    def __enter__(self) -> "RunningTopology":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self._raise_failure()

    # --- reading -----------------------------------------------------------------------------------------------

    def state(self, name: str, isolation: Isolation = "committed") -> StateView:
        """A state by its name, read at its last committed txid (``isolation="latest"``: whatever was written last).

        Raises StateError that lists the states there are.
        """
        if name not in self._program.shapes:
            raise StateError(f"no state {name!r}; the states are {', '.join(sorted(self._program.shapes))}")
        step = next(s for r in self._runs.values() for s in r.group.states if s.state.name == name)
        return StateView(self._commits, Described.of(step, self._program.shapes[name]), isolation)

    def replayDeadLetters(
        self, stream: str, where: Callable[[Mapping[str, Any]], bool] | None = None, *, state: str = "deadLetters"
    ) -> int:
        """Put dead letters back into the stream that they fell out of, once the code was put right; tells how many.

        They come as tuples of the next batch, where `Stream.replayable` stands, and leave the state in that very batch:
        each comes back once, whatever fails meanwhile. A tuple that dies again is a new letter. What was asked for and
        is in no batch yet is forgotten when the run ends, and the letters stay where they are.

        Parameters
        ----------
        stream : str
            The stream's name.
        where : callable, optional
            Chooses letters, before this returns: it is given each as a dict of its fields (``id, step, error, message,
            tuple, ...``).
        state : str
            The name that `deadLetterState` was given.

        Raises
        ------
        TopologyError
            Where no letters come back into this stream, or a letter's tuple lacks a field that it has now.
        """
        spout = place_of(stream, (node for run in self._runs.values() for node in run.group.spouts))
        view = self.state(state)
        committed = partial(self._commits.committed, self._commits.group_of(state))
        found = spout.ask(looking(view, committed, stream, where))
        for run in self._runs.values():
            run.post(on.Woken())
        return found

    def __repr__(self) -> str:
        txids = ", ".join(f"{name} at txid {run.committed}" for name, run in self._runs.items())
        return f"<RunningTopology {self.name!r} {standing(self)}: {txids}>"

    def _repr_html_(self) -> str:
        return html_of(self, self._topology.draw("svg"))

    # --- the run's own -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        """May this run still answer? Not when another driver has taken it over, nor in a forked child."""
        if self._forked:
            raise TridentError(f"topology {self.name!r} runs in the process that forked this one; ask it there")
        for run in self._runs.values():
            if isinstance(run.error, FencedError):
                raise run.error

    def _in_own_thread(self) -> bool:
        return self.progress.mine() or self._pool.mine() or any(run.mine() for run in self._runs.values())

    def _check_other_thread(self, method: str) -> None:
        if self._in_own_thread():
            raise TridentError(
                f"topology {self.name!r}: {method}() was called by a listener, spout or function that runs in one of "
                f"the topology's own threads, which cannot wait for itself; call it from another thread"
            )

    def _raise_failure(self) -> None:
        error = self.exception()
        if error is not None and all(run.done.is_set() for run in self._runs.values()):
            self._ended.wait(STOP_SECONDS)
        if isinstance(error, TridentError):
            raise error
        if error is not None:
            raise TridentError(f"topology {self.name!r} failed: {type(error).__name__}: {error}") from error

    def _group_ended(self, run: GroupRun) -> None:
        """Called by a group that is over; the last one closes the house."""
        with self._lock:
            if self._ended.is_set() or not all(r.done.is_set() for r in self._runs.values()):
                return
            try:
                self._watch.stop()
                written = self._pool.close(_PATIENCE) and not any(run.writes_hang for run in self._runs.values())
                self._closing(written)
                self.progress.flush(_PATIENCE)
            except Exception:  # what is committed is committed: the end of a run does not depend on a good close
                logger.exception("topology %r did not close in good order", self.name)
            finally:
                registry.release(self.name, self)  # before anybody hears of the end, and starts the next one
                self._ended.set()


def active() -> list[RunningTopology]:
    """Return the running topologies of this process.

    >>> active()
    []
    """
    return [run for run in registry.running_here() if isinstance(run, RunningTopology)]


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event
