"""DRPC inside the driver's process: a request runs through its stream and reads the states, without a Spark job."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from trident.base.errors import (
    DRPCArgumentError,
    DRPCNotFoundError,
    DRPCTimeoutError,
    FencedError,
    MissingSessionError,
    SnapshotMovedError,
    StateLostError,
    StateRecoveringError,
    StateUnavailableError,
)
from trident.base.names import did_you_mean
from trident.compiler.arrow.requests import Answer, compile_request
from trident.compiler.program import RequestPlan
from trident.compiler.states.queries import Reads
from trident.drpc.arguments import Arguments
from trident.drpc.combining import Audience, Combining, Late
from trident.drpc.result import DRPCResult
from trident.plan.nodes import HeldState, StaticState, walk
from trident.plan.sites import sites_in
from trident.reads.committed_reads import ReadSource, Snapshot, read_consistently
from trident.user_calls.watched_calls import Subject, current_line
from trident_state.state_shape import StateKind

Compile = Callable[[RequestPlan], Answer]
"""Makes the function that answers a plan's requests, many at once."""

_EVERYBODYS = (
    FencedError,
    MissingSessionError,
    SnapshotMovedError,
    StateLostError,
    StateRecoveringError,
    StateUnavailableError,
    Late,
)
"""Failures that every request of a batch would meet alike."""

REQUEST = pa.field("_request", pa.int64(), nullable=False)


class _Function:
    """One DRPC function at work: binds, batches and evaluates its requests."""

    def __init__(self, plan: RequestPlan, source: ReadSource, compile: Compile, timeout: float | None) -> None:
        self._plan = plan
        self._source = source
        self._compile = compile
        self._timeout = timeout
        self._evaluate: Answer | None = None
        written = (query.updated for query in plan.queries if not isinstance(query.updated, StaticState))
        self._states = list(dict.fromkeys(node.state.name for node in written))
        self._arguments = Arguments(plan.function, plan.source.schema)
        self._schema = pa.schema([REQUEST, *self._arguments.schema])
        self._combining: Combining[list[Any], DRPCResult] = Combining(self._answer)
        self.signature = self._arguments.signature
        self._sites = sites_in(walk(plan.leaf))

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """See `LocalDRPC.hanging`."""
        return [
            {
                "call": str(Subject(f"DRPC {self._plan.function!r}", self._sites)),
                "since": datetime.fromtimestamp(audience.since, UTC).isoformat(timespec="milliseconds"),
                "at": current_line(audience.thread, self._sites),
            }
            for audience in self._combining.hanging
        ]

    def execute(self, args: Sequence[Any], named: dict[str, Any], timeout: float | None) -> DRPCResult:
        values = self._arguments.bind(args, named)
        if timeout is not None and (not isinstance(timeout, int | float) or timeout <= 0):
            raise DRPCArgumentError(f"DRPC {self._plan.function!r}: timeout={timeout!r} is no number of seconds")
        timeout = self._timeout if timeout is None else timeout
        try:
            return self._combining.ask(values, timeout)
        except Late as late:
            at = current_line(late.thread, self._sites)
            sites = ", ".join(map(str, self._sites))
            where = f": {sites}, now at {at}" if at else ""
            raise DRPCTimeoutError(f"DRPC {self._plan.function!r}: no answer within {timeout:g} s{where}") from None

    def _answer(self, requests: Sequence[list[Any]], audience: Audience) -> list[DRPCResult | Exception]:
        """One outcome a request. A failure is looked for by halves, so that it reaches only who caused it."""
        try:
            return self._together(requests, audience)
        except _EVERYBODYS:
            raise
        except Exception as error:
            if len(requests) == 1:
                return [error]
            half = len(requests) // 2
            return [*self._answer(requests[:half], audience), *self._answer(requests[half:], audience)]

    def _together(self, requests: Sequence[list[Any]], audience: Audience) -> list[DRPCResult | Exception]:
        if self._evaluate is None:
            self._evaluate = self._compile(self._plan)
        evaluate = self._evaluate
        numbers = pa.array(range(len(requests)), REQUEST.type)
        table = pa.Table.from_arrays([numbers, *self._arguments.columns(requests)], schema=self._schema)

        def body(snapshot: Snapshot) -> tuple[pa.Table, dict[str, int]]:
            audience.whenGone = snapshot.release

            def read(node: HeldState, keys: pa.Table) -> pa.Array:
                audience.check()
                return snapshot.read(node.state.name, keys).values

            def scan(node: HeldState) -> Iterator[pa.Table]:
                audience.check()
                return snapshot.scan(node.state.name)

            return evaluate(table, Reads(read, scan)), snapshot.asOf

        found, asOf = read_consistently(self._source, self._states, body, reads=len(self._plan.queries))
        committed = {
            self._source.group_of(state)
            for state in self._states
            if self._source.kind(state) is not StateKind.NON_TRANSACTIONAL
        }
        txids = {group: txid for group, txid in asOf.items() if group in committed}
        return [DRPCResult(part, txids) for part in _apart(found, len(requests))]


