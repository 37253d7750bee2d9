"""The contracts that users implement, behind the executors that the engine calls.

Trident's own traps must not be here: a partition that reports no metadata, a changing list of partitions, a success
that is repeated, a batch that is planned without the one before it.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.support.plans import logged, planned
from trident.errors import FailedException, SpoutContractError, TopologyError, TypeDeclarationError, UserFunctionError
from trident.spouts import (
    ArrowEmission,
    BatchCoordinator,
    BatchSpout,
    Emitter,
    FixedBatchSpout,
    OpaquePartitionedSpout,
    PartitionedSpout,
    SpoutKind,
    TransactionAttempt,
    TridentSpout,
)
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.executor import Metadata, SpoutExecutor


def rows(executor: SpoutExecutor, metadata: Metadata, txid: int = 1, attempt: int = 0) -> list[Any]:
    return list(executor.emit(TransactionAttempt(txid, attempt), metadata).arrow().column(0).to_pylist())


# --- BatchSpout ---------------------------------------------------------------------------------------------------


class Numbers(BatchSpout):
    outputFields = "n long"

    def __init__(self, batches: dict[int, Any]) -> None:
        self.batches = batches
        self.calls: list[str] = []

    def open(self) -> None:
        self.calls.append("open")

    def emitBatch(self, batchId: int) -> Any:
        self.calls.append(f"emit {batchId}")
        return self.batches.get(batchId)

    def ack(self, batchId: int) -> None:
        self.calls.append(f"ack {batchId}")

    def close(self) -> None:
        self.calls.append("close")


def test_an_ack_of_a_batch_that_raises_is_made_again_with_the_next_batch() -> None:
    class Deaf(Numbers):
        tries = 0

        def ack(self, batchId: int) -> None:
            self.tries += 1
            if self.tries == 1:
                raise OSError("cut")
            super().ack(batchId)

    spout = Deaf({1: [1], 2: [2]})
    executor = as_spout(spout).open()
    first = executor.plan(TransactionAttempt(1, 0), None, 0.0)
    second = executor.plan(TransactionAttempt(2, 0), first, 0.0)
    with pytest.raises(UserFunctionError, match="cut"):
        executor.success(1, first)
    executor.success(2, second)
    assert [call for call in spout.calls if "ack" in call] == ["ack 1", "ack 2"]


def test_a_batch_spout_is_asked_once_a_batch_and_acked_in_order() -> None:
    spout = Numbers({1: [1], 2: [2, 3]})
    executor = as_spout(spout).open()
    assert planned(None, executor=executor) == [1, 2]
    assert rows(executor, 1) == [1]
    executor.fail(TransactionAttempt(1, 0))
    assert rows(executor, 1, attempt=1) == [1]
    executor.success(2, 2)
    executor.close()
    assert spout.calls == ["open", "emit 1", "emit 2", "emit 3", "ack 1", "ack 2", "close"]


def test_a_batch_spout_without_rows_makes_no_batch() -> None:
    assert planned(Numbers({1: []})) == []
    assert planned(Numbers({1: pa.table({"n": pa.array([], pa.int64())})})) == []


def test_a_batch_spout_is_asked_again_after_a_restart() -> None:
    spout = Numbers({7: [7]})
    for _ in range(2):
        executor = as_spout(spout).open()
        assert executor.plan(TransactionAttempt(7, 0), 6, 0.0) == 7
        assert rows(executor, 7, txid=7) == [7]
        executor.close()


def test_batches_of_a_batch_spout_have_numbers_of_their_own_whatever_the_txid() -> None:
    """Txids count other streams' batches too, and another batch group has lower or higher ones."""
    spout = Numbers({n: [n] for n in (1, 2, 3)})
    executor, position = as_spout(spout).open(), None
    for txid in (40, 41, 7):
        position = executor.plan(TransactionAttempt(txid, 0), position, 0.0)
        assert rows(executor, position, txid=txid) == [position]
        executor.success(txid, position)
    assert executor.plan(TransactionAttempt(8, 0), position, 0.0) is None
    assert executor.plan(TransactionAttempt(9, 0), position, 0.0) is None
    assert spout.calls[1:] == ["emit 1", "ack 1", "emit 2", "ack 2", "emit 3", "ack 3", "emit 4", "emit 4"]


