"""Random histories of Kafka topics, with an oracle: what a stream must have counted, and when it may refuse to go on.

A round has many topics on one broker. Each has a stream of its own, of either kind, and lives through writes,
transactions, aborts, compaction, deleted records, added partitions, a topic made anew, failed attempts and restarts of
the stream. In the middle of a round the broker is restored from a snapshot of its disk, and all topics receive other
messages.
"""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from tests.support.kafka import KafkaBroker
from trident.errors import DataLossError, SourceUnreadableError
from trident.spouts import KafkaSpout, TransactionAttempt

COMPACTED: dict[str, Any] = {"cleanup_policy": "compact", "segment_ms": 100, "min_cleanable_dirty_ratio": 0.01}


class Writers:
    """The producers of a round. `renew` makes them anew: they survive no restore, and know no new partitions."""

    def __init__(self, servers: str, name: str) -> None:
        self._config: Any = {"bootstrap.servers": servers, "linger.ms": 0, "log_level": 0}
        self._name = name
        self.renew()

    def renew(self) -> None:
        self._plain = Producer(self._config)
        self._transactional = Producer({**self._config, "transactional.id": f"histories-{self._name}"})
        self._transactional.init_transactions(30)

    def write(self, topic: str, partition: int, values: list[str], key: bytes | None) -> dict[int, str]:
        """Write values, and return them by their offsets."""
        written: dict[int, str] = {}
        self._produce(self._plain, topic, partition, values, key, written)
        assert self._plain.flush(30) == 0
        return written

    def transact(
        self, topic: str, partition: int, values: list[str], key: bytes | None, commit: bool
    ) -> dict[int, str]:
        """Write values in a transaction, and return those that are committed."""
        written: dict[int, str] = {}
        self._transactional.begin_transaction()
        self._produce(self._transactional, topic, partition, values, key, written)
        assert self._transactional.flush(30) == 0
        self._transactional.commit_transaction(30) if commit else self._transactional.abort_transaction(30)
        return written if commit else {}

    def _produce(self, producer: Any, topic: str, partition: int, values: list[str], key: Any, written: Any) -> None:
        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            written[message.offset()] = message.value().decode()

        for value in values:
            producer.produce(topic, value.encode(), key, partition=partition, on_delivery=delivered)


@dataclass
class Log:
    """What a topic holds: the committed values of each partition by offset, with their keys."""

    parts: list[dict[int, tuple[bytes | None, str]]] = field(default_factory=lambda: [{}])

    def copy(self) -> "Log":
        return Log([dict(part) for part in self.parts])

    def owed(self, compacted: bool) -> set[str]:
        """Return the values that a stream must have counted: all that compaction must keep."""
        if not compacted:
            return {value for part in self.parts for _, value in part.values()}
        last = [{key: value for key, value in (part[at] for at in sorted(part))} for part in self.parts]
        return {value for part in last for value in part.values()}


