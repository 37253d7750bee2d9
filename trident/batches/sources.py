"""The spouts of one batch group. Each has a separate thread, which makes its calls one at a time, in order."""

import inspect
import json
import logging
import threading
from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from trident.base.attempt import TransactionAttempt
from trident.base.callsite import CallSite, site_of
from trident.base.errors import SpoutContractError
from trident.base.log_fields import RunLogger
from trident.base.run_facts import NO_FACTS, RunFacts
from trident.batches.batch_sizes import Amount, BatchSizes
from trident.batches.bootstrapping import Bootstrapping
from trident.log.group_records import BatchPlan, Positions, positions_after
from trident.plan.nodes import Node, SpoutSource
from trident.user_calls.watched_calls import PATIENCE_SECONDS, Subject, WatchedCalls
from trident_spouts.batch_budget import NO_LIMIT
from trident_spouts.context import SpoutContext
from trident_spouts.context import opened as opened_with
from trident_spouts.executor import (
    Emission,
    FailureAwareExecutor,
    MeasuredExecutor,
    Metadata,
    ReadSoFar,
    ReasonedExecutor,
    Spout,
    SpoutExecutor,
    SpoutKind,
    SwitchedExecutor,
    WaitingExecutor,
    WakingExecutor,
)
from trident_spouts.source_times import SourceSpan, known_times

T = TypeVar("T")

logger = logging.getLogger(__name__)

_JSON = json.JSONEncoder(allow_nan=False)


