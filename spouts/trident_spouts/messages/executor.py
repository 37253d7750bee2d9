"""The executor of a RichSpout, which gathers messages into batches, and acknowledges or fails each message."""

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.durations import read_seconds
from trident_spouts.awaited_rows import waits_of
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.context import NO_CONTEXT, SpoutContext
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, SpoutExecutor
from trident_spouts.messages.collector import Collector
from trident_spouts.messages.emitted_messages import Emitted, Known, Message
from trident_spouts.messages.message_outcomes import Outcomes
from trident_spouts.messages.named_streams import DEFAULT, named_streams, streams_table
from trident_spouts.messages.rich_spout import RichSpout, check_limits
from trident_spouts.messages.seen_messages import Acks, MessageId, SeenMessages, seen_in
from trident_spouts.rows import table_of
from trident_spouts.single_reader import claim, release
from trident_spouts.source_times import SourceSpan
from trident_spouts.user_calls import call

logger = logging.getLogger("trident.spouts")

_REPEATED = (
    "%s.nextTuple emitted one tuple twice under the id %r in one call: it counts once, as a message that was "
    "delivered twice. If a message contains equal tuples, emit them as a list, and split the list with each(...)"
)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Messages that were gathered into one batch, which is not committed yet."""

    messages: tuple[MessageId, ...]
    emission: Emission


class MessageExecutor(SpoutExecutor):
    """An executor that calls ``nextTuple`` while it plans, so that an idle source makes no batch.

    Batches have separate numbers (`SeenMessages`). A batch that was planned ahead keeps its messages when an earlier
    batch is planned again, because they were delivered to this run and would not come again.
    """

    plans_ahead = True

    def __init__(self, spout: RichSpout, schema: StructType, context: SpoutContext = NO_CONTEXT) -> None:
        check_limits(spout)
        self._context = context
        self._spout, self._schema = spout, schema
        self._name = type(spout).__name__
        self._tracked = spout.tracking == "tracked"
        fields = spout.outputFields
        self._streams = named_streams(fields) if isinstance(fields, Mapping) else ()
        self._batches: dict[int, _Batch] = {}
        """The batches of this run that are not committed, by number."""
        self._numbers: dict[int, int] = {}
        """The number of the batch that was last planned for each txid."""
        self._in_flight: set[MessageId] = set()
        """The messages of the batches in `_batches`."""
        self._overflow: deque[Message] = deque()
        """Messages that the last call of ``nextTuple`` emitted beyond its batch."""
        self._late: dict[int, list[MessageId]] = {}
        """Messages that were delivered again and wait for the commit of an earlier run's batch, by batch number."""
        self._outcomes = Outcomes(spout, self._name)
        self._redelivery = read_seconds(f"{self._name}.redeliverySecs", spout.redeliverySecs)
        self._begun: int | None = None
        """The number of the last batch that was frozen before this run; None before the first plan."""
        self._since = 0.0
        """The time of the first plan."""
        self._committed = 0
        """The greatest batch number that is known to be committed."""
        self._opened = self._active = self._told_of_repeats = False
        self._waits: str | None = None
        """The reason why the last plan had no messages, if the queue may have some."""
        self._wanted = True
        """True if the run takes messages; false between `deactivate` and `activate`."""
        claim(spout, self._name)

    # --- the lifecycle of the spout -----------------------------------------------------------------------------------

    def activate(self) -> None:
        """Open the spout, if this is the first time, and activate it."""
        self._wanted = True
        self._begin()

    def _begin(self) -> None:
        if not self._opened:
            call(self._spout, "open", context=self._context)
            self._opened = True
        if not self._active:
            call(self._spout, "activate")
            self._active = True

    def deactivate(self) -> None:
        """Deactivate the spout, if it is active."""
        self._wanted = False
        if self._active:
            self._active = False
            call(self._spout, "deactivate")

    # --- batches -------------------------------------------------------------------------------------------------

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        self._waits = None
        self._outcomes.tell_again()
        seen = seen_in(previous, self._name)
        number = seen.number + 1
        if self._begun is None:
            self._begun, self._since = seen.number, time
        if self._is_void(seen):
            self._waits = "the previous batch has failed"
            return None
        if number not in self._batches:
            # `nextTuple` of an inactive spout is not called, not even for a batch that failed: its messages wait in the
            # queue. Checked before `nextTuple` is called: otherwise acknowledgements from another thread could make a
            # queue at its limit look empty.
            held = len(self._in_flight)
            batch = (self._gather(seen, budget, time) if self._wanted else None) or self._planned_ahead(number)
            if batch is None:
                self._waits = self._waits or (
                    f"{held} messages of the queue were not acknowledged yet" if held else None
                )
                return None
            self._batches[number] = batch
        self._numbers[attempt.txid] = number
        return self._position(seen, self._batches[number].messages, time)

    def _position(self, seen: SeenMessages, messages: Iterable[MessageId], time: float) -> Metadata:
        """Return the position after a batch with these messages."""
        due = self._outcomes.due.union(*self._late.values())
        acks = Acks(self._begun or 0, self._since, self._outcomes.returned, due)
        return seen.then(messages, acks, time, self._spout.remember, self._redelivery).to_json()

    def waits_for(self) -> str | None:
        if not self._wanted:
            return "the spout is inactive"
        return self._waits or waits_of(self._spout)

    def _is_void(self, seen: SeenMessages) -> bool:
        """Return whether `seen` is the position of a batch of this run that has failed since.

        A run that requests a plan from such a position does not know of the failure yet, and will not use the plan.
        Failed messages that are delivered again now would count as seen, so they would be left out, and acknowledged
        although no batch has them.
        """
        known = max(self._committed, self._begun or 0)
        return any(
            number > known and (number not in self._batches or self._batches[number].messages != ids)
            for number, ids, _ in seen.batches
        )

    def _planned_ahead(self, number: int) -> _Batch | None:
        """Return the next batch that was planned ahead.

        The previous batch has failed, and has no messages left.
        """
        later = min((planned for planned in self._batches if planned > number), default=None)
        return None if later is None else self._batches.pop(later)

    def _gather(self, seen: SeenMessages, budget: Budget, time: float) -> _Batch | None:
        """Return a batch of the messages that are available now; None if there are none.

        Messages that an earlier call emitted beyond its batch come first. Messages in `seen` are left out, and are
        acknowledged once their batch is committed.
        """
        self._begin()  # does nothing, unless `activate` has failed
        spout, batch, known = self._spout, list[Message](), Known(dict(seen), set(self._in_flight))
        rows, size = budget.rows_within(spout.maxRows), budget.bytes_within(spout.maxBytes)
        end, asked = monotonic() + budget.seconds_within(spout.maxSecs), False
        try:
            while rows > 0 and size > 0:
                if not self._overflow and not (self._may_ask(len(batch), end if asked else None) and self._ask(known)):
                    break
                asked = True
                if self._overflow:  # otherwise all messages of the call were left out
                    message = self._overflow.popleft()
                    batch.append(message)
                    known.under_way.update(_ids([message]))
                    rows, size = rows - len(message.tuples), size - message.size
            return self._made(batch, time) if batch else None
        except BaseException as error:  # the messages were delivered, but no batch has them
            lost = [*batch, *self._overflow]
            self._overflow.clear()
            self._fail(_ids(lost), f"{type(error).__name__}: {error}")
            raise

    def _may_ask(self, gathered: int, end: float | None) -> bool:
        """Return whether `maxPending` and the time (None: any) allow another message. If not, record the reason.

        The first call of a plan is always allowed, because a late thread without any call would treat the queue as
        empty.
        """
        most = self._spout.maxPending
        if most is not None and len(self._in_flight) + gathered >= most:
            self._waits = (
                f"maxPending={most}: the queue has that many messages that are neither acknowledged nor failed"
            )
        elif end is not None and monotonic() >= end:
            self._waits = "for maxSecs the queue returned only messages that are already in earlier batches"
        else:
            return True
        return False

    def _ask(self, known: Known) -> bool:
        """Call ``nextTuple`` once, and keep its messages.

        Return whether it emitted a message, including known messages.
        """
        streams = self._streams or ((DEFAULT, self._schema),)
        emitted = Emitted(self._name, _tracks(self._spout), streams, self._spout.maxOverflow, known)
        try:
            call(self._spout, "nextTuple", Collector(emitted.take))
        finally:
            self._overflow += emitted.messages
        if emitted.repeated is not None and not self._told_of_repeats:
            self._told_of_repeats = True
            logger.warning(_REPEATED, self._name, emitted.repeated)
        self._acknowledge_again(emitted.again)
        return emitted.calls > 0

    def _made(self, batch: list[Message], time: float) -> _Batch:
        """Create the batch of these messages, which were emitted at `time`.

        Raises SpoutContractError if a tuple does not have the declared fields.
        """
        tuples, where = [each for message in batch for each in message.tuples], f"{self._name}.nextTuple"
        if self._streams:
            table = streams_table(tuples, self._streams, where)
        else:
            table = table_of([values for _, values in tuples], self._schema, where)
        messages, times = _ids(batch), SourceSpan.at(time, len(tuples))
        if self._tracked:
            self._in_flight.update(messages)
            self._outcomes.begin(messages)
            return _Batch(tuple(messages), ArrowEmission(table, source_times=times))
        for message in messages:
            self._outcomes.ack(message)
        return _Batch((), ArrowEmission(table, source_times=times))

    def _acknowledge_again(self, again: Mapping[MessageId, int]) -> None:
        """Acknowledge messages that were delivered again, if their batch is committed.

        `again` has the number of the batch of each message.
        """
        for message, number in again.items():
            if number <= self._committed:
                self._outcomes.ack(message)
            else:
                self._late.setdefault(number, []).append(message)

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        return self._batches[seen_in(metadata, self._name).number].emission

    # --- acknowledgements and failures ---------------------------------------------------------------------------

    def success(self, txid: int, metadata: Metadata) -> None:
        seen = seen_in(metadata, self._name)
        number = seen.number
        self._outcomes.settle({message for batch in seen.batches for message in batch.ids})
        self._committed = max(self._committed, number)
        self._numbers = {later: planned for later, planned in self._numbers.items() if later > txid}
        for done in [planned for planned in sorted(self._batches) if planned <= number]:
            batch = self._batches.pop(done)
            for message in batch.messages:
                self._outcomes.ack(message)
            self._in_flight.difference_update(batch.messages)  # after the acknowledgements, see `plan`
        for done in [late for late in sorted(self._late) if late <= number]:
            for message in self._late.pop(done):
                self._outcomes.ack(message)

    def fail(self, attempt: TransactionAttempt) -> None:
        self.fail_with_reason(attempt, "the batch failed")

    def fail_with_reason(self, attempt: TransactionAttempt, reason: str) -> None:
        """Ask the source to deliver a failed attempt's messages again. Untracked messages stay for the next attempt."""
        number = self._numbers.pop(attempt.txid, None)
        if number is None or number not in self._batches or not self._tracked:
            return
        batch = self._batches.pop(number)
        self._in_flight.difference_update(batch.messages)
        self._fail(batch.messages, reason)

    def close(self) -> None:
        self._batches.clear()
        self._overflow.clear()
        self._in_flight.clear()
        release(self._spout)
        try:
            self.deactivate()
        finally:
            if self._opened:
                call(self._spout, "close")

    def _fail(self, messages: Iterable[MessageId], reason: str) -> None:
        """Ask the source to deliver messages again, if they are tracked."""
        for message in messages if self._tracked else ():
            self._outcomes.fail(message, reason)


def _tracks(spout: RichSpout) -> bool | None:
    """Return whether messages are tracked; None if messages have no ids."""
    return None if spout.tracking == "none" else spout.tracking == "tracked"


def _ids(messages: Iterable[Message]) -> list[MessageId]:
    """Return the ids of messages, each once, in order."""
    return list(dict.fromkeys(message.id for message in messages if message.id is not None))
