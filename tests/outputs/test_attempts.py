"""The numbers of attempts to hand a batch to a function, over a real log: which are recorded, and who gets which."""

from pathlib import Path
from typing import Any

import pytest

from trident.commits.output_memory import LogMemory
from trident.errors import FencedError
from trident.log.sqlite_log import SqliteLog


class Writes(SqliteLog):
    """A log that counts its records of attempts."""

    number = 0

    def handing_over(self, *given: Any) -> int:
        self.number += 1
        return super().handing_over(*given)


def driver(folder: Path, leaseSecs: float = 10.0) -> tuple[LogMemory, Writes]:
    log = Writes(folder / "log.sqlite", "t")
    return LogMemory(log, log.take(), leaseSecs, {}, {}), log


def test_the_first_attempt_of_the_run_that_froze_a_batch_costs_no_write(tmp_path: Path) -> None:
    memory, log = driver(tmp_path)
    assert [memory.attempt("o", txid, 0) for txid in (1, 2)] == [0, 0] and log.number == 0
    assert [memory.attempt("o", 2, 0) for _ in range(2)] == [1, 2] and log.number == 2
    assert memory.attempt("other", 2, 0) == 0 and memory.attempt("o", 3, 0) == 0
    log.close()


def test_a_later_run_gets_higher_numbers_for_what_it_found_frozen(tmp_path: Path) -> None:
    memory, log = driver(tmp_path)
    assert [memory.attempt("tried once", 1, 0), memory.attempt("tried twice", 1, 0)] == [0, 0]
    assert memory.attempt("tried twice", 1, 0) == 1
    later, its_log = driver(tmp_path)
    assert [later.attempt("tried once", 1, 1), later.attempt("tried twice", 1, 1)] == [1, 2]
    assert [later.attempt("tried once", 1, 1), later.attempt("tried twice", 1, 1)] == [2, 3]
    log.close()
    its_log.close()


@pytest.mark.parametrize("tried", [0, 1])
def test_a_driver_that_was_taken_over_gets_no_number(tried: int, tmp_path: Path) -> None:
    memory, log = driver(tmp_path)
    for _ in range(tried):
        memory.attempt("o", 1, 0)
    _, its_log = driver(tmp_path)
    with pytest.raises(FencedError, match="taken over"):
        memory.attempt("o", 1, 0)
    log.close()
    its_log.close()


@pytest.mark.parametrize("tried", [0, 1])
def test_a_driver_that_slept_while_it_asked_asks_again(
    tried: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, log = driver(tmp_path)
    for _ in range(tried):
        memory.attempt("o", 1, 0)
    times = iter([0.0, 5.0, 5.0, 6.0])
    monkeypatch.setattr("trident.commits.output_memory.time.monotonic", lambda: next(times))
    assert memory.attempt("o", 1, 0) == 2 * tried and next(times, None) is None
    log.close()
