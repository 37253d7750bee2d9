"""What every transaction log must do: what it holds, whom it refuses, and what may be repeated.

A log's own tests subclass `LogContract` and give a `place`, which opens the log there again and again, as restarted
drivers would.
"""

import random
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pytest

from trident.base.attempt import Holder, Lease
from trident.base.errors import FencedError, LogError
from trident.frozen.results import FrozenFile, FrozenFiles
from trident.log.frozen_results import FrozenOutput, freeze, thaw
from trident.log.group_records import AttemptRecord, History
from trident.log.protocol import (
    NO_LEASE,
    BatchRecord,
    Birth,
    LogReading,
    Members,
    OutputProgress,
    Restoration,
    StreamRecord,
    TransactionLog,
)

TABLE = pa.table({"word": ["a", "b"], "count": pa.array([1, 2], pa.int64())})


class Place(Protocol):
    """Where one topology's log is."""

    def open(self) -> TransactionLog: ...

    def look(self) -> LogReading: ...


def record(txid: int) -> BatchRecord:
    """What the tests' batch of this txid is."""
    return BatchRecord({"s": txid}, 0.5, "program")


def found(log: TransactionLog, lease: Lease) -> None:
    """Found group g with its one stream, where the log does not know it yet."""
    if "g" not in log.groups():
        log.enroll(lease, Members({"s": StreamRecord("g")}, {}, {"g": 0}))


def frozen(log: TransactionLog, lease: Lease, txid: int, output: FrozenOutput | None = None) -> None:
    found(log, lease)
    log.freeze(lease, "g", txid, record(txid), {"s": txid}, {"counts": output or freeze(TABLE)})