def test_a_batch_spout_says_itself_what_it_promises() -> None:
    class Stable(Numbers):
        kind = SpoutKind.TRANSACTIONAL

    assert as_spout(Numbers({})).kind is SpoutKind.NON_TRANSACTIONAL
    assert as_spout(Stable({})).kind is SpoutKind.TRANSACTIONAL


def test_a_spout_may_emit_by_reference() -> None:
    emission = ArrowEmission(pa.table({"n": [5]}))
    executor = as_spout(Numbers({1: emission})).open()
    assert executor.plan(TransactionAttempt(1, 0), None, 0.0) == 1
    assert executor.emit(TransactionAttempt(1, 0), 1) == emission


def test_a_spout_that_raises_is_named_with_its_line() -> None:
    class Broken(Numbers):
        def emitBatch(self, batchId: int) -> Any:
            raise KeyError("gone")

    executor = as_spout(Broken({})).open()
    with pytest.raises(UserFunctionError) as caught:
        executor.plan(TransactionAttempt(4, 0), 3, 0.0)
    assert "spout Broken: " in str(caught.value)
    assert "emitBatch (test_adapters.py:" in str(caught.value)
    assert "raised KeyError: 'gone'; it was called with (4)" in str(caught.value)


def test_a_spout_may_fail_the_attempt_as_in_storm() -> None:
    class Reluctant(Numbers):
        def emitBatch(self, batchId: int) -> Any:
            raise FailedException("not yet")

    with pytest.raises(FailedException, match="not yet"):
        as_spout(Reluctant({})).open().plan(TransactionAttempt(1, 0), None, 0.0)


def test_wrong_values_name_the_spout_and_the_batch() -> None:
    with pytest.raises(
        SpoutContractError, match=r"Numbers, batch 1, row 0, field 'n': expected bigint, got 'x' \(str\)"
    ):
        planned(Numbers({1: ["x"]}))


# --- TridentSpout -------------------------------------------------------------------------------------------------


class Counter(TridentSpout):
    outputFields = "n long"
    kind = SpoutKind.TRANSACTIONAL

    def __init__(self, ready: bool = True, size: int = 2) -> None:
        self.ready, self.size = ready, size
        self.calls: list[Any] = []

    def getCoordinator(self) -> BatchCoordinator:
        spout = self

        class Coordinator(BatchCoordinator):
            def initializeTransaction(self, txid: int, prevMetadata: Metadata, currMetadata: Metadata) -> Metadata:
                spout.calls.append((txid, prevMetadata, currMetadata))
                return (prevMetadata or 0) + spout.size  # type: ignore[operator]

            def isReady(self, txid: int) -> bool:
                return spout.ready

            def success(self, txid: int) -> None:
                spout.calls.append(f"coordinator {txid}")

        return Coordinator()

    def getEmitter(self) -> Emitter:
        spout = self

        class TheEmitter(Emitter):
            def emitBatch(self, attempt: TransactionAttempt, metadata: Metadata) -> Any:
                assert isinstance(metadata, int)
                return range(metadata - spout.size, metadata)

            def success(self, attempt: TransactionAttempt) -> None:
                spout.calls.append(f"emitter {attempt}")

        return TheEmitter()


def test_a_trident_spout_names_its_batches_from_the_one_before() -> None:
    spout = Counter()
    executor = as_spout(spout).open()
    plans = planned(None, limit=3, executor=executor)
    assert plans == [{"metadata": 2}, {"metadata": 4}, {"metadata": 6}]
    assert rows(executor, plans[1], txid=2, attempt=1) == [2, 3]
    executor.plan(TransactionAttempt(2, 0), plans[0], 0.0)
    assert spout.calls == [(1, None, None), (2, 2, None), (3, 4, None), (2, 2, 4)]
    executor.success(2, plans[1])
    assert spout.calls[-2:] == ["emitter 2:1", "coordinator 2"]


def test_a_trident_spout_that_is_not_ready_makes_no_batch() -> None:
    assert planned(Counter(ready=False)) == []