class Sources:
    """The spout executors of one batch group.

    Each executor has a separate lane of `calls`, from `open` to `close`. So a spout may keep an object that belongs to
    one thread (a SQLite connection), and a slow spout does not hold up the others. `target`: the seconds that a batch
    should take; None if the spouts alone decide how large batches are. `active`: whether rows are taken from the start
    on, and not only after `switch`. `facts`: the facts that the spouts may read.
    """

    def __init__(
        self,
        spouts: tuple[SpoutSource, ...],
        calls: WatchedCalls,
        target: float | None = None,
        active: bool = True,
        facts: RunFacts = NO_FACTS,
    ) -> None:
        self.calls = calls
        self._facts = facts
        self.sizes = BatchSizes(target)
        self.wake: Callable[[], None] = _nothing
        """Reports to the group that a source has rows. The group sets this function before its first sleep."""
        self.waits_for: str | None = None
        """The reasons of streams that had no rows at the last plan. Only the thread that plans uses it."""
        self._logger = RunLogger(logger, **calls.fields)
        self._nodes = {node.stream: node for node in spouts}
        self._bootstrapping = Bootstrapping(spouts)
        self._succeeded = 0
        """The last txid that `success` has reported."""
        self._sites = {node.stream: _sites(node.spout) for node in spouts}
        self._executors: dict[str, SpoutExecutor] = {}
        self._lock = threading.Lock()
        """Guards `_given_up` and the dict of opened executors, so that an executor which opens late is closed, too."""
        self._given_up = False
        self._begins_active = active
        opened: dict[str, SpoutExecutor] = {}
        opening = {
            stream: self._submit(stream, "open()", partial(self._open, opened, stream, node.spout), 0)
            for stream, node in self._nodes.items()
        }
        failures = []
        for call in opening.values():
            try:
                calls.wait(call)
            except BaseException as error:
                failures.append(error)
        with self._lock:
            self._given_up = bool(failures)
            self._executors = {stream: opened[stream] for stream in self._nodes if stream in opened}
        if failures:
            self.close()
            raise failures[0]

    def _open(self, opened: dict[str, SpoutExecutor], stream: str, spout: Spout) -> None:
        """Open a spout in its lane. If the start was given up meanwhile, close the spout there.

        Otherwise an executor that opens so late would hold its source for ever, because nothing else knows of it.
        """
        executor = opened_with(spout, SpoutContext(self._facts.topology, stream, self._facts.config))
        try:
            _check_plan(stream, executor)
            if isinstance(executor, WakingExecutor):
                executor.on_rows(lambda: self.wake())
            if self._begins_active and isinstance(executor, SwitchedExecutor):
                executor.activate()
        except BaseException:
            self._try_and_log(stream, executor.close)
            raise
        with self._lock:  # so that either `close` finds the executor, or this finds that the start was given up
            late = self._given_up
            if not late:
                opened[stream] = executor
        if late:
            self._try_and_log(stream, executor.close)

    @property
    def plans_ahead(self) -> bool:
        """Return whether every spout can plan a batch while the previous batch is not frozen yet."""
        return all(executor.plans_ahead for executor in self._executors.values())

    @property
    def wakes(self) -> bool:
        """Return whether every spout reports new rows by itself."""
        return all(isinstance(executor, WakingExecutor) for executor in self._executors.values())

    @property
    def replans(self) -> bool:
        """Return whether a failed batch may get a new plan, because a spout is opaque."""
        return any(self._opaque(stream) for stream in self._nodes)

    def plan(
        self, attempt: TransactionAttempt, previous: Positions, kept: BatchPlan | None, time: float
    ) -> BatchPlan | None:
        """Return the plan of the batch; None if no spout has rows.

        `kept`: the plan of an earlier attempt. Spouts that replay exactly keep their part of it. Streams that wait for
        others (`bootstrap=True`) have nothing. This call sets `waits_for`: the reasons of spouts that gave nothing
        although their sources are not empty.
        """
        replayed = kept or {}
        plan: BatchPlan = {each: replayed[each] for each in self._nodes if each in replayed and not self._opaque(each)}
        ask = partial(self._ask, attempt, previous, time)
        answers = ask(self._nodes.keys() - plan.keys() - self._bootstrapping.waiting.keys())
        if self._bootstrapping.waiting:
            empty = {stream for stream, answer in answers.items() if answer == (None, None)}
            answers |= ask(self._bootstrapping.end(attempt.txid, self._succeeded, empty) - plan.keys())
        plan |= {stream: self._json(stream, metadata) for stream, (metadata, _) in answers.items()}
        reasons = {stream: reason for stream, (_, reason) in answers.items()} | self._bootstrapping.waiting
        waits = [f"stream {stream!r}: {reason}" for stream, reason in reasons.items() if reason is not None]
        self.waits_for = "; ".join(waits) or None
        return None if all(metadata is None for metadata in plan.values()) else self.no_tuples | plan

    def _ask(
        self, attempt: TransactionAttempt, previous: Positions, time: float, streams: Set[str]
    ) -> dict[str, tuple[Metadata, str | None]]:
        """Return what the spouts of these streams plan, and the reasons of those that wait."""
        asked = dict[str, Future[tuple[Metadata, str | None]]]()
        for stream in self._nodes:
            if stream in streams:
                executor, budget = self._executors[stream], self.sizes.budget(stream)
                work = partial(_plan, executor, attempt, previous.get(stream), time, budget)
                asked[stream] = self._submit(stream, _shown(executor.plan, (attempt,)), work, attempt.attempt)
        return {stream: answer.result() for stream, answer in asked.items()}

    @property
    def no_tuples(self) -> BatchPlan:
        """The plan of a batch without tuples: no stream has anything in it."""
        return dict.fromkeys(self._nodes)

    def emit(self, attempt: TransactionAttempt, plan: BatchPlan) -> dict[Node, Emission | None]:
        """Return the tuples that the plan names, by spout node; None for a spout without tuples in this batch."""
        asked = {
            stream: self._call(stream, executor.emit, attempt, plan[stream], tries=attempt.attempt)
            for stream, executor in self._executors.items()
            if plan.get(stream) is not None
        }
        return {node: asked[stream].result() if stream in asked else None for stream, node in self._nodes.items()}

    def positions_after(
        self, previous: Positions, plan: BatchPlan, emissions: dict[Node, Emission | None]
    ) -> Positions:
        """Return the positions of the spouts after a batch that was emitted."""
        by_stream = {stream: emissions[node] for stream, node in self._nodes.items()}
        emitted = {stream: self._json(stream, emission.after) for stream, emission in by_stream.items() if emission}
        return positions_after(previous, plan, emitted)

    def ran(self, txid: int, emissions: dict[Node, Emission | None], rows: int | None, began: float) -> None:
        """Note how much of each stream a finished batch holds. Later batches are sized by that.

        `rows` is the number of all rows, if they were counted. `began`: when the attempt began (monotonic seconds).
        """
        if self.sizes.target is not None:
            self.sizes.ran(txid, self._amounts(emissions, rows), began)

    def _amounts(self, emissions: dict[Node, Emission | None], rows: int | None) -> dict[str, Amount]:
        emitted = {stream: emissions[node] for stream, node in self._nodes.items() if emissions[node] is not None}
        only = rows if len(emitted) == 1 else None
        return {
            stream: Amount(only if emission.rows is None else emission.rows, emission.bytes)
            for stream, emission in emitted.items()
            if emission is not None
        }

    def read_so_far(self, positions: Positions) -> dict[str, ReadSoFar]:
        """Return how far each stream's source was read up to `positions`. Sources without a known size are left out.

        If a spout raises here, that is logged: no batch depends on the answer.
        """
        measured: dict[str, ReadSoFar | None] = {}
        for stream, executor in self._executors.items():
            if isinstance(executor, MeasuredExecutor):
                try:
                    measured[stream] = executor.read_so_far(positions.get(stream))
                except Exception:
                    self._logger.warning("spout %r failed in read_so_far()", stream, exc_info=True)
        return {stream: amount for stream, amount in measured.items() if amount is not None}

    def times(self, emissions: dict[Node, Emission | None]) -> dict[str, tuple[SourceSpan, ...]]:
        """Return the times that the sources gave a batch's tuples. Streams without known times are left out."""
        known = {stream: known_times(emissions[node], f"spout {stream!r}") for stream, node in self._nodes.items()}
        return {stream: spans for stream, spans in known.items() if spans}

    def success(self, txid: int, plan: BatchPlan, earlier: Positions) -> None:
        """Tell the spouts that all batches up to `txid` are committed.

        `earlier`: the positions of streams that have nothing in this batch, and of which all batches are committed. The
        position of an executor that plans ahead is the metadata of its last batch. That batch is reported to it again:
        the source may wait for an acknowledgement that the last run could not send.

        If a spout raises here, or does not return within its limit, that is logged: `success` of a later batch includes
        this one.
        """
        calls = [
            self._tell(stream, executor.success, txid, metadata)
            for stream, executor in self._executors.items()
            if (metadata := _last(plan.get(stream), earlier.get(stream), executor)) is not None
        ]
        for call in calls:
            call.exception()
        self._succeeded = txid

    def fail(self, attempt: TransactionAttempt, error: BaseException) -> None:
        """Tell the spouts that the attempt failed. Spouts that accept a reason get `error`.

        This does not wait for them. Each spout gets the call before it emits the next attempt, because its lane keeps
        the order.
        """
        for stream, executor in self._executors.items():
            if isinstance(executor, ReasonedExecutor):
                self._tell(stream, executor.fail_with_reason, attempt, f"{type(error).__name__}: {error}")
            else:
                self._tell(stream, executor.fail, attempt)

    def switch(self, active: bool) -> None:
        """Tell spouts with `activate` and `deactivate` whether rows are taken from now on. Do not wait for them.

        An error here is only logged: if a spout could not begin, its next plan fails.
        """
        for stream, executor in self._executors.items():
            if isinstance(executor, SwitchedExecutor):
                self._tell(stream, executor.activate if active else executor.deactivate)

    def close(self, timeout: float = PATIENCE_SECONDS, failed: bool = False) -> None:
        """Close every spout, after the calls in its lane. Wait at most `timeout` seconds for all spouts together.

        `failed` says whether the run has failed.
        """
        until = monotonic() + timeout
        for stream, executor in self._executors.items():
            if failed and isinstance(executor, FailureAwareExecutor):
                self._tell(stream, executor.run_failed)
        for closed in [self._tell(stream, executor.close) for stream, executor in self._executors.items()]:
            with suppress(TimeoutError):
                closed.exception(max(0.0, until - monotonic()))

    def _tell(self, stream: str, method: Callable[..., None], *args: Any) -> "Future[None]":
        """Call a spout's method in its lane. An error is only logged, because nothing depends on the call."""
        return self._submit(stream, _shown(method, args), partial(self._try_and_log, stream, method, *args), 0)

    def _try_and_log(self, stream: str, method: Callable[..., None], *args: Any) -> None:
        """Call a method, and log a warning if it raises."""
        try:
            method(*args)
        except Exception:
            self._logger.warning("spout %r failed in %s", stream, _shown(method, args), exc_info=True)

    def _call(self, stream: str, method: Callable[..., T], *args: Any, tries: int = 0) -> "Future[T]":
        return self._submit(stream, _shown(method, args), partial(method, *args), tries)

    def _submit(self, stream: str, what: str, work: Callable[[], T], tries: int) -> "Future[T]":
        subject = Subject(f"spout {stream!r}, {what}", self._sites[stream])
        return self.calls.submit(f"spout {stream}", subject, work, tries)

    def _opaque(self, stream: str) -> bool:
        return self._nodes[stream].spout.kind is SpoutKind.OPAQUE

    def _json(self, stream: str, metadata: Metadata) -> Metadata:
        """Return metadata in the form in which the log returns it. Raises SpoutContractError if it is not JSON."""
        if metadata is None:
            return None
        try:
            read_back: Metadata = json.loads(_JSON.encode(metadata))
        except (TypeError, ValueError) as error:
            raise SpoutContractError(
                f"spout {stream!r} returned metadata that is not JSON ({error}): {metadata!r:.200}"
            ) from error
        return read_back


