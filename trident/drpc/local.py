"""DRPC in the driver's process: a request runs through its stream and reads the states, without a Spark job."""

import html
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.answer_rows import AnswerRows
from trident.base.cached_property import cached_property
from trident.base.durations import Duration, read_limit
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
from trident.base.html_table import html_table
from trident.base.names import did_you_mean
from trident.base.short_texts import typed_brief
from trident.base.spark_types import arrow_schema, ddl
from trident.base.value_conversion import NotAccepted
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.engine import REQUEST, Answer
from trident.compiler.program import RequestPlan
from trident.compiler.states.queries import Reads
from trident.drpc.request_combining import AtWork, Combining
from trident.drpc.request_queue import Audience, Late
from trident.plan.function_sites import sites_in
from trident.plan.nodes import HeldState, StaticState, walk
from trident.plan.state_schema import present_of
from trident.reads.committed_reads import ReadSource, Snapshot, read_consistently
from trident.user_calls.daemon_threads import ended_by_user_code
from trident.user_calls.watched_calls import Subject, current_line
from trident_state.few_keys import Key
from trident_state.key_order import KeyRange
from trident_state.state_shape import StateKind

Compile = Callable[[RequestPlan], Answer]
"""A function that compiles a plan to the function that answers requests, many at once."""

_EVERYBODYS = (
    FencedError,
    MissingSessionError,
    SnapshotMovedError,
    StateLostError,
    StateRecoveringError,
    StateUnavailableError,
    Late,
)
"""Errors that would occur for all requests of a batch."""