class History:
    """One topic, its stream, and what the stream has counted."""

    def __init__(self, kafka: KafkaBroker, name: str, chance: random.Random) -> None:
        self.kafka, self.name, self.chance = kafka, name, chance
        self.compacted = chance.random() < 0.2
        self.kind = chance.choice(["transactional", "opaque"])
        self.limit = chance.choice([1, 3, 7, 100])
        kafka.create(name, 1, **(COMPACTED if self.compacted else {}))
        self.log, self._snapshot, self._changed = Log(), Log(), False
        self.counted: Counter[str] = Counter()
        self.refused = ""
        self.may_refuse = ""
        """What has happened that may be a loss; "" if nothing has."""
        self.told: list[str] = []
        """The steps, for the message of a test that fails."""
        self._number = 0
        self._txid = 1
        self._position: Any = None
        self._pending: Any = None
        """A plan that was made before something happened, and is emitted after it."""
        self._executor: Any = None

    # --- what happens to the topic -----------------------------------------------------------------------------------

    def change(self, writers: Writers) -> None:
        """Let something happen to the topic."""
        act = self.chance.choice(["write"] * 4 + ["commit"] * 3 + ["abort"] * 3 + ["grow", "drop", "anew"])
        rare = act in ("anew", "drop") and self.chance.random() < 0.8
        if rare or (act == "drop" and self.compacted):
            act = "write"
        self.told.append(act)
        self._changed = True
        getattr(self, f"_{act}")(writers)

    def _values(self) -> tuple[int, list[str], bytes | None]:
        count = self.chance.randint(1, 6)
        self._number += count
        values = [f"{self.name}/{self._number - at}" for at in range(count)]
        key = self.chance.choice([b"a", b"b", b"c"]) if self.compacted else None
        return self.chance.randrange(len(self.log.parts)), values, key

    def _write(self, writers: Writers) -> None:
        partition, values, key = self._values()
        written = writers.write(self.name, partition, values, key)
        self.log.parts[partition] |= {at: (key, value) for at, value in written.items()}

    def _commit(self, writers: Writers, commit: bool = True) -> None:
        partition, values, key = self._values()
        written = writers.transact(self.name, partition, values, key, commit)
        self.log.parts[partition] |= {at: (key, value) for at, value in written.items()}

    def _abort(self, writers: Writers) -> None:
        self._commit(writers, commit=False)

    def _grow(self, writers: Writers) -> None:
        if len(self.log.parts) < 3:
            self.log.parts.append({})
            self.kafka.grow(self.name, len(self.log.parts))
            writers.renew()

    def _drop(self, writers: Writers) -> None:
        """Delete records: read ones, or some that were not read."""
        partition = self.chance.randrange(len(self.log.parts))
        part = self.log.parts[partition]
        before = self.chance.choice(sorted(part)) if part else 0
        if before:
            self.kafka.drop_before(self.name, partition, before)
            self.may_refuse += " deleted" if self._next(partition) < before else ""
            self.log.parts[partition] = {at: each for at, each in part.items() if at >= before}

    def _anew(self, writers: Writers) -> None:
        self.kafka.delete(self.name)
        self.kafka.create(self.name, 1, **(COMPACTED if self.compacted else {}))
        self.may_refuse += " recreated"
        self.log = Log()
        writers.renew()
        self._write(writers)

    def _next(self, partition: int) -> int:
        ends = self._position[self.name]["to"] if self._position and self.name in self._position else []
        return int(ends[partition]) if partition < len(ends) else 0

    def snapshot(self) -> None:
        self.told.append("SNAPSHOT")
        self._snapshot, self._changed = self.log.copy(), False

    def restored(self) -> None:
        self.told.append("RESTORED")
        self.may_refuse += " restored" if self._changed else ""
        self.log = self._snapshot.copy()

    # --- what the stream does ----------------------------------------------------------------------------------------

    def read(self, most: int) -> None:
        """Read some batches, with failures and restarts. A refusal ends the history."""
        try:
            for _ in range(most):
                if self.refused or not self._batch():
                    return
        except DataLossError as error:
            self.told.append("refused")
            self.refused = str(error)

    def _batch(self) -> bool:
        plan = self._planned()
        if plan is None:
            return False
        if self.chance.random() < 0.15:  # the next batch is planned ahead, and perhaps read before this one
            ahead = self._plan(plan, 1)
            if ahead is not None and self.chance.random() < 0.5:
                self._open.emit(TransactionAttempt(self._txid + 1, 0, 1), ahead).arrow()
        attempt = 0
        while self.chance.random() < 0.2:  # an attempt fails, before or after it was read
            attempt += 1
            emission = self._open.emit(TransactionAttempt(self._txid, attempt - 1, 1), plan)
            if self.chance.random() < 0.7:
                self._arrow(emission)
            if self.kind == "opaque":
                plan = self._plan(self._position)
                if plan is None:
                    return True
        emission = self._open.emit(TransactionAttempt(self._txid, attempt, 1), plan)
        table = self._arrow(emission)
        if table is None:
            return True  # the attempt failed; the batch is planned again
        self.told.append(f"batch {self._txid}")
        self._position = json.loads(json.dumps(emission.after))
        self._txid += 1
        self.counted.update(value.decode() for value in table.column("value").to_pylist())
        if self.chance.random() < 0.15:
            self.restart()
        return True

    def _arrow(self, emission: Any) -> Any:
        try:
            return emission.arrow()
        except SourceUnreadableError:
            return None

    def hold_a_plan(self) -> None:
        """Plan a batch, and leave it for later."""
        try:
            self._pending = None if self.refused else self._plan(self._position)
        except DataLossError as error:
            self.refused = str(error)

    def _planned(self) -> Any:
        plan, self._pending = self._pending, None
        return self._plan(self._position) if plan is None else plan

    def _plan(self, position: Any, ahead: int = 0) -> Any:
        return self._open.plan(TransactionAttempt(self._txid + ahead, 0, 1), position, 0.0)

    @property
    def _open(self) -> Any:
        if self._executor is None:
            kind: Any = self.kind
            self._executor = KafkaSpout(self.kafka.servers, self.name, kind=kind, maxOffsetsPerBatch=self.limit).open()
        return self._executor

    def restart(self) -> None:
        self.told.append("restart")
        self._pending = None
        if self._executor is not None:
            self._executor.close()
            self._executor = None

    # --- the oracle --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Fail if a value counted twice, or one that is there did not count, or the stream refused without reason."""
        story = f"{self.name} ({self.kind}, compacted: {self.compacted}, {self.limit}): {', '.join(self.told)}"
        doubled = [value for value, times in self.counted.items() if times > 1]
        assert not doubled, f"counted twice: {doubled}; {story}"
        if self.refused:
            assert self.may_refuse, f"refused without reason: {self.refused}; {story}"
            return
        lost = self.log.owed(self.compacted) - self.counted.keys()
        assert not lost, f"lost in silence: {sorted(lost)}; {story}"