class LogContract:
    def test_a_log_keeps_its_uuid_and_each_lease_is_one_epoch_later(self, place: Place) -> None:
        log = place.open()
        assert log.lease() is None
        assert log.take().epoch == 1
        log.close()
        again = place.open()
        assert again.uuid == log.uuid and again.take().epoch == 2

    def test_a_lease_that_was_given_back_is_nobodys_and_the_next_one_is_later(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        log.give_back(lease)
        assert log.lease() == Lease(1, "")
        with pytest.raises(FencedError):
            log.sync(lease)
        with pytest.raises(FencedError):
            log.give_back(lease)
        assert log.take().epoch == 2

    def test_only_one_of_those_who_follow_the_same_lease_gets_the_next_one(self, place: Place) -> None:
        first, second = place.open(), place.open()
        assert first.take(after=NO_LEASE).epoch == 1
        with pytest.raises(FencedError, match=r"another driver \(epoch 1\) has taken over .* in the meantime"):
            second.take(after=NO_LEASE)
        former = second.lease()
        assert second.take(after=former).epoch == 2
        with pytest.raises(FencedError, match=r"\(epoch 2\)"):
            first.take(after=former)
        assert former is not None
        with pytest.raises(FencedError):
            first.take(after=Lease(2, former.token))
        assert first.lease() == second.lease() and first.take().epoch == 3

    def test_the_log_tells_who_holds_it_as_long_as_somebody_does(self, place: Place) -> None:
        log = place.open()
        assert log.holder() is None
        holder = Holder(0, 'a "host"', 17, 1700000000.25, 2.5)
        lease = log.take(holder)
        looking = place.look()
        for each in (log, looking):
            assert each.holder() == Holder(1, 'a "host"', 17, 1700000000.25, 2.5)
        log.give_back(lease)
        assert looking.holder() is None
        log.take(holder)
        log.take()
        assert looking.holder() is None, "this one did not say who it is"

    def test_looks_at_once_see_what_was_written_until_then(self, place: Place) -> None:
        log, looking = place.open(), place.look()
        lease = log.take()
        found(log, lease)
        with looking.at_once():
            assert looking.lease() == lease and looking.last_committed("g") == 0
            frozen(log, lease, 1)
            log.committed(lease, "g", 1, 0.0)
            assert looking.last_committed("g") == 1
        assert looking.last_committed("g") == 1

    def test_who_waits_sees_that_the_driver_writes_or_renews_its_lease(self, place: Place) -> None:
        log, waiting, other = place.open(), place.open(), place.open()
        lease = log.take()
        seen = [waiting.renewals()]

        def moved() -> bool:
            seen.append(waiting.renewals())
            return seen[-1] != seen[-2]

        assert not moved(), "nobody wrote"
        log.renew(lease)  # the take has shown it
        log.renew(lease)
        assert moved() and not moved()
        frozen(log, lease, 1)
        assert moved()
        log.renew(lease)
        assert not moved(), "no write beside those that there are"
        log.renew(lease)
        assert moved()
        place.open().close()
        other.holder()
        assert not moved(), "others who wait write nothing"
        other.take()
        assert moved()
        with pytest.raises(FencedError):
            log.renew(lease)
        assert not moved()

    def test_who_only_looks_sees_what_the_driver_writes_and_can_write_nothing(self, place: Place) -> None:
        with pytest.raises(LogError, match="does not exist|no log"):
            place.look()
        log = place.open()
        lease = log.take()
        looking = place.look()
        assert looking.uuid == log.uuid and looking.lease() == lease and looking.groups() == []
        log.born(lease, "counts", Birth("g", 0))
        frozen(log, lease, 1)
        log.committed(lease, "g", 1)
        log.publish(lease, "counts", b"m")
        log.attempted(lease, "g", 2, AttemptRecord(0, 1))
        assert looking.history("g").committed == 1 and looking.batch("g", 1) == record(1)
        assert (looking.last_committed("g"), looking.last_committed("unknown")) == (1, 0)
        assert looking.attempts("g") == {2: AttemptRecord(0, 1)}
        assert looking.members() == log.members()
        assert looking.births() == {"counts": Birth("g", 0)} and looking.manifest("counts") == b"m"
        held = looking.frozen("g", 1, 1)
        assert held is not None and thaw(held["counts"], "g") == TABLE
        with pytest.raises(LogError):
            looking.take()  # type: ignore[attr-defined]
        with pytest.raises(LogError):
            looking.sync(lease)  # type: ignore[attr-defined]
        log.sync(lease)
        log.close()
        assert looking.history("g").committed == 1
        again = place.look()  # while nobody writes
        assert again.history("g").committed == 1 and again.kept_since("g") == 0
        looking.close()
        again.close()

    def test_times_of_commits_are_kept_as_long_as_the_records_of_batches(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        for txid, time in ((1, 1700000000.25), (2, None), (3, 1700000002.5), (4, 1700000003.75)):
            frozen(log, lease, txid)
            assert log.commit_time("g", txid) is None
            log.committed(lease, "g", txid, time)
        looking = place.look()
        for each in (log, looking):
            times = [each.commit_time("g", txid) for txid in (1, 2, 3, 4, 5)]
            assert times == [1700000000.25, None, 1700000002.5, 1700000003.75, None]
        log.trim(lease, "g", 3, 0, 0)
        assert [log.commit_time("g", txid) for txid in (1, 3, 4)] == [None, 1700000002.5, 1700000003.75]
        looking.close()
        log.close()

    def test_a_forgotten_state_may_be_born_again(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        log.born(lease, "counts", Birth("g", 0))
        log.publish(lease, "counts", b"m")
        log.forget(lease, "counts")
        assert log.births() == {} and log.manifest("counts") is None
        log.forget(lease, "counts")
        log.born(lease, "counts", Birth("g", 7))
        assert log.births() == {"counts": Birth("g", 7)} and log.manifest("counts") is None

    def test_history_tells_what_is_committed_and_frozen_and_where_the_streams_stand(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        assert log.history("g") == History()
        for txid in (1, 2):
            frozen(log, lease, txid)
        log.committed(lease, "g", 1)
        assert log.history("g") == History(1, {"s": 2}, (2,))
        assert log.history("g").last_frozen == 2
        assert log.batch("g", 2) == record(2) and log.batch("g", 3) is None

    def test_the_last_attempt_at_each_batch_is_known_until_that_batch_is_frozen(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        found(log, lease)
        assert log.attempts("g") == {}
        second = AttemptRecord(1, 1, 2, {"s": "0a:1b"})
        for txid, attempt in ((1, AttemptRecord(0, 1)), (1, second), (2, AttemptRecord(0, 1))):
            log.attempted(lease, "g", txid, attempt)
        log.close()
        log = place.open()
        assert log.attempts("g") == {1: second, 2: AttemptRecord(0, 1)}
        assert log.history("g").frozen == ()
        frozen(log, log.take(), 1)
        assert log.attempts("g") == {2: AttemptRecord(0, 1)}

    def test_a_group_is_founded_before_its_first_batch_freezes(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        with pytest.raises(LogError, match="batch 1 cannot be frozen"):
            log.freeze(lease, "g", 1, record(1), {"s": 1}, {})
        assert log.groups() == []
        log.enroll(lease, Members({"s": StreamRecord("g")}, {}, {"g": 4}))
        assert log.groups() == ["g"] and log.kept_since("g") == 4
        assert log.history("g") == History(4, {"s": None})
        frozen(log, lease, 5)
        log.enroll(lease, Members(log.members().streams, {}, {"g": 0}))
        assert log.history("g") == History(4, {"s": 5}, (5,)), "a group is founded once"

    def test_members_are_what_was_enrolled_last_with_the_position_of_each_stream(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        assert log.members() == Members()
        streams = {"s": StreamRecord("g", None, "Feeder"), "t": StreamRecord("g", {"end": 3}, "Files", active=False)}
        streams["t"] = replace(
            streams["t"], began={"end": 1}, feeds=("words",), parted={"counts": {"end": 2}, "sums": None}
        )
        streams["t"] = replace(streams["t"], former=("u", "v"))
        streams["s"] = replace(streams["s"], feeds=("counts", "sums"))
        log.enroll(lease, Members({**streams, "old": StreamRecord("h")}, {"alerts": "g"}, {"g": 0, "h": 0}))
        log.enroll(lease, Members(streams, {"letters": "g"}))
        assert log.members() == Members(streams, {"letters": "g"})
        assert log.groups() == ["g", "h"], "a group stays known, with its txids"
        frozen(log, lease, 1)
        log.close()
        log = place.open()
        assert log.members().streams == {"s": replace(streams["s"], position=1), "t": streams["t"]}
        assert log.history("g").positions == {"s": 1}, "not of a stream that no program has now"

    def test_a_stream_keeps_its_position_when_it_moves_to_another_group(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        frozen(log, lease, 1)
        stands = log.members().streams["s"].position
        log.enroll(lease, Members({"s": StreamRecord("other", stands)}, {}, {"other": 1}))
        assert log.history("g") == History(0, {}, (1,))
        assert log.history("other") == History(1, {"s": 1})
        log.freeze(lease, "other", 2, record(2), {"s": 2}, {})
        assert log.members().streams["s"].position == 2

    def test_what_was_frozen_comes_back_to_the_bit(self, place: Place) -> None:
        log = place.open()
        frozen(log, log.take(), 1)
        log.close()
        held = place.open().frozen("g", 1, 1)
        assert held is not None and thaw(held["counts"], "here") == TABLE

    @pytest.mark.parametrize("txid", [1, 3])
    def test_only_the_batch_after_the_last_frozen_one_can_freeze(self, place: Place, txid: int) -> None:
        log = place.open()
        lease = log.take()
        frozen(log, lease, 1)
        with pytest.raises(LogError, match=f"batch {txid} cannot be frozen"):
            log.freeze(lease, "g", txid, record(txid), {"s": txid}, {"counts": freeze(TABLE)})
        assert log.history("g") == History(0, {"s": 1}, (1,)) and log.batch("g", 1) == record(1)

    def test_only_the_next_frozen_batch_can_commit(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        frozen(log, lease, 1)
        for txid in (2, 0):
            with pytest.raises(LogError, match=f"batch {txid} cannot commit"):
                log.committed(lease, "g", txid)

    def test_a_driver_whose_lease_is_over_cannot_write(self, place: Place) -> None:
        first, second = place.open(), place.open()
        old = first.take()
        frozen(first, old, 1)
        new = second.take()
        output = {"counts": freeze(TABLE)}
        for write in (
            lambda: first.enroll(old, Members()),
            lambda: first.attempted(old, "g", 2, AttemptRecord(0, 1)),
            lambda: first.freeze(old, "g", 2, record(2), {}, output),
            lambda: first.freeze_stage(old, "g", 1, 2, output),
            lambda: first.committed(old, "g", 1),
            lambda: first.born(old, "counts", Birth("g", 0)),
            lambda: first.restore(old, Restoration({}, 0.0, {}, {}, {}, {})),
            lambda: first.forget(old, "counts"),
            lambda: first.publish(old, "counts", b""),
            lambda: first.trim(old, "g", 1, 0, 0),
            lambda: first.sync(old),
        ):
            with pytest.raises(FencedError, match=r"epoch 2; this driver has 1"):
                write()
        assert second.history("g").frozen == (1,) and second.attempts("g") == {}
        assert set(second.members().streams) == {"s"}
        frozen(second, new, 2)

    def test_an_equal_epoch_with_another_token_is_another_driver(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        with pytest.raises(FencedError):
            log.sync(Lease(lease.epoch, "other"))

    def test_trim_keeps_what_is_needed_and_the_last_batches_before_it(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        for txid in range(1, 11):
            frozen(log, lease, txid)
            log.committed(lease, "g", txid)
        assert log.trim(lease, "g", needed=8, keep_batches=3, keep_bytes=1 << 30) == []
        assert log.kept_since("g") == 5
        assert log.frozen("g", 5, 1) is None and log.frozen("g", 6, 1) is not None
        log.trim(lease, "g", needed=8, keep_batches=3, keep_bytes=freeze(TABLE).size)
        assert log.kept_since("g") == 7 and log.frozen("g", 8, 1) is not None
        log.trim(lease, "g", needed=0, keep_batches=3, keep_bytes=0)
        assert log.kept_since("g") == 7

    def test_states_are_born_once_and_publish_manifests(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        log.born(lease, "counts", Birth("g", 4))
        assert log.births() == {"counts": Birth("g", 4)} and log.manifest("counts") is None
        log.publish(lease, "counts", b"{}")
        assert log.manifest("counts") == b"{}"
        with pytest.raises(LogError, match="'other' cannot publish"):
            log.publish(lease, "other", b"{}")

    def test_a_state_begins_with_a_content_that_is_kept_with_the_batch_after_it(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        for txid in (1, 2, 3):
            frozen(log, lease, txid)
        content = freeze(TABLE)
        log.born(lease, "counts", Birth("g", 1))
        log.publish(lease, "counts", b"{}")
        log.born(lease, "counts", Birth("g", 2, founded=True, filled="() -> int64 by Sum"), content)
        birth = log.births()["counts"]
        assert (birth.txid, birth.founded, birth.filled, birth.created_at) == (2, True, "() -> int64 by Sum", 1)
        assert log.manifest("counts") is None
        assert log.content("counts", 2) == content
        assert log.content("counts", 1) is None and log.content("other", 2) is None
        log.trim(lease, "g", needed=2, keep_batches=0, keep_bytes=0)
        assert log.content("counts", 2) == content
        log.trim(lease, "g", needed=3, keep_batches=0, keep_bytes=0)
        assert log.content("counts", 2) is None and log.births()["counts"].filled == "() -> int64 by Sum"

    def test_a_content_ends_with_the_records_of_its_state(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        for again in (lambda: log.forget(lease, "counts"), lambda: log.born(lease, "counts", Birth("g", 0))):
            log.born(lease, "counts", Birth("g", 0, filled="() -> int64 by Sum"), freeze(TABLE))
            again()
            assert log.content("counts", 0) is None

    def test_the_files_of_a_content_are_named_until_it_is_dropped(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        frozen(log, lease, 1)
        frozen(log, lease, 2)
        files = FrozenFiles("frozen/log/g/1-1-0-0", (FrozenFile("a.arrow", 3, 1, 4),), TABLE.schema)
        log.born(lease, "counts", Birth("g", 1, filled="() -> int64 by Sum"), freeze(files))
        assert log.folders("g") == {"frozen/log/g/1-1-0-0"}
        assert log.trim(lease, "g", needed=2, keep_batches=0, keep_bytes=0) == ["frozen/log/g/1-1-0-0"]
        assert log.folders("g") == set()

    def test_a_batch_that_froze_nothing_is_frozen(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        found(log, lease)
        log.freeze(lease, "g", 1, record(1), {}, {})
        assert log.frozen("g", 1, 1) == {} and log.history("g").frozen == (1,)
        assert log.frozen("g", 2, 1) is None and log.groups() == ["g"]

    def test_a_later_stage_is_frozen_once(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        frozen(log, lease, 1)
        assert log.frozen("g", 1, 2) is None
        log.freeze_stage(lease, "g", 1, 2, {"letters": freeze(TABLE), "more": freeze(TABLE)})
        log.freeze_stage(lease, "g", 1, 2, {"letters": freeze(TABLE.slice(1))})
        held = log.frozen("g", 1, 2)
        assert held is not None and set(held) == {"letters", "more"}
        assert thaw(held["letters"], "here") == TABLE

    def test_files_of_a_frozen_batch_are_named_until_it_goes(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        files = FrozenFiles("frozen/g/1-1-0-1", (FrozenFile("a", 900, 2, 7),), TABLE.schema)
        frozen(log, lease, 1, freeze(files))
        frozen(log, lease, 2)
        assert log.folders("g") == {"frozen/g/1-1-0-1"}
        for txid in (1, 2):
            log.committed(lease, "g", txid)
        assert log.trim(lease, "g", needed=2, keep_batches=10, keep_bytes=899) == ["frozen/g/1-1-0-1"]
        assert log.folders("g") == set() and log.kept_since("g") == 1

    def test_groups_keep_their_own_txids(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        streams = {f"s{group}": StreamRecord(group) for group in "ab"}
        log.enroll(lease, Members(streams, {}, {"a": 0, "b": 0}))
        for group in ("b", "a"):
            log.freeze(lease, group, 1, record(1), {f"s{group}": group}, {"counts": freeze(TABLE)})
        log.committed(lease, "a", 1)
        assert log.groups() == ["a", "b"]
        assert (log.history("a").committed, log.history("b").committed) == (1, 0)
        assert log.history("b") == History(0, {"sb": "b"}, (1,))
        assert log.history("a").positions == {"sa": "a"}

    def test_a_long_life_with_restarts_trims_and_later_stages_is_what_a_model_says(self, place: Place) -> None:
        drawn, log, kept = random.Random(11), place.open(), 0
        lease, frozen_upto, committed = log.take(), 0, 0
        contents: dict[int, Any] = {}
        for _ in range(120):
            what = drawn.choice(["freeze", "freeze", "commit", "stage", "trim", "restart"])
            if what == "freeze":
                frozen_upto += 1
                contents[frozen_upto] = pa.table({"n": [drawn.random()]})
                frozen(log, lease, frozen_upto, freeze(contents[frozen_upto]))
            elif what == "commit" and committed < frozen_upto:
                committed += 1
                log.committed(lease, "g", committed)
            elif what == "stage" and committed < frozen_upto:
                log.freeze_stage(lease, "g", committed + 1, 2, {"letters": freeze(contents[committed + 1])})
            elif what == "trim" and committed:
                log.trim(lease, "g", committed, 5, 1 << 30)
                kept = max(kept, committed - min(5, committed - kept))
            elif what == "restart":
                log.close()
                log = place.open()
                lease = log.take()
            assert log.history("g").frozen == tuple(range(committed + 1, frozen_upto + 1))
            assert log.kept_since("g") == kept
        for txid in range(kept + 1, frozen_upto + 1):
            held = log.frozen("g", txid, 1)
            assert held is not None and thaw(held["counts"], "here") == contents[txid]

    def test_the_address_of_the_files_stays_and_is_written_by_the_driver_of_the_lease_alone(self, place: Place) -> None:
        log = place.open()
        assert log.files_address() == ""
        former, lease = log.take(), log.take()
        log.keep_files_at(lease, "s3://books/t")
        with pytest.raises(FencedError):
            log.keep_files_at(former, "s3://others/t")
        assert log.files_address() == place.look().files_address() == place.open().files_address() == "s3://books/t"

    def test_the_origin_of_a_fork_stays_and_is_written_by_the_driver_of_the_lease_alone(self, place: Place) -> None:
        log = place.open()
        assert log.origin() is None
        former, lease = log.take(), log.take()
        log.keep_origin(lease, b"begun")
        with pytest.raises(FencedError):
            log.keep_origin(former, b"other")
        assert log.origin() == place.look().origin() == place.open().origin() == b"begun"
        log.keep_origin(lease, b"complete")
        assert log.origin() == place.look().origin() == b"complete"

    def test_how_far_outputs_came_is_kept_and_replaced_as_a_whole(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        assert log.outputs() == {}
        log.keep_outputs(lease, {"o": OutputProgress(), "gone": OutputProgress(1, 2, 0)})
        for txid in (1, 2, 3):
            frozen(log, lease, txid)
            log.committed(lease, "g", txid, took=["o", "unknown"] if txid < 3 else ())
        assert log.outputs() == {"o": OutputProgress(2), "gone": OutputProgress(1, 2, 0)}
        log.keep_outputs(lease, {"o": OutputProgress(2, None, 3)})
        log.close()
        again = place.open()
        assert again.outputs() == {"o": OutputProgress(2, None, 3)} and again.outputs()["o"].reached == 3
        later = again.take()
        with pytest.raises(FencedError):
            again.keep_outputs(lease, {})
        again.keep_outputs(later, {})
        assert again.outputs() == {}

    def test_a_log_that_starts_over_keeps_one_record_and_its_epochs(self, place: Place) -> None:
        log = place.open()
        lease, before = log.take(), log.uuid
        found(log, lease)
        frozen(log, lease, 1)
        log.born(lease, "a", Birth("g", 0))
        log.keep_outputs(lease, {"o": OutputProgress()})
        log.keep_readings(lease, {"state a": b"one"})
        log.start_over(lease, b"origin")
        with pytest.raises(FencedError):
            log.sync(lease)
        for each in (log, place.look(), place.open()):
            assert each.uuid != before and each.origin() == b"origin" and each.lease() == Lease(1, "")
            assert (each.groups(), each.births(), each.members(), each.readings()) == ([], {}, Members(), {})
            assert each.frozen("g", 1, 1) is None and each.files_address() == ""
        again = place.open()
        later = again.take()
        assert later.epoch == 2 and again.outputs() == {}
        found(again, later)
        frozen(again, later, 1)
        assert again.history("g") == History(0, {"s": 1}, (1,))

    def test_a_restore_replaces_streams_and_states_and_commits_an_empty_batch(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        both = Members({"s": StreamRecord("g"), "t": StreamRecord("h")}, {"out": "g"}, {"g": 0, "h": 0})
        log.enroll(lease, both)
        log.keep_outputs(lease, {"out": OutputProgress(1)})
        log.keep_readings(lease, {"state counts": b"one", "output out": b"two"})
        for txid in (1, 2, 3):
            frozen(log, lease, txid)
            log.committed(lease, "g", txid, time=1.0)
        log.born(lease, "counts", Birth("g", 0))
        log.publish(lease, "counts", b"{}")
        log.attempted(lease, "g", 4, AttemptRecord(2, 1))
        streams = {"s": StreamRecord("g", 1, "kind", feeds=("counts",))}
        births = {"counts": Birth("g", 4, 1, True, "f"), "new": Birth("h", 1, 1)}
        log.born(lease, "kept", Birth("g", 2, founded=True))
        log.publish(lease, "kept", b"{kept}")
        content, readings = {"counts": freeze(TABLE)}, {"state counts": b"three"}
        log.restore(lease, Restoration({"g": 4, "h": 1}, 9.0, streams, births, content, readings))
        log.close()
        for each in (place.open(), place.look()):
            assert each.history("g") == History(4, {"s": 1}) and each.history("h") == History(1, {})
            assert each.batch("g", 4) == BatchRecord({}, 9.0, "program") and each.commit_time("g", 4) == 9.0
            assert each.batch("h", 1) == BatchRecord({}, 9.0, "")
            assert each.frozen("g", 4, 1) == each.frozen("h", 1, 1) == {}
            assert each.members() == Members(streams, {"out": "g"})
            found = {name: (birth, birth.epoch, birth.founded) for name, birth in each.births().items()}
            assert found == {
                **{name: (birth, 1, birth.founded) for name, birth in births.items()},
                "kept": (Birth("g", 2), 1, True),
            }
            assert each.manifest("counts") is None and each.manifest("kept") == b"{kept}"
            assert each.content("counts", 4) == content["counts"] and each.readings() == readings
        again = place.open()
        assert again.attempts("g") == {} and again.outputs() == {"out": OutputProgress(1)}
        later = again.take()
        assert again.history("g").last_frozen == 4
        frozen(again, later, 5)
        assert again.history("g") == History(4, {"s": 5}, (5,))

    def test_a_restore_needs_the_batch_after_the_last_committed_one(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        frozen(log, lease, 1)
        log.born(lease, "counts", Birth("g", 0))
        log.enroll(lease, Members({"s": StreamRecord("g"), "t": StreamRecord("h")}, {}, {"h": 0}))
        for batches in ({"h": 1, "g": 2}, {"h": 1, "g": 1}, {"h": 2}):
            with pytest.raises(LogError, match="batch . (cannot|does not follow)"):
                log.restore(lease, Restoration(batches, 9.0, {}, {}, {}, {}))
        assert log.history("h").committed == 0 and set(log.births()) == {"counts"}, "nothing was written"
        log.committed(lease, "g", 1)
        with pytest.raises(LogError, match="batch 1 (cannot|does not follow)"):
            log.restore(lease, Restoration({"g": 1}, 9.0, {}, {}, {}, {}))
        log.restore(lease, Restoration({"g": 2}, 9.0, {}, {}, {}, {}))
        assert log.history("g") == History(2) and set(log.births()) == {"counts"}

    def test_the_rows_that_states_are_made_of_are_kept_and_replaced_as_a_whole(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        assert log.readings() == {}
        log.keep_readings(lease, {"state a": b"\x00one", "output a": b"two"})
        assert log.readings() == place.look().readings() == {"state a": b"\x00one", "output a": b"two"}
        log.keep_readings(lease, {"state a": b"three"})
        log.close()
        again = place.open()
        assert again.readings() == {"state a": b"three"}
        again.take()
        with pytest.raises(FencedError):
            again.keep_readings(lease, {})

    def test_no_number_of_an_attempt_is_given_out_twice_whichever_driver_asks(self, place: Place) -> None:
        log = place.open()
        lease = log.take()
        assert [log.handing_over(lease, "o", 1, 0) for _ in range(3)] == [0, 1, 2]
        assert log.handing_over(lease, "other", 1, 0) == 0 and log.handing_over(lease, "o", 2, 0) == 0
        later = place.open()
        successor = later.take()
        with pytest.raises(FencedError):
            log.handing_over(lease, "o", 2, 0)
        assert later.handing_over(successor, "o", 2, 1) == 1, "the first driver may be about to make its call"
        assert [later.handing_over(successor, "o", 3, least) for least in (1, 1, 0)] == [1, 2, 3]
