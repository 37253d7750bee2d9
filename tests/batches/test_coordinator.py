"""The coordinator, driven event by event and by random schedules."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trident.base.attempt import TransactionAttempt
from trident.base.errors import BatchFailedError, FencedError, StateUnavailableError
from trident.batches import coordinator_events as on
from trident.batches.coordinator import Coordinator, Status
from trident.batches.coordinator_settings import CoordinatorSettings
from trident.batches.retries import Retries
from trident.log.group_records import AttemptRecord, History

EPOCH = 7


def attempt(txid: int, number: int = 0) -> TransactionAttempt:
    return TransactionAttempt(txid, number, EPOCH)


def made(pending: int = 2, history: History | None = None, **rules: Any) -> Coordinator:
    return Coordinator(CoordinatorSettings(pending=pending, **rules), EPOCH, history or History())


def planned(txid: int, number: int = 0, end: int | None = None) -> on.Planned:
    return on.Planned(attempt(txid, number), {"s": {"end": end if end is not None else txid * 10}})


def of(kind: type, actions: list[on.Action]) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def ready(coordinator: Coordinator, txid: int) -> None:
    """Bring a batch to RAN."""
    coordinator.handle(planned(txid))
    coordinator.handle(on.Ran(attempt(txid)))


def test_the_first_plan_starts_from_nothing() -> None:
    assert made().start() == [on.Plan(attempt(1), {}, None, 0.0)]


def test_a_plan_is_run_and_the_next_one_starts_from_where_it_ends() -> None:
    coordinator = made()
    coordinator.start()
    actions = coordinator.handle(planned(1))
    assert actions == [
        on.Run(attempt(1), {"s": {"end": 10}}, {}, 0.0),
        on.Plan(attempt(2), {"s": {"end": 10}}, None, 0.0),
    ]


def test_no_more_than_pending_batches_are_in_flight_until_the_first_is_committed() -> None:
    coordinator = made(pending=2)
    coordinator.start()
    coordinator.handle(planned(1))
    assert of(on.Plan, coordinator.handle(planned(2))) == []
    coordinator.handle(on.Ran(attempt(1)))
    assert of(on.Plan, coordinator.handle(on.Frozen(attempt(1), {"s": {"end": 10}}))) == []
    assert of(on.Plan, coordinator.handle(on.Committed(1))) == [on.Plan(attempt(3), {"s": {"end": 20}}, None, 0.0)]


def test_a_later_batch_that_ran_first_waits_for_its_turn_to_freeze_and_to_commit() -> None:
    coordinator = made(pending=2)
    coordinator.start()
    coordinator.handle(planned(1))
    coordinator.handle(planned(2))
    assert coordinator.handle(on.Ran(attempt(2))) == []
    assert coordinator.handle(on.Ran(attempt(1))) == [on.Freeze(attempt(1))]
    assert coordinator.handle(on.Frozen(attempt(1), {"s": {"end": 10}})) == [on.Freeze(attempt(2)), on.Commit(1, 0.0)]
    assert coordinator.handle(on.Frozen(attempt(2), {"s": {"end": 20}})) == []


def test_the_next_commit_waits_until_the_spouts_have_heard_of_the_last() -> None:
    coordinator = made(pending=2)
    coordinator.start()
    for txid in (1, 2):
        ready(coordinator, txid)
        coordinator.handle(on.Frozen(attempt(txid), {"s": {"end": txid * 10}}))
    actions = coordinator.handle(on.Committed(1))
    assert of(on.Succeed, actions) == [on.Succeed(1)] and of(on.Commit, actions) == []
    assert of(on.Commit, coordinator.handle(on.Succeeded(1))) == [on.Commit(2, 0.0)]


def test_a_failed_attempt_is_read_again_under_the_same_txid_and_plan() -> None:
    coordinator = made(pending=1)
    coordinator.start()
    coordinator.handle(planned(1))
    error = ValueError("no")
    actions = coordinator.handle(on.RunFailed(attempt(1), error))
    assert actions == [
        on.Cancel(attempt(1)),
        on.Fail(attempt(1), error),
        on.Run(attempt(1, 1), {"s": {"end": 10}}, {}, 0.0),
    ]


def test_messages_of_an_attempt_that_is_over_change_nothing() -> None:
    coordinator = made(pending=1)
    coordinator.start()
    coordinator.handle(planned(1))
    coordinator.handle(on.RunFailed(attempt(1), ValueError("no")))
    for stale in (on.Ran(attempt(1)), on.RunFailed(attempt(1), ValueError()), on.Frozen(attempt(1), {}), planned(1)):
        assert coordinator.handle(stale) == []
    assert coordinator.in_flight == {1: (attempt(1, 1), Status.RUNNING)}


def test_an_opaque_batch_that_is_planned_otherwise_voids_the_batches_after_it() -> None:
    coordinator = made(pending=3, replans=True)
    coordinator.start()
    for txid in (1, 2, 3):
        ready_plan = coordinator.handle(planned(txid))
        assert of(on.Run, ready_plan)
    coordinator.handle(on.Ran(attempt(2)))
    actions = coordinator.handle(on.RunFailed(attempt(1), ValueError("no")))
    assert of(on.Plan, actions) == [on.Plan(attempt(1, 1), {}, {"s": {"end": 10}}, 0.0)]
    actions = coordinator.handle(planned(1, 1, end=7))
    assert of(on.Cancel, actions) == [on.Cancel(attempt(2)), on.Cancel(attempt(3))]
    assert of(on.Plan, actions) == [on.Plan(attempt(2, 1), {"s": {"end": 7}}, None, 0.0)]


def test_an_opaque_batch_that_is_planned_alike_leaves_the_batches_after_it_alone() -> None:
    coordinator = made(pending=2, replans=True)
    coordinator.start()
    coordinator.handle(planned(1))
    coordinator.handle(planned(2))
    coordinator.handle(on.Ran(attempt(2)))
    coordinator.handle(on.RunFailed(attempt(1), ValueError("no")))
    assert of(on.Cancel, coordinator.handle(planned(1, 1))) == []
    assert coordinator.in_flight[2] == (attempt(2), Status.RAN)


def test_a_spout_that_knows_its_position_only_after_emission_is_planned_from_what_froze() -> None:
    coordinator = made(pending=2, plans_ahead=False)
    coordinator.start()
    assert of(on.Plan, coordinator.handle(planned(1))) == []
    coordinator.handle(on.Ran(attempt(1)))
    actions = coordinator.handle(on.Frozen(attempt(1), {"s": {"end": 8}}))
    assert of(on.Plan, actions) == [on.Plan(attempt(2), {"s": {"end": 8}}, None, 0.0)]


def test_the_group_stops_with_the_cause_when_a_batch_fails_too_often_and_commits_what_is_frozen() -> None:
    coordinator = made(pending=2, retries=Retries(2))
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(planned(2))
    coordinator.handle(on.Frozen(attempt(1), {"s": {"end": 10}}))
    coordinator.handle(on.RunFailed(attempt(2), ValueError("first")))
    assert of(on.Finish, coordinator.handle(on.RunFailed(attempt(2, 1), ValueError("second")))) == []
    coordinator.handle(on.Committed(1))
    [finish] = coordinator.handle(on.Succeeded(1))
    assert isinstance(finish.error, BatchFailedError)
    assert str(finish.error) == "batch 2 failed 2 times, the last time with: second"
    assert isinstance(finish.error.__cause__, ValueError)


def test_after_freezing_only_the_commit_is_repeated_with_growing_waits() -> None:
    coordinator = made(pending=1)
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(on.Frozen(attempt(1), {}))
    waits = []
    for _ in range(12):
        [commit] = coordinator.handle(on.CommitFailed(1, StateUnavailableError("away"), transient=True))
        waits.append(commit.delay)
    assert waits[:4] == [0.01, 0.02, 0.04, 0.08] and waits[-1] == 1.0


def test_a_commit_that_cannot_go_through_stops_the_group_and_the_batch_stays_frozen() -> None:
    coordinator = made(pending=1)
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(on.Frozen(attempt(1), {}))
    error = ValueError("too big")
    assert coordinator.handle(on.CommitFailed(1, error, transient=False)) == [on.Finish(error)]


def test_a_commit_is_repeated_no_longer_than_commitRetry() -> None:
    coordinator = made(pending=1, commitRetry=0.05)
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(on.Frozen(attempt(1), {}))
    error = StateUnavailableError("away")
    seen = [coordinator.handle(on.CommitFailed(1, error, transient=True)) for _ in range(4)]
    assert [type(actions[-1]) for actions in seen] == [on.Commit, on.Commit, on.Commit, on.Finish]


def test_an_idle_source_is_asked_again_later_and_later() -> None:
    coordinator = made()
    actions, waits = coordinator.start(), []
    for _ in range(12):
        actions = coordinator.handle(on.NothingThere(attempt_of(actions)))
        waits += [sleep.seconds for sleep in of(on.Sleep, actions)]
        actions = coordinator.handle(on.Woken())
    assert waits[:3] == [0.001, 0.002, 0.004] and waits[-1] == 0.5


def attempt_of(actions: list[on.Action]) -> TransactionAttempt:
    found: TransactionAttempt = of(on.Plan, actions)[0].attempt
    return found


def test_draining_ends_when_nothing_is_there_and_nothing_in_flight() -> None:
    coordinator = made()
    actions = coordinator.start()
    coordinator.handle(on.DrainAsked())
    actions = coordinator.handle(on.NothingThere(attempt_of(actions)))
    assert of(on.Rest, actions) and of(on.Finish, actions) == [on.Finish(None)]


def test_stop_cancels_what_runs_and_finishes_the_commit_under_way() -> None:
    coordinator = made(pending=2)
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(planned(2))
    coordinator.handle(on.Frozen(attempt(1), {}))
    actions = coordinator.handle(on.StopAsked())
    assert of(on.Cancel, actions) == [on.Cancel(attempt(2))] and of(on.Finish, actions) == []
    assert coordinator.handle(on.Committed(1)) == [on.Succeed(1)]
    assert coordinator.handle(on.Succeeded(1)) == [on.Finish(None)]


def test_a_fenced_run_ends_at_once() -> None:
    coordinator = made(pending=1)
    coordinator.start()
    ready(coordinator, 1)
    error = FencedError("later driver")
    assert of(on.Finish, coordinator.handle(on.Broken(error))) == [on.Finish(error)]
    assert coordinator.handle(on.Frozen(attempt(1), {})) == []


def test_a_restart_repeats_success_commits_what_is_frozen_and_plans_the_rest_anew() -> None:
    attempts = {7: AttemptRecord(2, 3), 8: AttemptRecord(0, 3)}
    coordinator = made(pending=4, history=History(4, {"s": {"end": 60}}, (5, 6), attempts))
    actions = coordinator.start()
    assert actions[0] == on.Succeed(4)
    assert of(on.Run, actions) == []
    assert of(on.Plan, actions) == [on.Plan(attempt(7, 3), {"s": {"end": 60}}, None, 0.0)]
    assert of(on.Plan, coordinator.handle(planned(7, 3))) == [on.Plan(attempt(8, 1), {"s": {"end": 70}}, None, 0.0)]
    assert of(on.Commit, coordinator.handle(on.Succeeded(4))) == [on.Commit(5, 0.0)]


def test_a_batch_under_which_drivers_died_often_enough_stops_the_group_and_what_is_frozen_commits() -> None:
    history = History(0, {"s": {"end": 10}}, (1,), {2: AttemptRecord(4, 3, deaths=3)})
    coordinator = made(pending=4, retries=Retries(3), history=history)
    actions = coordinator.start()
    assert of(on.Commit, actions) == [on.Commit(1, 0.0)] and of(on.Plan, actions) == []
    coordinator.handle(on.Committed(1))
    [finish] = coordinator.handle(on.Succeeded(1))
    assert isinstance(finish.error, BatchFailedError)
    assert "the driver died 3 times in a row during batch 2" in str(finish.error)


def test_batches_under_which_drivers_died_run_one_after_the_other() -> None:
    """Both were under way; only alone does each show whether it ends the process."""
    history = History(attempts={txid: AttemptRecord(0, 1, deaths=1) for txid in (1, 2)})
    coordinator = made(pending=4, history=history)
    assert of(on.Plan, coordinator.start()) == [on.Plan(attempt(1, 1), {}, None, 0.0)]
    assert of(on.Plan, coordinator.handle(planned(1, 1))) == []
    assert of(on.Freeze, coordinator.handle(on.Ran(attempt(1, 1)))) == [on.Freeze(attempt(1, 1))]
    actions = coordinator.handle(on.Frozen(attempt(1, 1), {"s": {"end": 10}}))
    assert of(on.Plan, actions) == [on.Plan(attempt(2, 1), {"s": {"end": 10}}, None, 0.0)]
    assert of(on.Plan, coordinator.handle(planned(2, 1))) == []


def test_fewer_deaths_leave_a_batch_its_attempts() -> None:
    coordinator = made(retries=Retries(3), history=History(attempts={1: AttemptRecord(4, 3, deaths=2)}))
    assert of(on.Plan, coordinator.start()) == [on.Plan(attempt(1, 5), {}, None, 0.0)]


def test_asking_an_idle_source_takes_no_number_after_a_restart_either() -> None:
    coordinator = made(history=History(attempts={1: AttemptRecord(2, 3)}))
    assert attempt_of(coordinator.start()) == attempt(1, 3)
    coordinator.handle(on.NothingThere(attempt(1, 3)))
    assert attempt_of(coordinator.handle(on.Woken())) == attempt(1, 3)


class World:
    """A source of numbers, an engine and a store, answering the coordinator's actions in a random order with faults.

    Opaque: a plan takes a random number of the numbers that are left after `previous`.
    """

    def __init__(self, seed: int, total: int, pending: int, opaque: bool, faults: float) -> None:
        self.random = random.Random(seed)
        self.total, self.opaque, self.faults = total, opaque, faults
        self.pending = pending
        self.coordinator = made(pending=pending, replans=opaque, retries=Retries(10**6), commitRetry=None)
        self.todo: list[on.Action] = []
        self.ran: dict[TransactionAttempt, tuple[int, int]] = {}
        self.cancelled: set[TransactionAttempt] = set()
        self.frozen: list[tuple[int, int]] = []
        self.committed: list[int] = []
        self.finished = False

    def play(self) -> None:
        self.take(self.coordinator.start())
        self.take(self.coordinator.handle(on.DrainAsked()))
        for _ in range(200 * self.total):
            if self.finished:
                return
            self.step()
        raise AssertionError(f"no end: {self.coordinator.in_flight}, {self.todo}")

    def take(self, actions: list[on.Action]) -> None:
        for action in actions:
            if isinstance(action, on.Cancel):
                self.cancelled.add(action.attempt)
            elif isinstance(action, on.Finish):
                self.finished = True
            elif not isinstance(action, on.Fail | on.Rest):
                self.todo.append(action)
        assert len(self.coordinator.in_flight) <= self.pending

    def step(self) -> None:
        action = self.todo.pop(self.random.randrange(len(self.todo)))
        if self.random.random() < 0.1 and self.cancelled:  # a late message of an attempt that is over
            late = self.random.choice(sorted(self.cancelled))
            self.take(
                self.coordinator.handle(self.random.choice([on.Ran(late), on.RunFailed(late, ValueError("late"))]))
            )
        event = self.answer(action)
        self.take(self.coordinator.handle(event))

    def fails(self) -> bool:
        return self.random.random() < self.faults

    def answer(self, action: on.Action) -> on.Event:
        match action:
            case on.Plan(attempt, previous, kept, _):
                if self.fails():
                    return on.PlanFailed(attempt, ValueError("plan"))
                start = previous.get("s", {"end": 0})["end"]
                if start >= self.total:
                    return on.NothingThere(attempt)
                if kept is not None and self.random.random() < 0.3:
                    return on.Planned(attempt, kept)
                return on.Planned(
                    attempt, {"s": {"start": start, "end": min(self.total, start + self.random.randint(1, 4))}}
                )
            case on.Run(attempt, plan, previous, _):
                assert plan["s"]["start"] == previous.get("s", {"end": 0})["end"], (
                    "a plan starts where the last one ends"
                )
                if self.fails():
                    return on.RunFailed(attempt, ValueError("run"))
                self.ran[attempt] = (plan["s"]["start"], plan["s"]["end"])
                return on.Ran(attempt)
            case on.Freeze(attempt):
                assert attempt.txid == len(self.frozen) + 1, "batches freeze in txid order"
                self.frozen.append(self.ran[attempt])
                return on.Frozen(attempt, {"s": {"end": self.ran[attempt][1]}})
            case on.Commit(txid, _):
                if self.fails():
                    return on.CommitFailed(txid, StateUnavailableError("away"), True)
                assert txid == len(self.committed) + 1 and txid <= len(self.frozen), "commits follow freezing, in order"
                self.committed.append(txid)
                return on.Committed(txid)
            case on.Succeed(txid):
                return on.Succeeded(txid)
            case on.Sleep(_):
                return on.Woken()
        raise AssertionError(action)


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    total=st.integers(1, 30),
    pending=st.integers(1, 4),
    opaque=st.booleans(),
    faults=st.sampled_from([0.0, 0.2, 0.5]),
)
def test_whatever_the_order_of_events_every_number_is_frozen_once_and_committed_in_order(
    seed: int, total: int, pending: int, opaque: bool, faults: float
) -> None:
    world = World(seed, total, pending, opaque, faults)
    world.play()
    assert [n for start, end in world.frozen for n in range(start, end)] == list(range(total))
    assert world.committed == list(range(1, len(world.frozen) + 1))


@pytest.mark.parametrize("plans_ahead", [True, False])
def test_pending_one_is_strictly_one_after_the_other(plans_ahead: bool) -> None:
    coordinator = made(pending=1, plans_ahead=plans_ahead)
    coordinator.start()
    ready(coordinator, 1)
    coordinator.handle(on.Frozen(attempt(1), {"s": {"end": 10}}))
    assert of(on.Plan, coordinator.handle(on.Committed(1))) == [on.Plan(attempt(2), {"s": {"end": 10}}, None, 0.0)]


# --- inactive ---------------------------------------------------------------------------------------------------------


def test_an_inactive_group_finishes_what_is_in_flight_and_plans_nothing_new() -> None:
    coordinator = made(pending=2)
    coordinator.start()
    coordinator.handle(planned(1))
    assert coordinator.handle(on.DeactivateAsked()) == [on.Switch(False)]
    assert coordinator.handle(planned(2)) == [on.Run(attempt(2), {"s": {"end": 20}}, {"s": {"end": 10}}, 0.0)]
    for txid in (1, 2):
        assert not coordinator.quiet
        coordinator.handle(on.Ran(attempt(txid)))
        coordinator.handle(on.Frozen(attempt(txid), {"s": {"end": txid * 10}}))
        assert of(on.Plan, coordinator.handle(on.Committed(txid))) == []
        told = coordinator.handle(on.Succeeded(txid))
    assert told == [on.Quiet()] and coordinator.quiet and not coordinator.finished
    for event in (on.Woken(), on.RowsCame()):
        assert coordinator.handle(event) == []


def test_an_activated_group_goes_on_with_the_next_txid() -> None:
    coordinator = made(active=False, history=History(committed=4, positions={"s": {"end": 40}}))
    assert of(on.Plan, coordinator.start()) == []
    assert coordinator.handle(on.Succeeded(4)) == [on.Quiet()]
    assert coordinator.handle(on.ActivateAsked()) == [
        on.Switch(True),
        on.Plan(attempt(5), {"s": {"end": 40}}, None, 0.0),
    ]
    assert not coordinator.quiet


def test_a_group_that_starts_inactive_commits_what_is_frozen() -> None:
    coordinator = made(active=False, history=History(committed=1, frozen=(2,), positions={"s": {"end": 20}}))
    coordinator.start()
    assert of(on.Commit, coordinator.handle(on.Succeeded(1))) == [on.Commit(2, 0.0)]


def test_an_attempt_that_fails_while_the_group_is_inactive_is_made_again() -> None:
    coordinator = made(pending=1)
    coordinator.start()
    coordinator.handle(planned(1))
    coordinator.handle(on.DeactivateAsked())
    again = coordinator.handle(on.RunFailed(attempt(1), ValueError("no")))
    assert of(on.Run, again) == [on.Run(attempt(1, 1), {"s": {"end": 10}}, {}, 0.0)]


def test_spouts_hear_of_each_change_once() -> None:
    coordinator = made()
    coordinator.start()
    asked = [on.DeactivateAsked(), on.DeactivateAsked(), on.ActivateAsked(), on.ActivateAsked()]
    told = [of(on.Switch, coordinator.handle(event)) for event in asked]
    assert told == [[on.Switch(False)], [], [on.Switch(True)], []]


def test_an_idle_group_that_slept_asks_at_once_when_it_is_activated() -> None:
    coordinator = made()
    coordinator.start()
    assert of(on.Sleep, coordinator.handle(on.NothingThere(attempt(1))))
    assert coordinator.handle(on.DeactivateAsked()) == [on.Switch(False), on.Quiet()]
    assert of(on.Plan, coordinator.handle(on.ActivateAsked())) == [on.Plan(attempt(1), {}, None, 0.0)]


def test_an_inactive_group_stops_when_it_is_asked_to() -> None:
    coordinator = made(active=False)
    assert coordinator.start() == [on.Quiet()]
    assert of(on.Finish, coordinator.handle(on.StopAsked())) == [on.Finish(None)]
