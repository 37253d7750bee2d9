"""The spout that puts dead letters back into their stream. A batch's plan holds the letters, each with its tuple.

The log has the plan before any tuple is emitted. So the letters stay the same if an attempt fails or the driver dies,
and the next attempt need not read the state that keeps dead letters. The same batch removes the letters from that
state.
"""

import json
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import StateCorruptError, StateError, TopologyError
from trident.base.spark_types import arrow_schema, ddl
from trident.operations.dead_letters import LETTER
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_state.records.documents import Documents

_MARK = "letter."
"""The prefix of a letter's fields (id, step, error ...), which are emitted with the fields of the letter's tuple."""

Letter = tuple[str, str]
"""A dead letter's id, and its tuple as JSON."""

Look = Callable[[], tuple[int, list[Letter]]]
"""A function that reads the letters to put back. It returns the last txid that the read certainly includes, and the
letters."""


class _Request(NamedTuple):
    """A request to put back the letters that `look` returns. `ids` are those that it returned at the request."""

    number: int
    ids: frozenset[str]
    look: Look


class ReplaySpout:
    """A spout that emits the tuples of dead letters again, with the given fields.

    The tuples enter the stream `stream` directly before its step `step`. `Stream.replayable` makes such a spout for
    each step after it that makes dead letters.
    """

    def __init__(self, fields: StructType, stream: str, step: str) -> None:
        self.fields, self.stream, self.step = fields, stream, step
        self.forkable = True
        marked = [StructField(f"{_MARK}{field.name}", field.dataType, True) for field in LETTER.fields]
        self.schema = StructType([*marked, *fields.fields])
        self._run = ""
        self._first: int | None = None
        """The first txid that this run planned.

        All letters that earlier runs put back are in batches before this txid. The txid in the stream's position cannot
        be used for this: it may be from an earlier run, in which the stream was in another batch group with other
        txids.
        """
        self.waits_for: str | None = None
        """The reason why the last plan had no letters; None if no letters were requested."""
        self._lock = threading.Lock()
        self._asked: list[_Request] = []
        self._numbers = 0

    @property
    def kind(self) -> SpoutKind:
        """Transactional, because a plan contains the letters themselves, so a txid always has the same tuples."""
        return SpoutKind.TRANSACTIONAL

    @property
    def letter_names(self) -> tuple[str, ...]:
        """The names of the letters' fields, with their prefix."""
        return tuple(self.schema.names[: len(LETTER.fields)])

    def open(self) -> SpoutExecutor:
        """Return an executor for one run, and drop requests that an earlier run did not plan."""
        with self._lock:
            self._run, self._first, self._asked = uuid.uuid4().hex, None, []
        return _Replaying(self)

    def ask(self, look: Look) -> int:
        """Request that a later batch replays the letters that `look` returns at that time.

        Return the number of letters that `look` returns now.

        Raises
        ------
        TopologyError
            If the tuple of a letter lacks a field of this spout, or has values of other types.
        """
        _, letters = look()
        for letter in letters:
            self.table([letter])
        if letters:
            with self._lock:
                self._numbers += 1
                self._asked.append(_Request(self._numbers, frozenset(id for id, _ in letters), look))
        return len(letters)

    @property
    def asked(self) -> frozenset[str]:
        """The ids of the letters in requests that are not committed yet."""
        with self._lock:
            return frozenset(id for request in self._asked for id in request.ids)

    def table(self, letters: Sequence[Letter]) -> pa.Table:
        """Return the tuples to emit for these letters. Raises TopologyError if a tuple does not fit the fields."""
        fields = arrow_schema(self.fields)
        kind = pa.struct([field.with_nullable(True) for field in fields])
        for id, text in letters:
            missing = [name for name in fields.names if name not in json.loads(text)]
            if missing:
                raise TopologyError(
                    f"dead letter {id} cannot be replayed into {self.step}: its tuple has no field "
                    f"{missing[0]!r}, but the stream there has ({ddl(self.fields)}); restore the fields of the "
                    f"program that made the letter, or exclude such letters with where="
                )
        try:
            texts = pa.array([text.encode() for _, text in letters], pa.binary())
            values = Documents(kind, bare=True).unpack(texts).values
        except StateCorruptError:
            raise TopologyError(
                f"dead letter {letters[0][0]} cannot be replayed into {self.step}: its tuple does not fit the fields "
                f"there ({ddl(self.fields)})"
            ) from None
        columns = values.flatten() if letters else [pa.array([], field.type) for field in fields]
        letter = [pa.nulls(len(letters), field.type) for field in arrow_schema(LETTER)]
        letter[LETTER.names.index("id")] = pa.array([id for id, _ in letters], pa.string())
        schema = pa.schema([field.with_nullable(True) for field in arrow_schema(self.schema)])
        return pa.Table.from_arrays([*letter, *columns], schema=schema)

    def plan(self, txid: int, previous: Metadata) -> Metadata:
        """Return a plan with the letters of the oldest request that is not planned yet.

        None if there is no such request.

        `previous` names the last request that was planned. While the state cannot be read as of a late enough txid, the
        result is None too, and the next batch tries again.
        """
        known: dict[str, Any] = previous if isinstance(previous, dict) else {}
        own = known.get("run") == self._run
        done = known.get("number", 0) if own else 0
        with self._lock:
            self._first = txid if self._first is None else self._first
            last = known["txid"] if own else self._first - 1
            waiting = [request for request in self._asked if request.number > done]
        self.waits_for = None
        for request in waiting:
            try:
                as_of, letters = request.look()
            except StateError as error:  # the state cannot be read or is being healed: the next batch tries again
                self.waits_for = f"the dead letters cannot be read: {error}"
                return None
            if known and as_of < last:  # the read may still contain the letters that the last replay removes
                self.waits_for = f"the letters are read as of batch {as_of}, but batch {last} removes some"
                return None
            if letters:
                return {
                    "run": self._run,
                    "number": request.number,
                    "txid": txid,
                    "letters": [list(letter) for letter in letters],
                }
        return None

    def succeeded(self, metadata: Metadata) -> None:
        """Forget the requests up to the request in `metadata`. The batch that replayed its letters is committed."""
        if isinstance(metadata, dict) and metadata.get("run") == self._run:
            with self._lock:
                self._asked = [request for request in self._asked if request.number > int(metadata["number"])]

    def __repr__(self) -> str:
        return f"ReplaySpout({ddl(self.fields)!r})"


class _Replaying(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: ReplaySpout) -> None:
        self._spout = spout

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        return self._spout.plan(attempt.txid, previous)

    def waits_for(self) -> str | None:
        return self._spout.waits_for

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        assert isinstance(metadata, dict)
        return ArrowEmission(self._spout.table([(id, text) for id, text in metadata["letters"]]))

    def success(self, txid: int, metadata: Metadata) -> None:
        self._spout.succeeded(metadata)