def play(kafka: KafkaBroker, chance: random.Random, name: str, topics: int, restore: bool = True) -> list[History]:
    """Play a round of histories, and return them when their streams are at their ends.

    `restore`: whether the broker is put back to a snapshot in the middle, which takes it many seconds.
    """
    writers = Writers(kafka.servers, name)
    histories = [History(kafka, f"{name}-{number}", random.Random(chance.random())) for number in range(topics)]
    _live(histories, writers)
    if restore:
        _restore(kafka, histories, writers)
    _live(histories, writers, often=not restore)
    for each in histories:
        each.read(1000)
        each.restart()
        each.read(1000)
        each.restart()
        kafka.admin.delete_topics([each.name])[each.name].result(30)
    return histories


def _restore(kafka: KafkaBroker, histories: list[History], writers: Writers) -> None:
    """Take a snapshot, let some topics live on, and put the broker back, beside plans that are not read yet."""
    for each in histories:
        each.snapshot()
    kafka.back_up(kafka.folder / "copy")
    for each in histories:
        each.read(each.chance.choice([0, 1, 1000]))
    _live([each for each in histories if each.chance.random() < 0.5], writers)
    for each in histories:
        if each.chance.random() < 0.5:
            each.hold_a_plan()
    kafka.restore(kafka.folder / "copy")
    for each in histories:
        each.restored()
        if each.chance.random() < 0.5:
            each.restart()
    writers.renew()


def _live(histories: list[History], writers: Writers, often: bool = True) -> None:
    for each in histories:
        for _ in range(each.chance.randint(1, 5)):
            if not each.refused:
                each.change(writers)
            if each.chance.random() < (0.6 if often else 0.3):
                each.read(each.chance.randint(1, 10))
