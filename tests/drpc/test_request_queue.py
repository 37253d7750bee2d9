"""The queue of requests that are answered together, as a pure machine: no thread, no clock."""

import random

import pytest

from trident.drpc.request_queue import Queued, RequestQueue


class Numbered(Queued):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def came(queue: RequestQueue[Numbered], *numbers: int) -> list[Numbered]:
    requests = [Numbered(number) for number in numbers]
    begins = [queue.come(each) for each in requests]
    assert not any(begins[1:])
    return requests


def test_the_first_begins_and_the_others_are_answered_together() -> None:
    queue = RequestQueue[Numbered](most=3)
    first, *others = came(queue, 0, 1, 2, 3, 4)
    assert queue.take(first) == [first, *others[:2]]
    assert queue.end(first) is others[2] and queue.take(others[2]) == others[2:]
    assert queue.end(others[2]) is None and queue.leader is None and not queue.busy


def test_who_lost_patience_leads_and_the_batch_before_hands_nothing_on() -> None:
    queue = RequestQueue[Numbered](most=3, limit=2)
    (first,) = came(queue, 0)
    queue.take(first)
    second, third = Numbered(1), Numbered(2)
    assert not queue.come(second) and queue.lose_patience(second) and queue.take(second) == [second]
    assert not queue.come(third) and not queue.lose_patience(third), "two batches are under way"
    assert queue.end(first) is None and queue.end(second) is third


def test_the_last_one_who_leaves_ends_the_work() -> None:
    queue, gone = RequestQueue[Numbered](most=9), list[str]()
    first, second = came(queue, 0, 1)
    third = Numbered(2)
    queue.take(first)
    assert first.audience is not None
    first.audience.whenGone = lambda: gone.append("all")
    queue.come(third)
    for each in (third, first):
        queue.leave(each)()
    assert not gone and not len(queue), "who waits in the queue has no audience, and `second` is there still"
    queue.leave(second)()
    assert gone == ["all"]


def test_one_who_leaves_before_its_batch_begins_is_not_counted() -> None:
    queue = RequestQueue[Numbered](most=9)
    (first,) = came(queue, 0)
    queue.leave(first)()
    queue.take(first)
    assert first.audience is not None and first.audience.size == 0


@pytest.mark.parametrize("seed", range(100))
def test_each_request_is_in_one_batch_in_the_order_in_which_they_came(seed: int) -> None:
    draw = random.Random(seed)
    queue = RequestQueue[Numbered](draw.randint(1, 4), draw.choice([1, 2, 5]))
    under_way, answered, asked, gone = list[list[Numbered]](), list[int](), 0, set[int]()

    def begin(leader: Numbered | None) -> None:
        if leader is not None:
            under_way.append(queue.take(leader))
            answered.extend(each.number for each in under_way[-1])

    while asked < 30 or under_way or len(queue):
        match draw.choice(["come", "end", "end", "impatient", "leave"]):
            case "come" if asked < 30:
                request, asked = Numbered(asked), asked + 1
                begin(request if queue.come(request) else None)
            case "end" if under_way:
                begin(queue.end(under_way.pop(draw.randrange(len(under_way)))[0]))
            case "impatient" if (oldest := queue.oldest) is not None:
                begin(oldest if queue.lose_patience(oldest) else None)
            case "leave" if draw.random() < 0.1 and (oldest := queue.oldest) is not None:
                queue.leave(oldest)
                gone.add(oldest.number)
        assert queue.busy == len(under_way)
        assert queue.leader is not None or not len(queue), "nobody would begin the next batch"
    assert answered == [number for number in range(30) if number not in gone]
