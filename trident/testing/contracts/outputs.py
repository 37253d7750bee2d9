"""The contract of outputs, as tests of the rows that their readers see.

The tests of an output inherit the tests of `OutputContract`. A user's function is an output, too::

    class TestMyOutput(OutputContract):
        fenced = compares = False  # a function learns nothing of the log

        @pytest.fixture
        def place(self):
            return FunctionPlace(store_batch, stored_words)
"""

import contextlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol
from uuid import uuid4

import pyarrow as pa
import pytest

from trident.base.attempt import Lease
from trident.base.errors import FencedError, OutputConflictError, OutputError
from trident.log.protocol import OutputProgress
from trident.outputs.run_identity import RunIdentity

OUTPUT = "out"
Take = Callable[[pa.Table, int], None]
"""A function that passes a batch's rows and txid to an opened output."""


@dataclass
class OutputLog:
    """The log of a topology with one output. `copy` copies it, as a backup or a cloned machine does."""

    uuid: str = field(default_factory=lambda: uuid4().hex)
    leases: dict[int, str] = field(default_factory=dict)
    frozen: int = 0
    known: OutputProgress = OutputProgress()
    tried: tuple[int, int] = (0, 0)

    def copy(self) -> "OutputLog":
        return deepcopy(self)

    def start(self) -> RunIdentity:
        """Start a driver, which takes the log."""
        epoch = len(self.leases) + 1
        self.leases[epoch] = uuid4().hex
        lease = Lease(epoch, self.leases[epoch])
        return RunIdentity("topology", self.uuid, epoch, self.frozen, lease.token, _Memory(self, lease))

    def committed(self, txid: int, rows: int) -> None:
        """Record that a batch is committed, with `rows` rows for the output."""
        self.frozen = max(self.frozen, txid)
        if rows:
            self.known = replace(self.known, last=txid)

    def passed_without(self, txid: int) -> None:
        """Record that programs without the output committed the batches up to `txid`."""
        self.frozen = txid
        self.known = replace(self.known, missed=txid)


@dataclass(frozen=True)
class _Memory:
    """The memory of one driver; see `OutputMemory`."""

    log: OutputLog
    lease: Lease

    def issued(self, lease: Lease) -> bool:
        return self.log.leases.get(lease.epoch) == lease.token

    def progress(self, output: str) -> OutputProgress:
        return self.log.known

    def attempt(self, output: str, txid: int, least: int) -> int:
        if self.lease.epoch != len(self.log.leases):
            raise FencedError("the log was taken over by another driver")
        tried, last = self.log.tried
        attempt = max(least, last + 1) if tried == txid else least
        self.log.tried = txid, attempt
        return attempt


class OutputPlace(Protocol):
    """The storage of one output, which is empty when a test begins. The rows have one field, ``word string``.

    Storage that can be copied and put back, as from a backup, also has ``save()`` and ``restore(saved)``. If readers
    may remove all batches, it has ``take_away()``, which does so.
    """

    def open(self, run: RunIdentity) -> Take:
        """Open the output for a driver. Raises OutputError if it belongs to another log, or does not match the log."""
        ...

    def words(self) -> list[str]:
        """Return all words that readers of the output see, in any order."""
        ...


@dataclass(frozen=True)
class FunctionPlace:
    """The storage of a user's function for `foreachArrow`. `stored` returns the words that the function has stored."""

    function: Callable[[pa.Table, int, int], object]
    stored: Callable[[], list[str]]

    def open(self, run: RunIdentity) -> Take:
        def take(rows: pa.Table, txid: int) -> None:
            self.function(rows, txid, run.memory.attempt(OUTPUT, txid, int(txid <= run.last_frozen)))

        return take

    def words(self) -> list[str]:
        return self.stored()


