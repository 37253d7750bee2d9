"""Tests of `apply`: the values that it writes, the txids that it accepts, its answers to repeats, and its refusals."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from trident.base.errors import StateBehindError, StateError, StateValueError, UserFunctionError
from trident.testing.contracts.stores.fixtures import (
    COUNT,
    FIRST,
    JOIN,
    KEYS,
    KINDS,
    VERSIONED,
    Setting,
    Storage,
    entries,
    every_kind,
    every_versioned_kind,
    marker,
    opened,
)
from trident_state import binary_arrays
from trident_state.state_shape import Combine, StateKind
from trident_state.store import Store
from trident_state.store_messages import Applied, Update

MANY = 2_500
"""A number of keys so large that no store reads or writes them in one chunk."""


CELLS = [(kind, keys) for kind in KINDS for keys in KEYS]


class WriteContract:
    @pytest.fixture(params=CELLS, ids=lambda cell: f"{cell[0].value}-{cell[1]}")
    def _cell(self, request: pytest.FixtureRequest) -> tuple[StateKind, str]:
        return request.param  # type: ignore[no-any-return]

    @pytest.fixture
    def keyed(self, storage: Storage, _cell: tuple[StateKind, str]) -> Setting:
        """Return a setting for each kind of state with each kind of key."""
        return Setting(storage, _cell[0], KEYS[_cell[1]])

    @pytest.fixture
    def numbers(self, _cell: tuple[StateKind, str]) -> list[int]:
        return [0] if _cell[1] == "global" else list(range(MANY))

    # --- the rule, line by line ------------------------------------------------------------------------------

    def test_where_nothing_is_stored_the_delta_is_the_value(self, keyed: Setting, numbers: list[int]) -> None:
        store = keyed.started()
        applied = keyed.apply(store, 1, {n: n + 5 for n in numbers}, values=True)
        assert applied.values is not None
        assert applied.values.to_pylist() == [n + 5 for n in numbers]
        assert (applied.written, applied.skipped) == (len(numbers), 0)
        assert keyed.read(store, numbers, None) == [n + 5 for n in numbers]

    def test_a_later_batch_combines_with_the_stored_value(self, keyed: Setting, numbers: list[int]) -> None:
        store = keyed.started()
        keyed.apply(store, 1, {n: 100 for n in numbers})
        assert keyed.answers(store, 2, {n: n for n in reversed(numbers)}) == [100 + n for n in reversed(numbers)]
        assert keyed.read(store, numbers, None) == [100 + n for n in numbers]
        if keyed.kind is not StateKind.NON_TRANSACTIONAL:
            assert keyed.read(store, numbers, 1) == [100 for _ in numbers]

    def test_the_same_batch_again_changes_nothing_and_is_answered_alike(
        self, keyed: Setting, numbers: list[int]
    ) -> None:
        store = keyed.started()
        keyed.apply(store, 1, {n: 100 for n in numbers})
        first = keyed.apply(store, 2, {n: n for n in numbers}, values=True)
        again = keyed.apply(store, 2, {n: n for n in numbers}, values=True)
        assert first.values is not None and again.values is not None
        assert again.values.equals(first.values)
        assert (again.written, again.skipped) == (0, len(numbers))
        assert marker(store) == 2
        assert keyed.read(store, numbers, None) == [100 + n for n in numbers]

    def test_an_older_batch_changes_nothing(self, keyed: Setting, numbers: list[int]) -> None:
        store = keyed.started()
        for txid in (1, 2, 3):
            keyed.apply(store, txid, {n: txid for n in numbers})
        before = keyed.read(store, numbers, None)
        assert keyed.apply(store, 1, {n: 1000 for n in numbers}) == Applied(None, 0, len(numbers))
        assert marker(store) == 3
        assert keyed.read(store, numbers, None) == before == [6 for _ in numbers]

    def test_a_batch_without_keys_moves_the_marker(self, keyed: Setting) -> None:
        store = keyed.started(birth=4)
        assert keyed.apply(store, 5, {}) == Applied(None, 0, 0)
        applied = keyed.apply(store, 6, {}, values=True)
        assert applied.values is not None and applied.values.to_pylist() == []
        assert (marker(store), opened(store)) == (6, {None})
        assert entries(store, None) == {}

    def test_a_gap_is_refused_with_the_marker_and_changes_nothing(self, keyed: Setting, numbers: list[int]) -> None:
        store = keyed.started(birth=2)
        keyed.apply(store, 3, {n: 1 for n in numbers})
        for update in ({n: 5 for n in numbers}, {}):
            with pytest.raises(StateBehindError, match="state 'counts'.*3.*5") as caught:
                keyed.apply(store, 5, update)
            assert caught.value.marker == 3
        assert (marker(store), opened(store)) == (3, {None})
        assert keyed.read(store, numbers, None) == [1 for _ in numbers]

    def test_keys_that_a_batch_does_not_name_stay(self, keyed: Setting, numbers: list[int]) -> None:
        store = keyed.started()
        keyed.apply(store, 1, {n: n for n in numbers})
        some = {n: 1000 for n in numbers[:: len(numbers) // 3 or 1]}
        keyed.apply(store, 2, some)
        assert keyed.read(store, numbers, 2 if keyed.kind is not StateKind.NON_TRANSACTIONAL else None) == [
            n + some.get(n, 0) for n in numbers
        ]

    # --- answers ---------------------------------------------------------------------------------------------

    @every_kind
    def test_values_are_given_only_if_asked_for_and_in_the_order_of_the_keys(
        self, setting: Setting, store: Store
    ) -> None:
        assert setting.apply(store, 1, {3: 3, 1: 1}).values is None
        applied = setting.apply(store, 2, {2: 2, 3: 30, 1: 10}, values=True)
        assert applied.values is not None
        assert (applied.values.type, applied.values.to_pylist()) == (pa.int64(), [2, 33, 11])

    @every_versioned_kind
    def test_a_batch_done_before_is_answered_by_what_it_gave(self, setting: Setting, store: Store) -> None:
        """The answer is the same after the next batch, too. A driver repeats an apply if the log lost a COMMITTED."""
        setting.apply(store, 1, {1: 10, 2: 20})
        setting.apply(store, 2, {1: 1})
        assert setting.answers(store, 1, {1: 10, 2: 20}) == [10, 20]

    # --- Python combiners ------------------------------------------------------------------------------------

    @every_kind
    def test_a_python_combiner_is_called_with_the_stored_value_first(self, storage: Storage, kind: StateKind) -> None:
        setting = Setting(storage, kind, value=pa.string(), combine=JOIN)
        store = setting.started()
        setting.apply(store, 1, {n: "a" for n in range(MANY)})
        for _ in range(2):
            assert setting.answers(store, 2, {n: f"b{n}" for n in range(MANY)}) == [f"ab{n}" for n in range(MANY)]

    @every_kind
    def test_a_combiner_that_raises_leaves_everything_as_it_was(self, storage: Storage, kind: StateKind) -> None:
        broken = [True]

        def combine(stored: int, delta: int) -> int:
            if broken and delta == 7:
                raise ZeroDivisionError("seven")
            return stored + delta

        setting = Setting(storage, kind, combine=Combine("Mine", combine))
        store = setting.started()
        setting.apply(store, 1, {n: 100 for n in range(MANY)})
        update = {n: 7 if n == MANY - 1 else 1 for n in range(MANY)}
        with pytest.raises(UserFunctionError, match=r"Mine.*\(writing\.py:\d+\).*ZeroDivisionError: seven"):
            setting.apply(store, 2, update)
        assert marker(store) == 1
        assert setting.read(store, list(range(MANY)), 1 if kind in VERSIONED else None) == [100] * MANY
        broken.clear()
        setting.apply(store, 2, update)
        assert setting.read(store, [0, MANY - 1], None) == [101, 107]

    @every_kind
    def test_a_combiner_that_gives_another_type_is_refused(self, storage: Storage, kind: StateKind) -> None:
        setting = Setting(storage, kind, combine=Combine("Mine", lambda stored, delta: f"{stored}{delta}"))
        store = setting.started()
        setting.apply(store, 1, {1: 1})
        with pytest.raises(StateValueError, match=r"Mine.*(str|'12').*bigint"):
            setting.apply(store, 2, {1: 2})
        assert (marker(store), setting.read(store, [1], None)) == (1, [1])

    # --- updates that are too long for one array ----------------------------------------------------------------------

    @every_kind
    @pytest.mark.parametrize("form", ["text", "numbers", "numbers, combined here"])
    def test_an_update_that_is_too_long_for_one_array_is_written_in_parts(
        self, storage: Storage, kind: StateKind, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An Arrow array holds 2 GB at most. The test lowers that limit, so that a small update is too long."""
        if form == "text":
            setting = Setting(storage, kind, value=pa.string(), combine=JOIN)
            batches: list[dict[int, Any]] = [{n: f"{n}-{txid}" * 5 for n in range(300)} for txid in (1, 2)]
        else:
            native: Any = "sum" if form == "numbers" else None
            setting = Setting(storage, kind, combine=Combine("Sum", COUNT.function, native))
            batches = [{n: n + txid for n in range(300)} for txid in (1, 2)]
        first, second = batches
        store = setting.started()
        monkeypatch.setattr(binary_arrays, "MAX_BYTES", 1_500)
        setting.apply(store, 1, first)
        update = setting.update(2, second)
        chunked = pa.chunked_array([update.deltas.slice(0, 100), update.deltas.slice(100)])
        applied = store.apply(FIRST, replace(update, deltas=chunked), values=True)
        expected = [first[n] + second[n] for n in second]
        assert applied.values is not None and applied.values.to_pylist() == expected
        assert (applied.written, applied.skipped, marker(store), opened(store)) == (300, 0, 2, {None})
        again = store.apply(FIRST, update, values=True)
        assert again.values is not None and (again.values.to_pylist(), again.written) == (expected, 0)
        monkeypatch.undo()
        assert entries(store, None, page_rows=1000) == {(f"w{n}",): first[n] + second[n] for n in second}
        if kind is not StateKind.NON_TRANSACTIONAL:
            assert entries(store, 1, page_rows=1000) == {(f"w{n}",): first[n] for n in first}

    @every_kind
    def test_one_that_broke_off_between_two_parts_is_finished(
        self, storage: Storage, kind: StateKind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        setting = Setting(storage, kind, value=pa.string(), combine=JOIN)
        store = setting.started()
        setting.apply(store, 1, {n: "a" * 20 for n in range(300)})
        storage.secure(store)
        monkeypatch.setattr(binary_arrays, "MAX_BYTES", 1_500)
        poisoned = Combine("Join", lambda stored, delta: stored + delta if delta != "!" else 1 / 0)
        broken = replace(setting, combine=poisoned).open()
        broken.acquire(FIRST)
        with pytest.raises(UserFunctionError, match="division by zero"):
            setting.apply(broken, 2, {n: "b" for n in range(299)} | {299: "!"})
        assert marker(broken) == 1
        storage.secure(broken)
        setting.apply(broken, 2, {n: "b" for n in range(300)})
        monkeypatch.undo()
        expected = "a" * 20 + "b"
        found = entries(broken, None, page_rows=1000)
        assert marker(broken) == 2
        if kind is not StateKind.NON_TRANSACTIONAL:  # which applies the first part twice (at least once)
            assert set(found.values()) == {expected}

    # --- refusals --------------------------------------------------------------------------------------------

    @every_kind
    @pytest.mark.parametrize("native", ["sum", None])
    def test_a_sum_beyond_the_type_is_refused_and_does_not_wrap_around(
        self, storage: Storage, kind: StateKind, native: Any
    ) -> None:
        setting = Setting(storage, kind, combine=Combine("Sum", COUNT.function, native))
        store = setting.started()
        setting.apply(store, 1, {1: 1, 2: 2**63 - 2, 3: -(2**63)})
        assert setting.answers(store, 2, {1: 2**53, 2: 1}) == [2**53 + 1, 2**63 - 1]
        for deltas in ({1: 5, 2: 1}, {1: 5, 3: -1}):
            with pytest.raises(StateValueError, match="state 'counts'.*Sum"):
                setting.apply(store, 3, deltas)
            assert marker(store) == 2
            assert setting.read(store, [1, 2, 3], None) == [2**53 + 1, 2**63 - 1, -(2**63)]

    @every_kind
    def test_a_batch_that_names_a_key_twice_is_not_committed(self, setting: Setting, store: Store) -> None:
        for numbers in ([1, 2, 1], [5, 6, 6]):
            with pytest.raises(StateError, match="state 'counts'"):
                store.apply(FIRST, Update(1, setting.key_table(numbers), pa.array([1, 1, 1], pa.int64())))
        assert marker(store) == 0

    @every_kind
    def test_values_of_another_type_are_refused(self, setting: Setting, store: Store) -> None:
        for deltas in (pa.array([1.5]), pa.array(["1"]), pa.array([1], pa.int32()), pa.array([1, 2], pa.int64())):
            with pytest.raises(StateValueError, match="state 'counts'"):
                store.apply(FIRST, Update(1, setting.key_table([1]), deltas))
        with pytest.raises(StateError, match="state 'counts'"):
            store.apply(FIRST, Update(1, pa.table({"word": [1]}), pa.array([1], pa.int64())))
        assert marker(store) == 0
        assert entries(store, None) == {}
