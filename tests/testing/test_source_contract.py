"""The contract of sources that change notices each fault that it is for, and passes a sound source."""

import copy
import inspect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from trident.base.attempt import TransactionAttempt
from trident.base.errors import DataLossError, SourceUnreadableError
from trident.base.spark_types import parse_schema
from trident.testing import ChangingSource, SourceContract
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import SpoutExecutor, SpoutKind
from trident_spouts.rows import table_of

SCHEMA = parse_schema("n long")


@dataclass
class Numbers:
    """A list of numbers with an identity, on a server that can be away."""

    identity: int = 0
    rows: list[int] = field(default_factory=list)
    away: bool = False


class NumberSource(ChangingSource):
    """A list of numbers, read by a spout with one fault, or with none."""

    patience_secs = 0.0

    def __init__(self, fault: str = "none", latest: bool = False) -> None:
        self.fault, self.starts_at_its_end = fault, latest
        self.numbers, self._backup = Numbers(), Numbers()
        self._next = itertools.count()

    def spout(self) -> "NumberSpout":
        return NumberSpout(self)

    def add(self, count: int) -> Sequence[int]:
        rows = list(itertools.islice(self._next, count))
        self.numbers.rows += rows
        return rows

    def copy(self) -> None:
        self._backup = copy.deepcopy(self.numbers)

    def restore(self) -> None:
        self.numbers = copy.deepcopy(self._backup)

    def replace(self) -> None:
        self.numbers = Numbers(self.numbers.identity + 1)

    def remove(self) -> None:
        self.numbers.rows.clear()

    def hide(self) -> None:
        self.numbers.away = True

    def show(self) -> None:
        self.numbers.away = False


@dataclass(frozen=True)
class NumberSpout:
    source: NumberSource
    kind: SpoutKind = SpoutKind.OPAQUE
    schema: Any = SCHEMA

    def open(self) -> SpoutExecutor:
        return NumberExecutor(self.source)


class NumberExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, source: NumberSource) -> None:
        self.source, self.begun = source, dict[int, int]()

    def plan(self, attempt: TransactionAttempt, previous: Any, time: float, budget: Budget = NO_LIMIT) -> Any:
        fault, numbers = self.source.fault, self.source.numbers
        if numbers.away:
            if fault == "away is the end":
                return None
            raise SourceUnreadableError("the list is away")
        if previous is None:
            previous = {"end": self._beginning(attempt.txid), "last": None, "identity": numbers.identity}
        start = previous["end"]
        same_last = start == 0 or previous["last"] is None or numbers.rows[start - 1 : start] == [previous["last"]]
        if fault not in ("restored", "replaced") and not same_last:
            raise DataLossError("another number stands where the last one was read")
        if fault != "replaced" and numbers.identity != previous["identity"]:
            raise DataLossError("this is another list")
        end = min(start + 2, len(numbers.rows))
        if end <= start and (attempt.txid > 1 or fault == "forgets where it began"):
            return None
        last = numbers.rows[end - 1] if end else None
        return {"start": start, "end": end, "last": last, "identity": previous["identity"]}

    def _beginning(self, txid: int) -> int:
        if self.source.fault == "begins anew":
            self.begun[0] = self.begun.get(0, -1) + 1
            return len(self.source.numbers.rows) if self.begun[0] else 0
        latest = len(self.source.numbers.rows) if self.source.starts_at_its_end else 0
        return self.begun.setdefault(txid, latest)

    def emit(self, attempt: TransactionAttempt, metadata: Any) -> ArrowEmission:
        rows = self.source.numbers.rows[metadata["start"] : metadata["end"]]
        return ArrowEmission(table_of(rows, SCHEMA, "numbers"), None)


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each test of the contract, with each set of its parameters."""
    for name, test in vars(SourceContract).items():
        if name.startswith("test_"):
            marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
            for values in itertools.product(*(mark.args[1] for mark in marks)):
                yield name, dict(zip([mark.args[0] for mark in marks], values, strict=True))


def failed(fault: str, latest: bool = False) -> set[str]:
    """Return the tests that fail over a source with the fault."""
    names = set()
    for name, arguments in cases():
        test = getattr(SourceContract(), name)
        assert set(arguments) | {"source"} == set(inspect.signature(test).parameters)
        try:
            test(source=NumberSource(fault, latest), **arguments)
        except (AssertionError, pytest.fail.Exception):
            names.add(name.removeprefix("test_"))
        except pytest.skip.Exception:
            assert not latest, name  # only the test of a beginning at the end has no use for this source
    return names


@pytest.mark.parametrize("latest", [False, True])
def test_a_sound_source_passes(latest: bool) -> None:
    assert failed("none", latest) == set()


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("restored", "an_older_copy_is_refused_however_far_it_grows"),
        ("replaced", "another_source_of_the_name_is_refused"),
        ("away is the end", "a_source_that_is_away_is_not_at_its_end"),
        ("begins anew", "a_batch_planned_again_after_later_plans_begins_where_it_began"),
    ],
)
def test_each_fault_is_noticed(fault: str, test: str) -> None:
    assert test in failed(fault)


@pytest.mark.parametrize(
    "test",
    [
        "a_beginning_without_a_row_is_kept",
        "a_source_that_is_created_after_the_first_plan_is_read_as_a_whole",
    ],
)
def test_a_beginning_that_is_not_kept_is_noticed(test: str) -> None:
    assert test in failed("forgets where it began", latest=True)


def test_what_a_source_cannot_do_is_skipped_with_a_reason() -> None:
    class Endless(NumberSource):
        hide = ChangingSource.hide

    with pytest.raises(pytest.skip.Exception, match=r"does not define what this test needs \(ChangingSource.hide\)"):
        SourceContract().test_a_source_that_is_away_is_not_at_its_end(Endless(), same_run=True)