def _plan(executor: SpoutExecutor, *arguments: Any) -> tuple[Metadata, str | None]:
    """Return the metadata that an executor plans; if that is None, also the reason why the executor waits."""
    metadata = executor.plan(*arguments)
    if metadata is None and isinstance(executor, WaitingExecutor):
        return None, executor.waits_for()
    return metadata, None


def _last(metadata: Metadata, earlier: Metadata, executor: SpoutExecutor) -> Metadata:
    """Return the metadata of a stream's last committed batch; None if there is nothing to report."""
    return earlier if metadata is None and executor.plans_ahead else metadata


def _check_plan(stream: str, executor: SpoutExecutor) -> None:
    """Raise SpoutContractError if an executor implements a version of the protocol without budgets."""
    try:
        inspect.signature(executor.plan).bind(None, None, 0.0, NO_LIMIT)
    except TypeError as error:
        raise SpoutContractError(
            f"spout {stream!r}: {type(executor).__name__}.plan cannot be called as plan(attempt, previous, time, "
            f"budget) ({error}); write def plan(self, attempt, previous, time, budget=Budget())"
        ) from None


def _nothing() -> None: ...


def _shown(method: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return a call as messages show it: ``emit(7:0)``."""
    return f"{method.__name__}({args[0] if args else ''})"


def _sites(spout: Spout) -> tuple[CallSite, ...]:
    """Return the sites of the user's spout class, or of the functions that were given to a spout of this library."""
    own = getattr(spout, "spout", spout)
    if not type(own).__module__.startswith("trident"):
        return (site_of(own),)
    partitions = getattr(own, "partitions", None)
    functions = [partitions, *(getattr(own, name, None) for name in ("rows", "plan", "read"))]
    if isinstance(partitions, Mapping):
        functions = [*partitions.values()]
    return tuple(site_of(function) for function in functions if callable(function))