def _apart(found: pa.Table, requests: int) -> list[pa.Table]:
    """Return the rows of each request, without the request's number."""
    rows = found.select(list(range(1, found.num_columns)))
    if requests == 1:
        return [rows]
    mine: list[list[int]] = [[] for _ in range(requests)]
    for row, number in enumerate(found.column(0).to_pylist()):
        mine[number].append(row)
    return [rows.take(pa.array(indices, pa.int64())) for indices in mine]


class LocalDRPC:
    """The DRPC functions of a running topology, ``running.drpc``. Any thread may ask.

    Requests of one function that arrive while it is busy are answered together. A user function runs in a thread of its
    own, because the caller must be able to leave, and its error reaches the caller alone. All states that a request
    reads are read as of one txid for each batch group. A request holds no commit back for longer than 30 seconds, and
    for none where nobody waits for it any more.

    Source of the meaning: ``org.apache.storm.utils.DRPCClient.execute`` and ``LocalDRPC``; unlike there the answer is
    a list of typed rows, and what leaves is always the stream's leaf.

    Examples
    --------
    >>> from trident import Count, MapGet, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> from trident.testing.local import start_local
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",), ("cat",), ("dog",)]]))
    >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> _ = topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count")
    >>> with start_local(topology, name="counting") as running:
    ...     running.processAllAvailable()
    ...     running.drpc.execute("count", word="dog")
    [Row(word='dog', count=2)]
    """

    def __init__(
        self,
        requests: Iterable[RequestPlan],
        source: ReadSource,
        compile: Compile = compile_request,
        timeout: float | None = None,
    ) -> None:
        """`compile` is the engine's; a plan is compiled at its first request. `timeout`: of a request that has none."""
        self._functions = {plan.function: _Function(plan, source, compile, timeout) for plan in requests}

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """Requests that are still worked on though their time is over and nobody waits: `call`, `since`, `at`."""
        return [told for function in self._functions.values() for told in function.hanging]

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the functions that can be asked."""
        return tuple(sorted(self._functions))

    def execute(self, function: str, /, *args: Any, timeout: float | None = None, **named: Any) -> DRPCResult:
        """Ask a function, and wait for its rows.

        Parameters
        ----------
        function : its name in ``newDRPCStream``.
        args, named : its arguments, by position or by name; ``args string`` where the stream declared none.
        timeout : seconds; `messageTimeoutSecs` of the start where none are given. (An argument that is itself called
            timeout goes by position.)

        Raises
        ------
        DRPCNotFoundError
            There is no such function.
        DRPCArgumentError
            The arguments do not fit the declared ones.
        DRPCTimeoutError
            The answer did not come in time.
        UserFunctionError
            A function of the stream raised.
        StateRecoveringError, StateUnavailableError
            A state cannot be read now.
        """
        found = self._functions.get(function)
        if found is None:
            there = f"the functions are ({', '.join(self.functions)})" if self._functions else "the topology has none"
            raise DRPCNotFoundError(
                f"no DRPC function {function!r}{did_you_mean(str(function), self._functions)}; {there}"
            )
        return found.execute(args, named, timeout)

    def __repr__(self) -> str:
        return f"LocalDRPC({', '.join(self._functions[name].signature for name in self.functions)})"