def test_no_metadata_is_metadata_too() -> None:
    class Nameless(Counter):
        def getCoordinator(self) -> BatchCoordinator:
            class Coordinator(BatchCoordinator):
                def initializeTransaction(self, *arguments: Any) -> Metadata:
                    return None

            return Coordinator()

        def getEmitter(self) -> Emitter:
            class Nothing(Emitter):
                def emitBatch(self, attempt: TransactionAttempt, metadata: Metadata) -> Any:
                    return None

            return Nothing()

    executor = as_spout(Nameless()).open()
    assert rows(executor, executor.plan(TransactionAttempt(1, 0), None, 0.0)) == []


def test_metadata_that_the_log_cannot_keep_is_refused() -> None:
    class Odd(Counter):
        size: Any

    with pytest.raises(
        SpoutContractError, match=r"Odd: the metadata of txid 1: expected JSON, which the log can keep, got nan"
    ):
        planned(Odd(size=float("nan")))  # type: ignore[arg-type]


# --- PartitionedSpout ---------------------------------------------------------------------------------------------


class Logs(PartitionedSpout):
    """Append-only lists, `limit` rows at a time; metadata is [start, end)."""

    outputFields = "word string"

    def __init__(self, logs: dict[str, list[str]], limit: int = 2) -> None:
        self.logs, self.limit = logs, limit
        self.listed: Sequence[str] | None = None
        self.silent = False

    def getPartitions(self) -> Sequence[str]:
        return list(self.logs) if self.listed is None else self.listed

    def emitPartitionBatchNew(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Any, Metadata]:
        start = lastMetadata["end"] if isinstance(lastMetadata, dict) else 0
        taken = self.logs[partition][start : start + self.limit]
        if not taken:
            return None, None  # Trident's trap (a): no metadata where there is nothing new
        return taken, {"start": start, "end": start + len(taken)}

    def emitPartitionBatch(self, attempt: TransactionAttempt, partition: str, metadata: Metadata) -> Any:
        assert isinstance(metadata, dict)
        return self.logs[partition][metadata["start"] : metadata["end"]]


def drain(spout: Any, batches: int = 100) -> tuple[list[Any], list[Any]]:
    executor = as_spout(spout).open()
    plans = planned(None, limit=batches, executor=executor)
    return plans, [rows(executor, plan, txid=at + 1) for at, plan in enumerate(plans)]


def test_partitions_are_read_side_by_side_until_nothing_is_left() -> None:
    _, found = drain(Logs({"p": ["a", "b", "c"], "q": ["x"]}))
    assert found == [["a", "b", "x"], ["c"]]


def test_a_replay_in_another_process_emits_the_same_by_the_metadata() -> None:
    spout = Logs({"p": ["a", "b", "c"], "q": ["x"]})
    plans, found = drain(spout)
    spout.logs["p"].append("d")
    spout.logs["new"] = ["z"]
    again = as_spout(spout).open()
    assert [rows(again, plan, txid=at + 1, attempt=1) for at, plan in enumerate(plans)] == found


def test_a_failed_attempt_is_read_again_by_the_metadata() -> None:
    spout = Logs({"p": ["a", "b", "c"]})
    executor = as_spout(spout).open()
    plan = executor.plan(TransactionAttempt(1, 0), None, 0.0)
    assert rows(executor, plan) == ["a", "b"]
    executor.fail(TransactionAttempt(1, 0))
    assert rows(executor, plan, attempt=1) == ["a", "b"]


def test_trap_a_a_partition_without_metadata_keeps_its_position() -> None:
    spout = Logs({"p": ["a", "b"], "q": ["x"]})
    executor = as_spout(spout).open()
    previous: Metadata = None
    found = []
    for txid, more in enumerate([{}, {"q": ["y"]}, {"q": ["z"]}, {"p": ["c"]}], start=1):
        for name, added in more.items():
            spout.logs[name].extend(added)
        previous = logged(executor.plan(TransactionAttempt(txid, 0), previous, 0.0))
        found.append(rows(executor, previous, txid=txid))
        executor.success(txid, previous)
    assert found == [["a", "b", "x"], ["y"], ["z"], ["c"]]


