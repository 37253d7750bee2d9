"""Limits of time with one timer: they have the meaning of asyncio's, and ring in the order of their times."""

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from trident.server.timeouts import Alarms

LONG = 20.0


def in_loop(test: Callable[[Alarms], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in an event loop of its own, which must not take long."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(test(Alarms()), LONG / 2))

    run.__name__ = test.__name__
    return run


@in_loop
async def test_alarms_ring_in_the_order_of_their_times(alarms: Alarms) -> None:
    rung: list[str] = []
    for name, seconds in {"third": 0.03, "first": 0.01, "never": LONG, "second": 0.02, "cancelled": 0.015}.items():
        alarm = alarms.after(seconds, lambda name=name: rung.append(name))  # type: ignore[misc]
    alarm.cancel()
    alarm.cancel()
    await asyncio.sleep(0.05)
    assert rung == ["first", "second", "third"]


@pytest.mark.parametrize("module", ["asyncio", "uvloop"])
def test_an_alarm_is_set_beside_one_whose_time_has_come(module: str) -> None:
    """For a time that has come, the loop of uvloop returns a handle without a time."""

    async def test() -> None:
        alarms, rung = Alarms(), list[str]()
        alarms.after(0.0, lambda: rung.append("now"))
        alarms.after(0.01, lambda: rung.append("later"))
        await asyncio.sleep(0.05)
        assert rung == ["now", "later"]

    with asyncio.Runner(loop_factory=importlib.import_module(module).new_event_loop) as runner:
        runner.run(test())


@in_loop
async def test_an_alarm_that_raises_does_not_stop_the_others(alarms: Alarms) -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    rung = asyncio.Event()
    alarms.after(0.005, lambda: [][0])
    alarms.after(0.01, rung.set)
    await rung.wait()
    assert [type(error) for error in errors] == [IndexError]


@in_loop
async def test_a_block_that_takes_too_long_ends_with_an_error(alarms: Alarms) -> None:
    with pytest.raises(TimeoutError), alarms.limit(0.01) as limit:
        await asyncio.sleep(LONG)
    assert limit.expired
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0, "the task can wait again"
    with alarms.limit(LONG) as limit:
        await asyncio.sleep(0)
    assert not limit.expired


@in_loop
async def test_only_the_block_whose_limit_is_over_ends(alarms: Alarms) -> None:
    with alarms.limit(LONG) as outer:
        with pytest.raises(TimeoutError), alarms.limit(0.01):
            await asyncio.sleep(LONG)
        with pytest.raises(TimeoutError), alarms.limit(0.01) as middle, alarms.limit(LONG):
            await asyncio.sleep(LONG)
    assert middle.expired and not outer.expired


@in_loop
async def test_a_cancellation_from_outside_passes(alarms: Alarms) -> None:
    async def work(seconds: float, cancelled_after: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        with alarms.limit(seconds):
            alarms.after(cancelled_after, task.cancel)
            await asyncio.sleep(LONG)

    for seconds in (LONG, 0.0):  # 0: by the limit and from outside in the same turn of the loop
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(work(seconds, 0.0))