class OutputContract:
    """The contract of an output, as tests: a replay, a second driver, a copied log, a restored copy, a gap."""

    fenced: ClassVar[bool] = True
    """True if the output knows the log and the driver to which it belongs."""
    compares: ClassVar[bool] = True
    """True if the output refuses other rows under a txid that it already has.

    A function that replaces rows does not.
    """

    gapless: ClassVar[bool] = True
    """True if the output refuses to continue after missed batches. For other outputs the start logs a warning about
    them."""

    @pytest.fixture
    def place(self) -> OutputPlace:
        raise NotImplementedError(f"{type(self).__name__}: define the fixture 'place'")

    @pytest.fixture
    def log(self) -> OutputLog:
        return OutputLog()

    @pytest.fixture
    def hand(self, place: OutputPlace, log: OutputLog) -> Callable[..., None]:
        """Return a function that passes batches to an opened output, and records them as committed."""

        def hand(take: Take, *batches: str, of: OutputLog = log, first: int | None = None) -> None:
            for txid, letters in enumerate(batches, of.frozen + 1 if first is None else first):
                take(rows_of(letters), txid)
                of.committed(txid, len(letters))

        return hand

    def test_each_batch_is_there_once_however_often_it_is_handed_over(
        self, place: OutputPlace, log: OutputLog, hand: Any
    ) -> None:
        take = place.open(log.start())
        hand(take, "ab", "", "c")
        hand(take, "c", first=3)
        hand(place.open(log.start()), "c", "d", first=3)
        assert sorted(place.words()) == ["a", "b", "c", "d"]

    def test_other_rows_under_a_txid_are_refused(self, place: OutputPlace, log: OutputLog, hand: Any) -> None:
        self._skip_unless(self.compares, "takes the last rows of a txid")
        hand(place.open(log.start()), "ab")
        for other in ("ac", "a", "abc"):  # an equal number of rows does not mean the same rows
            with pytest.raises(OutputError):
                place.open(log.start())(rows_of(other), 1)
        assert sorted(place.words()) == ["a", "b"]

    def test_a_driver_that_was_taken_over_adds_nothing(self, place: OutputPlace, log: OutputLog, hand: Any) -> None:
        sleeper = place.open(log.start())
        hand(sleeper, "a")
        hand(place.open(log.start()), "b")
        for late, txid in (("b", 2), ("c", 3)):
            with contextlib.suppress(FencedError, OutputError):
                sleeper(rows_of(late), txid)
        assert sorted(place.words()) == ["a", "b"]

    def test_a_driver_that_starts_late_is_told_of_the_later_one(self, place: OutputPlace, log: OutputLog) -> None:
        """The driver took the log first, but opens the output last. There is no copy of the log."""
        self._skip_unless(self.fenced, "knows no driver")
        late, later = log.start(), log.start()
        place.open(later)
        with pytest.raises(FencedError):
            place.open(late)

    def test_a_call_that_slept_changes_nothing_behind_a_later_one(self, place: OutputPlace, log: OutputLog) -> None:
        if not isinstance(place, FunctionPlace):
            pytest.skip("the output is no function")
        first = log.start().memory.attempt(OUTPUT, 1, 0)
        place.open(log.start())(rows_of("a"), 1)
        place.open(log.start())(rows_of("b"), 2)
        with contextlib.suppress(Exception):  # the function may refuse it
            place.function(rows_of("a"), 1, first)
        assert sorted(place.words()) == ["a", "b"]

    @pytest.mark.parametrize("starts", [1, 2])
    def test_a_copy_of_the_log_is_refused(self, starts: int, place: OutputPlace, log: OutputLog, hand: Any) -> None:
        """Both drivers have the uuid of the log. The second of them gets an error, in either order."""
        self._skip_unless(self.fenced, "cannot tell a copy of the log")
        hand(place.open(log.start()), "a")
        copy = log.copy()
        place.open(log.start())
        for _ in range(starts):
            with pytest.raises((OutputConflictError, FencedError)):
                place.open(copy.start())
        hand(place.open(log.start()), "b")
        with pytest.raises((OutputConflictError, FencedError)):
            place.open(copy.start())
        hand(place.open(log.start()), "c")
        assert sorted(place.words()) == ["a", "b", "c"]

    def test_a_driver_beside_which_a_copy_of_its_log_began_is_told(
        self, place: OutputPlace, log: OutputLog, hand: Any
    ) -> None:
        self._skip_unless(self.fenced, "cannot tell a copy of the log")
        take = place.open(log.start())
        hand(take, "a")
        copy = log.copy()
        hand(place.open(copy.start()), "x", of=copy)
        with pytest.raises((OutputError, FencedError)):
            take(rows_of("b"), 2)
        with pytest.raises((OutputError, FencedError)):
            take(rows_of("c"), 3)
        assert sorted(place.words()) == ["a", "x"]

    def test_an_output_that_fell_back_is_told(self, place: OutputPlace, log: OutputLog, hand: Any) -> None:
        self._skip_unless(self.fenced, "cannot tell what it held")
        save, restore = self._able(place, "save", "restore")
        hand(place.open(log.start()), "a", "b")
        saved = save()
        hand(place.open(log.start()), "c", "")
        newest = save()
        restore(saved)
        with pytest.raises(OutputConflictError):
            place.open(log.start())
        restore(newest)
        hand(place.open(log.start()), "d")
        assert sorted(place.words()) == ["a", "b", "c", "d"]

    def test_an_output_that_falls_back_under_a_driver_is_told(
        self, place: OutputPlace, log: OutputLog, hand: Any
    ) -> None:
        """The copy was taken within the same run, so its record names this driver."""
        self._skip_unless(self.fenced, "cannot tell what it held")
        save, restore = self._able(place, "save", "restore")
        take = place.open(log.start())
        hand(take, "a")
        saved = save()
        hand(take, "b", "")
        restore(saved)
        with pytest.raises(OutputConflictError, match="batch 2"):
            hand(take, "c")
        assert place.words() == ["a"]

    def test_an_output_that_comes_back_after_a_gap_is_told(self, place: OutputPlace, log: OutputLog, hand: Any) -> None:
        self._skip_unless(self.fenced and self.gapless, "cannot tell what it missed, or goes on after it")
        hand(place.open(log.start()), "a")
        log.passed_without(3)
        with pytest.raises(OutputConflictError, match="3"):
            place.open(log.start())
        assert place.words() == ["a"]

    def test_an_output_that_is_new_begins_behind_what_passed_without_it(
        self, place: OutputPlace, log: OutputLog, hand: Any
    ) -> None:
        log.passed_without(3)
        hand(place.open(log.start()), "")
        hand(place.open(log.start()), "a")
        assert place.words() == ["a"]

    def test_readers_may_take_all_batches_away(self, place: OutputPlace, log: OutputLog, hand: Any) -> None:
        (take_away,) = self._able(place, "take_away")
        take = place.open(log.start())
        hand(take, "a", "b")
        take_away()
        hand(take, "c")
        assert place.words() == ["c"]
        take_away()
        for letters in ("", "d"):
            hand(place.open(log.start()), letters)
        assert place.words() == ["d"]

    @pytest.mark.parametrize("restart", [False, True])
    def test_a_batch_that_was_taken_away_before_its_commit_does_not_come_back(
        self, restart: bool, place: OutputPlace, log: OutputLog, hand: Any
    ) -> None:
        (take_away,) = self._able(place, "take_away")
        take = place.open(log.start())
        hand(take, "a")
        log.frozen = 2
        take(rows_of("b"), 2)
        take_away()
        if restart:
            take = place.open(log.start())
        hand(take, "b", "c", first=2)
        assert place.words() == ["c"]

    @pytest.mark.parametrize("restart", [False, True])
    @pytest.mark.parametrize("before", ["", "a"])
    def test_an_output_that_fell_back_to_an_empty_copy_is_told(
        self, before: str, restart: bool, place: OutputPlace, log: OutputLog, hand: Any
    ) -> None:
        """The copy was taken before the first batch, or after readers had removed all batches."""
        save, restore, take_away = self._able(place, "save", "restore", "take_away")
        take = place.open(log.start())
        if before:
            hand(take, before)
            take_away()
        saved = save()
        hand(take, "b")
        restore(saved)
        with pytest.raises(OutputConflictError):
            hand(place.open(log.start()) if restart else take, "c")
        assert place.words() == []

    def _able(self, place: OutputPlace, *names: str) -> list[Any]:
        """Return these methods of `place`; skip the test if one is missing."""
        methods = [getattr(place, name, None) for name in names]
        if None in methods:
            pytest.skip(f"the place does not have all of {', '.join(names)}")
        return methods

    def _skip_unless(self, able: bool, why: str) -> None:
        if not able:
            pytest.skip(f"the output {why}")


def rows_of(letters: str) -> pa.Table:
    """Return rows with one word for each letter."""
    return pa.table({"word": pa.array(list(letters), pa.string())})