def test_trap_b_partitions_come_go_and_return_where_they_were() -> None:
    spout = Logs({"p": ["a", "b", "c"], "q": ["x"]}, limit=1)
    executor = as_spout(spout).open()
    previous: Metadata = None
    found = []
    for txid, listed in enumerate([["p"], ["q"], ["q", "p"], ["p"]], start=1):
        spout.listed = listed
        previous = logged(executor.plan(TransactionAttempt(txid, 0), previous, 0.0))
        found.append(rows(executor, previous, txid=txid))
        executor.success(txid, previous)
    assert found == [["a"], ["x"], ["b"], ["c"]]


def test_trap_b_the_list_may_change_while_batches_are_under_way() -> None:
    spout = Logs({"p": ["a"], "q": ["x", "y", "z"]})
    executor = as_spout(spout).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, 0.0))
    spout.listed = ["q"]
    second = logged(executor.plan(TransactionAttempt(2, 0), first, 0.0))
    executor.fail(TransactionAttempt(1, 0))
    assert rows(executor, first, attempt=1) == ["a", "x", "y"]
    assert rows(executor, second, txid=2) == ["z"]
    executor.success(1, first)
    executor.success(2, second)


def test_trap_c_success_may_be_repeated_and_the_batch_run_again() -> None:
    spout = Logs({"p": ["a", "b", "c"]})
    executor = as_spout(spout).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, 0.0))
    executor.success(1, first)
    executor.success(1, first)
    assert rows(executor, first) == ["a", "b"]
    assert rows(executor, executor.plan(TransactionAttempt(2, 0), first, 0.0), txid=2) == ["c"]


def test_trap_d_a_batch_follows_from_the_one_before_and_nothing_else() -> None:
    spout = Logs({"p": ["a", "b", "c", "d", "e"]})
    executor = as_spout(spout).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, 0.0))
    second = logged(executor.plan(TransactionAttempt(2, 0), first, 0.0))
    executor.plan(TransactionAttempt(3, 0), second, 0.0)
    assert logged(executor.plan(TransactionAttempt(2, 0), first, 0.0)) == second
    assert rows(executor, second, txid=2) == ["c", "d"]


def test_what_is_emitted_is_what_the_log_names_and_not_what_was_read_last() -> None:
    spout = Logs({"p": ["a", "b", "c"]})
    in_log = as_spout(spout).open().plan(TransactionAttempt(1, 0), None, 0.0)
    executor = as_spout(spout).open()
    spout.limit = 3
    assert executor.plan(TransactionAttempt(1, 0), None, 0.0) != in_log
    assert rows(executor, in_log) == ["a", "b"]


class Rude(Logs):
    def __init__(self, result: Any, partitions: Any = ("p",)) -> None:
        super().__init__({})
        self.result, self.listed = result, partitions

    def emitPartitionBatchNew(self, *arguments: Any) -> Any:
        return self.result


@pytest.mark.parametrize(
    ("spout", "said"),
    [
        (Rude(["a"]), "Rude, partition 'p' returned ['a'] (list); expected a pair (rows, metadata)"),
        (
            Rude((["a"], None)),
            "Rude, partition 'p' returned rows without metadata, so every later batch would read the same rows again; "
            "return the metadata from which the next batch continues",
        ),
        (
            Rude((["a"], {1: 2})),
            "Rude, partition 'p', metadata: expected JSON, which the log can keep, got the key 1 (int); "
            "JSON has keys of type str only",
        ),
        (Rude((["a"], 1), [0]), "Rude.getPartitions() returned 0: expected names of type str"),
        (Rude((["a"], 1), ["p", "p"]), "Rude.getPartitions() returned 'p' twice"),
    ],
)
def test_what_a_partitioned_spout_gives_is_checked(spout: Any, said: str) -> None:
    with pytest.raises(SpoutContractError) as caught:
        planned(spout)
    assert str(caught.value) == said


def test_metadata_of_another_spout_is_refused() -> None:
    with pytest.raises(SpoutContractError, match="Logs: this spout cannot replay the batch 7"):
        as_spout(Logs({})).open().plan(TransactionAttempt(2, 0), 7, 0.0)


