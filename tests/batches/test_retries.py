"""Outages of a service that a function or a spout needs: a batch is tried again until the service is back."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.batches.test_coordinator import attempt, made, of, planned
from trident import Sum, TridentTopology
from trident.base.errors import BatchFailedError, TopologyError, UserFunctionError
from trident.batches import coordinator_events as on
from trident.batches.retries import OUTAGE_SECONDS, Retries
from trident.compiler.columns.function_errors import decoded, encoded
from trident.configuration.file import check_value
from trident.spouts import BatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


def away(cause: BaseException | None = None) -> UserFunctionError:
    error = UserFunctionError("f raised it")
    error.__cause__ = cause or ConnectionError("refused")
    return error


OF_CLIENT = type("ConnectionError", (Exception,), {})
"""Clients of services have such classes, which inherit from no error of Python."""


USUAL = Retries()


def pauses(error: BaseException, retries: Retries = USUAL, tries: int = 100) -> list[float]:
    """Return the pauses of a batch that fails with this error until it is given up, or has been tried so often."""
    coordinator = made(pending=1, retries=retries)
    coordinator.start()
    coordinator.handle(planned(1))
    waits = []
    for number in range(tries):
        actions = coordinator.handle(on.RunFailed(attempt(1, number), error))
        if of(on.Finish, actions):
            break
        (run,) = of(on.Run, actions)
        waits.append(run.delay)
    return waits


@pytest.mark.parametrize(
    "cause", [ConnectionError("x"), TimeoutError("x"), ConnectionResetError(), OF_CLIENT("x")], ids=repr
)
def test_an_outage_is_waited_for_by_default_with_growing_pauses(cause: BaseException) -> None:
    waits = pauses(away(cause))
    assert waits[:5] == [0.0, 0.1, 0.2, 0.4, 0.8]
    assert sum(waits) == pytest.approx(OUTAGE_SECONDS)


@pytest.mark.parametrize("error", [ValueError("x"), away(ValueError("x")), away(FileNotFoundError("x"))], ids=repr)
def test_another_error_is_tried_as_often_as_said(error: BaseException) -> None:
    assert pauses(error) == [0.0, 0.1, 0.2, 0.4]


def test_an_error_of_a_worker_says_that_a_service_is_away() -> None:
    error = decoded(str(encoded(away())))
    assert error is not None
    assert error.__cause__ is None
    assert sum(pauses(error)) == pytest.approx(OUTAGE_SECONDS)
    plain = decoded(str(encoded(away(ValueError("x")))))
    assert plain is not None
    assert len(pauses(plain)) == 4


def test_retry_secs_is_the_sum_of_the_pauses_after_any_error() -> None:
    assert sum(pauses(ValueError("x"), Retries(seconds=300.0))) == pytest.approx(300.0)
    assert sum(pauses(away(), Retries(seconds=0.0))) == pytest.approx(0.7)


def test_without_an_end_the_pauses_grow_to_a_minute() -> None:
    waits = pauses(ValueError("x"), Retries(most=None), tries=2000)
    assert len(waits) == 2000
    assert max(waits) == waits[-1] == 60.0


def test_the_message_about_a_service_that_is_away_names_the_options() -> None:
    coordinator = made(pending=1, retries=Retries(1, 0.0))
    coordinator.start()
    coordinator.handle(planned(1))
    (finish,) = of(on.Finish, coordinator.handle(on.RunFailed(attempt(1), away())))
    assert isinstance(finish.error, BatchFailedError)
    assert "retrySecs= sets how long a batch is retried while a service is unavailable;" in str(finish.error)


# --- whole topologies ---------------------------------------------------------------------------------------------


def flaky(failures: int, error: BaseException) -> Any:
    """Return a function that fails so often before it works."""
    calls = itertools.count(1)

    def call(n: int) -> int:
        if next(calls) <= failures:
            raise error
        return n

    return call


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, ConnectionError("away")),
        ({"maxAttempts": None}, ValueError("x")),
        ({"retrySecs": "1 minute"}, ValueError("x")),
    ],
    ids=repr,
)
def test_a_function_whose_service_comes_back_counts_each_tuple_once(
    tmp_path: Path, options: dict[str, Any], error: BaseException
) -> None:
    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("n long", [[1], [2]]))
    numbers.each("n", flaky(5, error), "m long").persistentAggregate(MemoryMapState.opaque(), "m", Sum(), "c", name="c")
    with start_local(topology, name="t", checkpointLocation=tmp_path, **options) as running:
        running.processAllAvailable(timeout=60)
        assert running.state("c").value == 3


def test_a_spout_whose_service_comes_back_gives_each_tuple_once(tmp_path: Path) -> None:
    class Away(BatchSpout):
        outputFields = "n long"
        calls = itertools.count(1)

        def emitBatch(self, batchId: int) -> list[int] | None:
            if next(self.calls) <= 5:
                raise TimeoutError("no answer")
            return [batchId] if batchId <= 2 else None

    topology = TridentTopology()
    topology.newStream("s", Away()).persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "c", name="c")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert running.state("c").value == 3


def test_a_function_behind_a_state_is_called_again_without_an_end(tmp_path: Path) -> None:
    topology = TridentTopology()
    counts = topology.newStream("s", FixedBatchSpout("n long", [[1], [2]])).groupBy("n")
    changes = counts.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "c", name="c").newValuesStream()
    changes.each("c", flaky(9, ValueError("x")), "m long").foreachArrow(lambda *_: None, name="o")
    with start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=None) as running:
        running.processAllAvailable(timeout=60)
        assert running.asOfTxid == {"s": 2}


def test_options_say_without_an_end_in_a_file_and_in_the_environment() -> None:
    assert check_value("file", "maxAttempts", "none") is None
    with pytest.raises(TopologyError, match="file: maxAttempts=0: expected a whole number of at least 1"):
        check_value("file", "maxAttempts", 0)
    assert check_value("file", "retrySecs", "10 minutes") == "10 minutes"


def test_a_number_of_attempts_that_the_user_gave_is_the_limit_for_outages_too() -> None:
    assert not Retries().are_over(5, 0.0, away())
    assert Retries(1).are_over(1, 0.0, away())
    assert not Retries(1, 10.0).are_over(1, 9.0, away())