class Arguments:
    """The declared arguments of one DRPC function.

    >>> from trident.base.spark_types import parse_schema
    >>> Arguments("lookup", parse_schema("user long, day string")).bind((1,), {"day": "2024-02-29"})
    [1, '2024-02-29']
    """

    def __init__(self, function: str, declared: StructType) -> None:
        self.function = function
        self.names: list[str] = declared.names
        self.schema = arrow_schema(declared)
        self._fields = [(field.name, field.type, field.nullable) for field in self.schema]
        self.signature = f"{function}({ddl(declared)})"

    def bind(self, args: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        """Return one value for each declared argument, in the declared order.

        Raises
        ------
        DRPCArgumentError
            There are too many or too few arguments, or one has an unknown name or not the declared type.
        """
        if len(args) > len(self.names):
            raise self._error(f"the call has {len(args)} arguments")
        values = dict(zip(self.names, args, strict=False))
        for name, value in named.items():
            if name not in self.names:
                raise self._error(f"there is no argument {name!r}{did_you_mean(name, self.names)}")
            if name in values:
                raise self._error(f"argument {name!r} is given twice")
            values[name] = value
        missing = [name for name in self.names if name not in values]
        if missing:
            raise self._error(f"argument {missing[0]!r} is missing")
        for name, kind, nullable in self._fields:
            self._check(name, kind, nullable, values[name])
        return [values[name] for name in self.names]

    def _check(self, name: str, kind: pa.DataType, nullable: bool, value: Any) -> None:
        if value is None and not nullable:
            raise self._error(f"argument {name!r} is None")
        try:
            Column.made([value], kind)
        except NotAccepted as error:
            why = f": {error.why}" if error.why else ""
            raise self._error(f"argument {name!r} is {typed_brief(error.value)}{why}") from None

    def columns(self, requests: Sequence[Sequence[Any]]) -> dict[str, Column]:
        """Return the arguments of several requests as columns by name, with one row for each request."""
        pairs = zip(self._fields, zip(*requests, strict=True), strict=True)
        return {name: Column.made(list(values), kind) for (name, kind, _), values in pairs}

    def _error(self, what: str) -> DRPCArgumentError:
        return DRPCArgumentError(f"DRPC {self.function!r}: {what}; the function is declared as {self.signature}")


class DRPCResult(AnswerRows):
    """The rows that answer a request, as a list of PySpark Rows, and the txid as of which they were read.

    Attributes
    ----------
    fields : the names of the rows' fields, known even if there is no row.
    asOfTxid : the txid of the last batch that the answer shows. A dict of one txid for each batch group, by name, if
        states of several groups were read; None if no state was read, or only non-transactional ones.
    txids : the same, always as a dict.
    """

    def __init__(self, answers: Columns, schema: pa.Schema, txids: Mapping[str, int]) -> None:
        self._answers, self._schema = answers, schema
        self._fill(answers.names, answers.lists(answers.names), answers.rows, txids)

    def toArrow(self) -> pa.Table:
        """Return the rows as an Arrow table, with the declared types."""
        return self._answers.table(self._schema)

    def _repr_html_(self) -> str:
        return f"{html_table(self.fields, self)}<i>as of txid {html.escape(str(self.asOfTxid))}</i>"


class DRPCFunction:
    """One DRPC function of a running topology: it checks the arguments of requests, batches and answers them."""

    def __init__(
        self, plan: RequestPlan, source: ReadSource, compile: Compile, timeout: float | None, atWork: AtWork
    ) -> None:
        self.name = plan.function
        self.atWork = atWork
        self._plan = plan
        self._source = source
        self._compile = compile
        self._timeout = timeout
        self._evaluate: Answer | None = None
        written = (query.updated for query in plan.queries if not isinstance(query.updated, StaticState))
        self._states = list(dict.fromkeys(node.state.name for node in written))
        kept = (state for state in self._states if source.kind(state) is not StateKind.NON_TRANSACTIONAL)
        self._groups = {source.group_of(state) for state in kept}
        """The batch groups whose txids are named in an answer."""
        self._arguments = Arguments(plan.function, plan.source.schema)
        self._answers = arrow_schema(plan.leaf.schema)
        self.signature = self._arguments.signature
        self._sites = sites_in(walk(plan.leaf))
        self.subject = Subject(f"DRPC {plan.function!r}", self._sites)
        """The words for a call of the function in messages."""
        self._combining: Combining[list[Any], DRPCResult] = Combining(self.answer, atWork=atWork, subject=self.subject)

    @property
    def arguments(self) -> pa.Schema:
        """The declared arguments, in their order."""
        return self._arguments.schema

    @property
    def answers(self) -> pa.Schema:
        """The fields of the rows that answer a request."""
        return self._answers

    def bind(self, args: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        """Return one value for each declared argument. Raises DRPCArgumentError if they do not fit."""
        return self._arguments.bind(args, named)

    def execute(self, args: Sequence[Any], named: dict[str, Any], timeout: Duration | None) -> DRPCResult:
        """Call the function, and wait for its rows; see `LocalDRPC.execute`."""
        values = self.bind(args, named)
        limit = read_limit("timeout", timeout, error=self._refused)
        limit = self._timeout if limit is None else limit
        if (answer := self.answer_promptly(values)) is not None:
            return answer
        try:
            return self._combining.ask(values, limit)
        except Late as late:
            raise self.late(limit, late.thread) from None

    def answer_promptly(self, values: list[Any]) -> DRPCResult | None:
        """Return the answer to one request in the calling thread; None if the request may have to wait.

        It does not wait if no user's code is called, all states are in memory, and no commit must be held back.
        """
        if not self._is_prompt:
            return None
        try:
            (outcome,) = self.answer([values], Audience(1), mayWait=False)
        except SnapshotMovedError:
            return None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @cached_property
    def _is_prompt(self) -> bool:
        # This holds for queries that read keys. The duration of a scan grows with the state.
        states = [query.updated.state.name for query in self._plan.queries]
        by_key = all(query.query.get and present_of(query.updated) is None for query in self._plan.queries)
        return by_key and self._plan.python and not self._sites and all(map(self._source.isPrompt, states))

    def late(self, limit: float | None, thread: int | None, busy: int = 0) -> DRPCTimeoutError:
        """Return the error of a request that was not answered within `limit` seconds.

        `thread` works on the answer. If no thread does yet, `busy` is the number of earlier calls that have not ended.
        """
        if thread is None and busy:
            what = "an earlier call has" if busy == 1 else f"{busy} earlier calls have"
            return DRPCTimeoutError(f"DRPC {self.name!r}: no answer within {limit:g} s: {what} not finished yet")
        at = current_line(thread, self._sites)
        sites = ", ".join(map(str, self._sites))
        where = f": {sites}, now at {at}" if at else ""
        return DRPCTimeoutError(f"DRPC {self.name!r}: no answer within {limit:g} s{where}")

    def _refused(self, problem: str) -> DRPCArgumentError:
        return DRPCArgumentError(f"DRPC {self._plan.function!r}: {problem}")

    def answer(
        self, requests: Sequence[list[Any]], audience: Audience, mayWait: bool = True
    ) -> list[DRPCResult | Exception]:
        """Return one result or error for each request. `requests` are arguments that `bind` returned.

        If a batch fails, each half of it is answered separately, and so on, so that the error reaches only the request
        that caused it.
        """
        try:
            return self._together(requests, audience, mayWait)
        except _EVERYBODYS:
            raise
        except BaseException as caught:
            error = caught if isinstance(caught, Exception) else self._ended(caught)
            if len(requests) == 1:
                return [error]
            half = len(requests) // 2
            return [*self.answer(requests[:half], audience), *self.answer(requests[half:], audience)]

    def _ended(self, error: BaseException) -> Exception:
        """Return the error for a function that raised something other than an Exception.

        In the main thread it may be an interrupt: raise it again.
        """
        if threading.current_thread() is threading.main_thread():
            raise error
        return ended_by_user_code(str(self.subject), error)

    def _together(
        self, requests: Sequence[list[Any]], audience: Audience, mayWait: bool
    ) -> list[DRPCResult | Exception]:
        if self._evaluate is None:
            self._evaluate = self._compile(self._plan)
        evaluate = self._evaluate
        numbers = Column(REQUEST.type, None, list(range(len(requests))))
        asked = Columns({REQUEST.name: numbers, **self._arguments.columns(requests)}, len(requests))

        def body(snapshot: Snapshot) -> tuple[Columns, dict[str, int]]:
            audience.whenGone = snapshot.release

            def read(node: HeldState, keys: pa.Table) -> pa.Array:
                audience.check()
                return snapshot.read(node.state.name, keys).values

            def read_few(node: HeldState, keys: Sequence[Key]) -> list[Any] | None:
                audience.check()
                return snapshot.read_few(node.state.name, keys)

            def scan(node: HeldState) -> Iterator[pa.Table]:
                audience.check()
                return snapshot.scan(node.state.name)

            def ranges(
                node: HeldState, entries: pa.Schema, ranges: Sequence[KeyRange], most: int | None
            ) -> list[pa.Table]:
                audience.check()
                return snapshot.ranges(node.state.name, entries, ranges, most)

            return evaluate(asked, Reads(read, scan, read_few, ranges), audience.check), snapshot.asOf

        found, asOf = read_consistently(
            self._source, self._states, body, reads=len(self._plan.queries), mayWait=mayWait
        )
        txids = {group: txid for group, txid in asOf.items() if group in self._groups}
        return [DRPCResult(part, self._answers, txids) for part in _apart(found, len(requests))]


def _apart(answers: Columns, requests: int) -> list[Columns]:
    """Return the answers to each request separately, without the numbers of the requests."""
    rows = answers.select(answers.names[1:])
    if requests == 1:
        return [rows]
    mine: list[list[int]] = [[] for _ in range(requests)]
    for row, number in enumerate(answers[REQUEST.name].values()):
        mine[number].append(row)
    return [rows.take(indices) for indices in mine]


class LocalDRPC:
    """The DRPC functions of a running topology, ``running.drpc``. Any thread may call.

    Requests to one function that arrive while it is busy are answered together. User functions run in another thread
    than the caller's, because the caller must be able to leave. An error in them reaches only the caller of the request
    that caused it. All states that a request reads are read as of one txid for each batch group. A request holds
    commits back for 30 seconds at most, and only while its caller waits.

    Source of the meaning: ``org.apache.storm.utils.DRPCClient.execute`` and ``LocalDRPC``. Unlike in Storm, the answer
    is a list of typed rows, and it is always the output of the stream's last step.

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
        """Create the functions for these plans.

        `compile`: the engine's function that compiles a plan, called at the plan's first request. `timeout`: the
        seconds for a request without a timeout.
        """
        self.atWork = AtWork()
        """The answers in progress: of these functions, and of servers that serve them."""
        self._functions = {
            plan.function: DRPCFunction(plan, source, compile, timeout, self.atWork) for plan in requests
        }

    @property
    def hanging(self) -> list[dict[str, Any]]:
        """The requests that are still worked on after their timeout, as dicts of `call`, `since` and `at`.

        Requests and reads of states that came through a server are among them.
        """
        return self.atWork.hanging

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the DRPC functions."""
        return tuple(sorted(self._functions))

    def execute(self, function: str, /, *args: Any, timeout: Duration | None = None, **named: Any) -> DRPCResult:
        """Call a function, and wait for its rows.

        Parameters
        ----------
        function : the function's name, as given to ``newDRPCStream``. args, named : the function's arguments, by
        position or by name; ``args string`` if the stream declared none. timeout : ``"5 seconds"``, seconds or a
        timedelta; if omitted, `messageTimeoutSecs` of the start. (An argument
            that is itself called timeout must be given by position.)

        Raises
        ------
        DRPCNotFoundError
            There is no such function.
        DRPCArgumentError
            The arguments do not fit the declared arguments.
        DRPCTimeoutError
            The answer did not come within `timeout`.
        UserFunctionError
            A function of the stream raised.
        StateRecoveringError, StateUnavailableError
            A state cannot be read now.
        """
        return self.function(function).execute(args, named, timeout)

    def function(self, name: str) -> DRPCFunction:
        """Return the function with this name. Raises DRPCNotFoundError if there is none."""
        found = self._functions.get(name)
        if found is None:
            there = f"the functions are ({', '.join(self.functions)})" if self._functions else "the topology has none"
            raise DRPCNotFoundError(f"no DRPC function {name!r}{did_you_mean(str(name), self._functions)}; {there}")
        return found

    def __repr__(self) -> str:
        return f"LocalDRPC({', '.join(self._functions[name].signature for name in self.functions)})"
