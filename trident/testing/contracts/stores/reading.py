"""Tests of `read` and `scan`: they answer as of one txid, or raise an error."""

import threading
import time
from collections.abc import Callable

import pytest

from trident.base.errors import SnapshotMovedError, StateRecoveringError, StateUnavailableError
from trident.testing.contracts.stores.fixtures import (
    KEYS,
    Setting,
    Storage,
    entries,
    every_kind,
    every_versioned_kind,
    in_children,
    marker,
    read_alike,
)
from trident_state.state_shape import StateKind
from trident_state.store import Store

_PATIENCE_SECS = 30
"""The time within which each reader must finish one more read, beside commits."""


class ReadContract:
    @every_kind
    def test_a_key_that_is_not_there_reads_null_and_each_row_is_answered(self, setting: Setting, store: Store) -> None:
        assert setting.read(store, [1, 2], None) == [None, None]
        setting.apply(store, 1, {1: 10, 2: 20})
        assert setting.read(store, [2, 9, 1, 2, 9], None) == [20, None, 10, 20, None]
        assert setting.read(store, [], None) == []

    @every_kind
    @pytest.mark.parametrize("keys", KEYS)
    def test_the_latest_read_says_where_the_store_stands(self, storage: Storage, kind: StateKind, keys: str) -> None:
        setting = Setting(storage, kind, KEYS[keys])
        store = setting.started(birth=3)
        setting.apply(store, 4, {0: 1})
        found = read_alike(store, setting.key_table([0]), None)
        assert (found.values.to_pylist(), found.asOf) == ([1], 4)

    @every_versioned_kind
    @pytest.mark.parametrize("keys", KEYS)
    def test_a_read_sees_the_value_or_the_one_before_it(self, storage: Storage, kind: StateKind, keys: str) -> None:
        setting = Setting(storage, kind, KEYS[keys])
        store = setting.started()
        setting.apply(store, 1, {0: 10})
        setting.apply(store, 2, {0: 5} if keys == "global" else {0: 5, 1: 7})
        numbers = [0] if keys == "global" else [0, 1]
        for as_of, values in ((2, [15, 7]), (1, [10, None])):
            found = read_alike(store, setting.key_table(numbers), as_of)
            assert (found.values.to_pylist(), found.asOf) == (values[: len(numbers)], as_of)

    @every_versioned_kind
    def test_a_key_that_was_left_alone_for_long_is_read_as_it_is(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {1: 10})
        for txid in range(2, 9):
            setting.apply(store, txid, {2: 1})
        assert setting.read(store, [1, 2], 8) == [10, 7]
        assert setting.read(store, [1, 2], 7) == [10, 6]

    @every_versioned_kind
    def test_a_read_that_comes_too_late_is_refused(self, setting: Setting, store: Store) -> None:
        for txid in (1, 2, 3):
            setting.apply(store, txid, {1: 1})
        with pytest.raises(SnapshotMovedError, match="state 'counts'.*1"):
            setting.read(store, [1], 1)
        with pytest.raises(SnapshotMovedError):  # no record of this key has a txid, so the store checks the marker
            setting.read(store, [5], 1)
        with pytest.raises(SnapshotMovedError):
            list(store.scan(1))
        assert setting.read(store, [1], 2) == [2]

    @every_versioned_kind
    def test_a_read_beyond_the_marker_has_to_wait(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {1: 1})
        with pytest.raises(StateRecoveringError, match="state 'counts'.*1.*2"):
            setting.read(store, [1], 2)
        with pytest.raises(StateRecoveringError):
            list(store.scan(2))

    # --- scan ------------------------------------------------------------------------------------------------

    @every_kind
    @pytest.mark.parametrize("keys", KEYS)
    def test_a_scan_gives_every_entry_once_with_its_keys(self, storage: Storage, kind: StateKind, keys: str) -> None:
        setting = Setting(storage, kind, KEYS[keys])
        store = setting.started()
        assert list(store.scan(None)) == []
        numbers = [0] if keys == "global" else list(range(2_500))
        setting.apply(store, 1, {n: n + 1 for n in numbers})
        columns = [column.to_pylist() for column in setting.key_table(numbers).columns]
        expected = {tuple(column[row] for column in columns): n + 1 for row, n in enumerate(numbers)}
        assert entries(store, None) == expected
        assert entries(store, None, page_rows=100) == expected
        page = next(iter(store.scan(None, 10)))
        assert page.schema.names == [*setting.keys.names, "value"]
        assert page.schema.types == [*setting.keys.types, setting.value]

    @every_versioned_kind
    def test_a_scan_does_not_see_what_came_later(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {n: 1 for n in range(100)})
        setting.apply(store, 2, {n: 1 for n in range(50, 150)})
        assert entries(store, 1) == {(f"w{n}",): 1 for n in range(100)}
        assert entries(store, 2) == {(f"w{n}",): 2 if 50 <= n < 100 else 1 for n in range(150)}
        assert entries(store, None) == entries(store, 2)

    @every_versioned_kind
    def test_each_page_of_a_scan_is_as_of_the_txid_or_refused(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {n: 1 for n in range(3_000)})
        scan = store.scan(1, 100)
        seen = next(scan).num_rows
        setting.apply(store, 2, {n: 1 for n in range(0, 6_000)})
        page = next(scan)
        assert set(page["value"].to_pylist()) == {1}, "one batch later, prev is still there"
        seen += page.num_rows
        setting.apply(store, 3, {n: 1 for n in range(3_000)})
        later: list[int] = []

        def read_on() -> None:
            for page in scan:
                assert set(page["value"].to_pylist()) == {1}
                later.append(page.num_rows)

        with pytest.raises(SnapshotMovedError):
            read_on()
        assert seen + sum(later) <= 3_000

    @every_kind
    def test_a_scan_that_continues_over_restarts_of_the_server_is_complete(
        self, setting: Setting, store: Store, restart: Callable[[], None] | None
    ) -> None:
        """A cursor of one server process means nothing to the next process."""
        if restart is None:
            pytest.skip("the test class does not define the fixture 'restart'")
        setting.apply(store, 1, {n: n for n in range(8_000)})
        found = list[str]()
        try:
            for number, page in enumerate(store.scan(1, 500)):
                found += page["word"].to_pylist()
                if number in (0, 7):
                    restart()
        except StateUnavailableError:
            return  # the caller scans again
        assert len(found) == len(set(found)), "a key comes twice"
        assert set(found) == {f"w{n}" for n in range(8_000)}

    def test_a_value_that_is_null_is_no_entry(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {1: None, 2: 2})
        assert entries(store, 1) == {("w2",): 2}
        setting.apply(store, 2, {1: 5})
        assert entries(store, 2) == {("w1",): 5, ("w2",): 2}
        assert entries(store, 1) == {("w2",): 2}

    # --- forked children -------------------------------------------------------------------------------------

    @every_kind
    def test_forked_children_read_what_their_parent_reads_or_are_refused(self, setting: Setting, store: Store) -> None:
        """A child with its parent's connection would take replies to its parent's requests."""
        setting.apply(store, 1, {n: 7 * n for n in range(200)})

        def read() -> str:
            for n in range(50):
                numbers = [n, 199 - n]
                if (found := setting.read(store, numbers, None)) != [7 * number for number in numbers]:
                    return f"{numbers}: {found}"
            return "right"

        assert read() == "right", "the connections are open now"
        *children, parent = in_children(read, read)
        assert parent == "right"
        assert set(children) in ({"right"}, {"refused"}), children
        assert read() == "right"

    # --- while batches commit --------------------------------------------------------------------------------

    @every_versioned_kind
    def test_no_reader_ever_sees_half_a_batch(self, setting: Setting, store: Store) -> None:
        """Every batch adds 1 to all keys, so as of txid 7 every value is 7. Three threads read without pauses."""
        keys = list(range(1_500))

        def commit(txid: int) -> None:
            setting.apply(store, txid, {n: 1 for n in keys})

        def read(at: int, as_of: int) -> str:
            values = set(setting.read(store, keys[at :: 3 + at * 7], as_of))
            return "" if values == {as_of} else f"as of {as_of}: {sorted(map(str, values))}"

        commit(1)
        txid = read_while_committing(3, read, commit, after=1, least=20, passing=(SnapshotMovedError,))
        assert marker(store) == txid

    @every_versioned_kind
    def test_a_new_key_is_there_from_its_own_batch_on(self, setting: Setting, store: Store) -> None:
        """Batch n writes 40 keys with value n.

        One thread reads as of the last commit, another as of the batch after it.
        """

        def commit(txid: int) -> None:
            setting.apply(store, txid, {txid * 40 + i: txid for i in range(40)})

        def read(ahead: int, committed: int) -> str:
            as_of = committed + ahead
            batches = range(max(1, as_of - 2), as_of + 3)
            values = setting.read(store, [n * 40 + i for n in batches for i in range(40)], as_of)
            expected = [n if n <= as_of else None for n in batches for _ in range(40)]
            return "" if values == expected else f"as of {as_of}: {values}"

        passing = (SnapshotMovedError, StateRecoveringError)
        read_while_committing(2, read, commit, after=0, least=100, passing=passing)