def test_new_rows_are_read_by_the_very_attempt_that_is_planned() -> None:
    seen: list[TransactionAttempt] = []

    class Telling(Logs):
        def emitPartitionBatchNew(self, attempt: TransactionAttempt, *arguments: Any) -> Any:
            seen.append(attempt)
            return super().emitPartitionBatchNew(attempt, *arguments)

    as_spout(Telling({"p": ["a"]})).open().plan(TransactionAttempt(3, 2, epoch=4), None, 0.0)
    assert seen == [TransactionAttempt(3, 2, epoch=4)]


# --- OpaquePartitionedSpout ---------------------------------------------------------------------------------------


class Feed(OpaquePartitionedSpout):
    """Append-only lists; `limits` says how many rows the next reads take."""

    outputFields = "word string"

    def __init__(self, logs: dict[str, list[str]], limits: Sequence[int] = ()) -> None:
        self.logs, self.limits = logs, list(limits)
        self.listed: Sequence[str] | None = None
        self.attempts: list[str] = []

    def getPartitions(self) -> Sequence[str]:
        return list(self.logs) if self.listed is None else self.listed

    def emitPartitionBatch(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Any, Metadata]:
        self.attempts.append(str(attempt))
        start = int(lastMetadata or 0)  # type: ignore[arg-type]
        taken = self.logs[partition][start : start + (self.limits.pop(0) if self.limits else 2)]
        return (taken, start + len(taken)) if taken else (None, None)


def test_positions_are_known_after_emission() -> None:
    executor = as_spout(Feed({"p": ["a", "b", "c"]})).open()
    assert not executor.plans_ahead
    plan = executor.plan(TransactionAttempt(1, 0), None, 0.0)
    emission = executor.emit(TransactionAttempt(1, 0), plan)
    assert plan == {"positions": {}}
    assert emission.after == {"positions": {"p": 2}}
    second = executor.plan(TransactionAttempt(2, 0), emission.after, 0.0)
    assert rows(executor, second, txid=2) == ["c"]
    assert executor.plan(TransactionAttempt(3, 0), executor.emit(TransactionAttempt(2, 0), second).after, 0.0) is None


def test_a_replay_may_hold_other_tuples_and_none_is_lost() -> None:
    spout = Feed({"p": ["a", "b", "c", "d"]}, limits=[3, 1])
    executor = as_spout(spout).open()
    plan = executor.plan(TransactionAttempt(1, 0), None, 0.0)
    assert rows(executor, plan) == ["a", "b", "c"]
    executor.fail(TransactionAttempt(1, 0))
    replay = executor.emit(TransactionAttempt(1, 1), plan)
    assert replay.arrow().column(0).to_pylist() == ["a"]
    assert rows(executor, executor.plan(TransactionAttempt(2, 0), replay.after, 0.0), txid=2) == ["b", "c"]
    assert spout.attempts == ["1:0", "1:1", "2:0"]


def test_a_batch_planned_anew_reads_as_the_next_attempt() -> None:
    spout = Feed({"p": ["a", "b", "c"]}, limits=[3, 1])
    executor = as_spout(spout).open()
    executor.plan(TransactionAttempt(1, 0), None, 0.0)
    executor.fail(TransactionAttempt(1, 0, epoch=4))
    plan = executor.plan(TransactionAttempt(1, 1, epoch=4), None, 0.0)
    assert rows(executor, plan, attempt=1) == ["a"]
    assert spout.attempts == ["1:0", "1:1"]


def test_an_opaque_batch_begins_where_the_log_says_and_not_where_it_was_read_last() -> None:
    executor = as_spout(Feed({"p": ["a", "b", "c"]})).open()
    executor.plan(TransactionAttempt(2, 0), None, 0.0)
    assert rows(executor, {"positions": {"p": 1}}, txid=2) == ["b", "c"]


def test_trap_a_opaque_a_partition_that_emits_nothing_keeps_its_position() -> None:
    spout = Feed({"p": ["a"], "q": ["x", "y", "z"]})
    executor = as_spout(spout).open()
    first = executor.emit(TransactionAttempt(1, 0), executor.plan(TransactionAttempt(1, 0), None, 0.0))
    second = executor.emit(TransactionAttempt(2, 0), executor.plan(TransactionAttempt(2, 0), first.after, 0.0))
    assert second.arrow().column(0).to_pylist() == ["z"]
    spout.logs["p"].append("b")
    third = executor.emit(TransactionAttempt(3, 0), executor.plan(TransactionAttempt(3, 0), second.after, 0.0))
    assert third.arrow().column(0).to_pylist() == ["b"]


def test_trap_b_opaque_partitions_come_go_and_return_where_they_were() -> None:
    spout = Feed({"p": ["a", "b"], "q": ["x"]}, limits=[1] * 9)
    executor = as_spout(spout).open()
    position: Metadata = None
    found = []
    for txid, listed in enumerate([["p"], ["q"], ["p"]], start=1):
        spout.listed = listed
        emission = executor.emit(TransactionAttempt(txid, 0), executor.plan(TransactionAttempt(txid, 0), position, 0.0))
        found.append(emission.arrow().column(0).to_pylist())
        position = logged(emission.after)
        executor.success(txid, None)
    assert found == [["a"], ["x"], ["b"]]


def test_trap_c_opaque_positions_survive_a_repeated_success_and_a_new_process() -> None:
    spout = Feed({"p": ["a", "b", "c"]})
    executor = as_spout(spout).open()
    plan = logged(executor.plan(TransactionAttempt(1, 0), None, 0.0))
    after = logged(executor.emit(TransactionAttempt(1, 0), plan).after)
    executor.success(1, plan)
    again = as_spout(spout).open()
    again.success(1, plan)
    assert rows(again, plan, attempt=1) == ["a", "b"]
    assert rows(again, again.plan(TransactionAttempt(2, 0), after, 0.0), txid=2) == ["c"]


def test_rows_without_a_new_position_are_refused() -> None:
    class Stuck(Feed):
        def emitPartitionBatch(self, *arguments: Any) -> Any:
            return ["a"], None

    with pytest.raises(
        SpoutContractError, match="returned rows without metadata, so every later batch would read the same rows again"
    ):
        as_spout(Stuck({"p": []})).open().plan(TransactionAttempt(1, 0), None, 0.0)


def test_a_spout_that_says_it_is_not_ready_is_not_read() -> None:
    class Later(Feed):
        def isReady(self, txid: int) -> bool:
            return False

    spout = Later({"p": ["a"]})
    assert as_spout(spout).open().plan(TransactionAttempt(1, 0), None, 0.0) is None
    assert spout.attempts == []


# --- which contract -----------------------------------------------------------------------------------------------


def test_the_methods_tell_the_contract_without_a_base_class() -> None:
    class Duck:
        outputFields = "n long"

        def open(self) -> None: ...

        def emitBatch(self, batchId: int) -> list[int]:
            return [batchId]

    executor = as_spout(Duck()).open()
    executor.plan(TransactionAttempt(3, 0), 2, 0.0)
    assert rows(executor, 3, txid=3) == [3]


def test_kinds_and_fields_follow_from_the_contract() -> None:
    assert as_spout(Logs({})).kind is SpoutKind.TRANSACTIONAL
    assert as_spout(Feed({})).kind is SpoutKind.OPAQUE
    assert as_spout(Feed({})).schema.names == ["word"]
    assert repr(as_spout(Feed({}))) == "Feed()"
    fixed = FixedBatchSpout("n long", [])
    assert as_spout(fixed) is fixed


def test_what_is_no_spout_is_refused_with_the_ways_to_one() -> None:
    with pytest.raises(TopologyError, match="class.* is not a spout; give an instance: Numbers"):
        as_spout(Numbers)
    with pytest.raises(TopologyError, match=r"\[1, 2\] is not a spout; give one such as FileSpout"):
        as_spout([1, 2])

    class Silent:
        def emitBatch(self, batchId: int) -> None: ...

    with pytest.raises(
        TypeDeclarationError, match="Silent does not declare the fields that it emits; write in its class: outputFields"
    ):
        as_spout(Silent())