def read_while_committing(
    readers: int,
    read: Callable[[int, int], str],
    commit: Callable[[int], None],
    *,
    after: int,
    least: int,
    passing: tuple[type[Exception], ...],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Commit the batches after `after` while threads read without a pause. Return the last txid.

    ``read(reader, committed)`` returns the fault, "" if there is none; a read that raises one of `passing` does not
    count. The function ends when each reader has read more than 20 times, and commits have passed `least`. A store
    may be slow: only a reader that finishes no read for a while is a fault.
    """
    committed, wrong, reads = [after], list[str](), [0] * readers
    enough = threading.Event()

    def reader(at: int) -> None:
        while not enough.is_set():
            try:
                problem = read(at, committed[0])
            except passing:
                continue
            if problem:
                wrong.append(problem)
            reads[at] += 1

    threads = [threading.Thread(target=reader, args=(at,)) for at in range(readers)]
    for thread in threads:
        thread.start()
    txid, slowest = after, 0
    began = advanced = clock()
    while not enough.is_set():
        txid += 1
        commit(txid)
        committed[0] = txid
        now = clock()
        if min(reads) > slowest:
            slowest, advanced = min(reads), now
        if wrong or now - advanced > _PATIENCE_SECS or (now - began > 1 and txid > least and slowest > 20):
            enough.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert slowest > 20 and txid > least, (
        f"a reader finished {slowest} reads beside {txid - after} commits, and no further one within "
        f"{_PATIENCE_SECS} seconds: reads must not wait for commits, and must be faster than two of them"
    )
    return txid
