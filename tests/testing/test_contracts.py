"""The contracts notice what they are for: each broken store and spout fails with a verdict that says why."""

import inspect
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import trident.testing
from trident.base.attempt import TransactionAttempt
from trident.base.errors import SnapshotMovedError
from trident.base.spark_types import parse_schema
from trident.state import BackingMapState, StateKind
from trident.testing import FactoryStorage, SpoutContract, StoreContract, TestSource
from trident.testing.contracts.spout_calls import Step, walk
from trident.testing.contracts.stores import Setting
from trident.testing.contracts.stores.reading import read_while_committing
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import SpoutExecutor, SpoutKind
from trident_spouts.rows import table_of
from trident_spouts.shared_reading import SharesEmission

WORDS = ["a", "b", "c", "d", "e"]
SCHEMA = parse_schema("word string")


@dataclass
class Broken:
    """A source of words, one a batch, with one fault."""

    fault: str
    kind: SpoutKind = SpoutKind.TRANSACTIONAL
    schema: Any = SCHEMA

    def open(self) -> SpoutExecutor:
        return BrokenExecutor(self.fault)


class BrokenExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, fault: str) -> None:
        self.fault, self.own = fault, 0

    def plan(self, attempt: TransactionAttempt, previous: Any, time: float, budget: Budget = NO_LIMIT) -> Any:
        at = 0 if previous is None else previous["at"] + 1
        if self.fault == "position of its own":
            at, self.own = self.own, self.own + 1
        more: Any = {1} if self.fault == "no json" else None
        return {"at": at, "more": more} if at < len(WORDS) else None

    def emit(self, attempt: TransactionAttempt, metadata: Any) -> ArrowEmission:
        rows = [WORDS[metadata["at"]]]
        if self.fault == "other rows in a replay" and attempt.attempt:
            rows = ["other"]
        elif self.fault == "doubled":
            rows = rows * 2
        after = metadata if self.fault == "position only after the emission" else None
        return ArrowEmission(table_of(rows, SCHEMA, "Broken"), after)


def walked(spout: Any) -> list[Step]:
    with closing(spout.open()) as executor:
        return list(walk(executor))


@pytest.mark.parametrize(
    ("fault", "test", "verdict"),
    [
        ("no json", "metadata_and_positions_are_json", "the metadata of batch 1 is not JSON"),
        (
            "position only after the emission",
            "a_position_that_only_an_emission_tells_is_not_planned_ahead",
            "it plans ahead, but batch 1 knows its position only after the emission",
        ),
        (
            "other rows in a replay",
            "a_replay_within_a_run_holds_what_the_kind_promises",
            r"attempt 1 at batch 1 has different rows. Missing: Row\(word='a'\); unexpected: Row\(word='other'\)",
        ),
        (
            "other rows in a replay",
            "a_transactional_batch_is_the_same_after_a_restart",
            "batch 5, emitted by another run from its metadata, has different rows",
        ),
        (
            "position of its own",
            "plans_that_were_not_used_bring_no_row_twice",
            r"rows that were lost: Row\(word='a'\), .*; rows that were read twice: none",
        ),
        (
            "position of its own",
            "every_row_comes_once_over_restarts",
            r"rows that were lost: none; rows that were read twice: Row\(word='a'\)",
        ),
        ("doubled", "success_may_be_repeated", r"rows that were read twice: Row\(word='a'\), "),
    ],
)
def test_a_broken_spout_fails_with_a_verdict(fault: str, test: str, verdict: str) -> None:
    arguments: dict[str, Any] = {"make_spout": lambda: Broken(fault)}
    method = getattr(SpoutContract(), f"test_{test}")
    if "expected" in method.__code__.co_varnames:
        sound = fault if fault == "other rows in a replay" else "none"
        arguments["expected"] = walked(Broken(sound))
    if fault == "position of its own" and "restarts" in test:
        arguments["make_spout"] = lambda: BrokenOverRestarts()
    with pytest.raises(AssertionError, match=verdict):
        method(**arguments)


class BrokenOverRestarts(Broken):
    """A source that begins at its start again in each run."""

    def __init__(self) -> None:
        super().__init__("")

    def open(self) -> SpoutExecutor:
        class Executor(BrokenExecutor):
            first = True

            def plan(self, attempt: TransactionAttempt, previous: Any, time: float, budget: Budget = NO_LIMIT) -> Any:
                at = 0 if self.first and attempt.txid < 3 else previous["at"] + 1
                self.first = False
                return {"at": at} if at < len(WORDS) else None

        return Executor("")


def test_a_sound_spout_of_one_batch_is_too_short() -> None:
    expected = SpoutContract.expected.__wrapped__  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="the source has 1 batches; the tests need at least"):
        expected(SpoutContract(), lambda: TestSource("word string", [["a"]]))


# --- faults of a source of ranges ------------------------------------------------------------------------------------

ROWS = {"p": list(range(5)), "q": list(range(100, 103)), "r": list(range(200, 207))}
EVERY = [n for rows in ROWS.values() for n in rows]


shown = list(ROWS)
"""The partitions that are there."""


def show(names: Sequence[str]) -> None:
    shown[:] = names


@dataclass
class Planted:
    """A source of three partitions, of which a batch names ranges, with one fault planted, or none."""

    fault: str = "none"
    kind: SpoutKind = SpoutKind.TRANSACTIONAL
    schema: Any = field(default_factory=lambda: parse_schema("n long"))

    def open(self) -> SpoutExecutor:
        return PlantedExecutor(self)


class PlantedExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: Planted) -> None:
        self.fault, self.schema = spout.fault, spout.schema
        self.own: dict[str, int] = {}
        """The positions that a wrong executor keeps itself."""

    def plan(self, attempt: TransactionAttempt, previous: Any, time: float, budget: Budget = NO_LIMIT) -> Any:
        ends = dict.fromkeys(ROWS, 0) | ({} if previous is None else previous["ends"])
        if self.fault == "a failed attempt moves the position":
            ends |= self.own
        take = budget.rows_within(2)
        ranges = {}
        for name, rows in ROWS.items():
            start = ends[name]
            if name not in shown:
                if self.fault == "a partition that is away loses its position":
                    del ends[name]
                continue
            if start and self.fault == "gap":
                start += 1
            if start and self.fault == "overlap":
                start -= 1 if start < len(rows) else 0
            if start < len(rows) and not (name == "q" and self.fault == "lost partition"):
                ranges[name] = [start, min(len(rows), start + take)]
                ends[name] = start + 2 if self.fault == "a small batch is skipped over" else ranges[name][1]
            elif self.fault == "a partition that ended loses its position":
                del ends[name]
        return {"ranges": ranges, "ends": ends} if ranges else None

    def emit(self, attempt: TransactionAttempt, metadata: Any) -> Any:
        ranges = dict(metadata["ranges"])
        if attempt.attempt and self.fault == "a replay differs":
            ranges = {name: [start, start + 1] for name, (start, _) in ranges.items()}
        if attempt.attempt and self.fault == "a replay loses a partition":
            ranges.pop(max(ranges))
        if attempt.epoch > 1 and self.fault == "another run reads other rows":
            ranges = {name: [start + 1, end + 1] for name, (start, end) in ranges.items()}
        for name, (_, end) in ranges.items():
            self.own[name] = end
        shares = tuple((name, *bounds) for name, bounds in ranges.items())
        emission = LosingWorkers if self.fault == "workers lose a partition" else SharesEmission
        return emission(shares, rows_of_range, self.schema)


def rows_of_range(share: tuple[str, int, int]) -> list[int]:
    name, start, end = share
    return ROWS[name][start:end]


class LosingWorkers(SharesEmission):
    """An emission whose workers leave out its last share."""

    def reader(self, spark: Any, names: Any) -> Any:
        whole = super().reader(spark, names)
        assert whole is not None
        return whole._replace(numbers=whole.numbers.limit(len(self.shares) - 1))


def failed(fault: str, tmp_path: Path, spark: Any = None) -> dict[str, str]:
    """The tests of the contract, but for those with topologies, that fail over a source, each with its verdict."""
    contract, verdicts = SpoutContract(), {}
    for name in sorted(vars(SpoutContract)):
        if not name.startswith("test_") or "topology" in name:
            continue
        test = getattr(contract, name)
        given: dict[str, Any] = {"make_spout": lambda: Planted(fault), "every_row": EVERY, "workers": spark}
        given |= {"tmp_path": tmp_path, "partitions": list(ROWS), "show_partitions": show}
        show(list(ROWS))
        try:
            given["expected"] = walked(Planted(fault))
            test(**{key: given[key] for key in inspect.signature(test).parameters})
        except AssertionError as verdict:
            verdicts[name.removeprefix("test_")] = str(verdict).splitlines()[0]
        except pytest.skip.Exception:
            pass
    return verdicts


FAULTS = {
    "gap": "it_brings_every_row_of_the_source_once",
    "overlap": "it_brings_every_row_of_the_source_once",
    "lost partition": "it_brings_every_row_of_the_source_once",
    "a partition that ended loses its position": "it_brings_every_row_of_the_source_once",
    "a partition that is away loses its position": "partitions_that_come_and_go_bring_every_row_once",
    "a replay differs": "a_replay_within_a_run_holds_what_the_kind_promises",
    "a replay loses a partition": "every_row_comes_once_though_attempts_fail",
    "another run reads other rows": "a_transactional_batch_is_the_same_after_a_restart",
    "a failed attempt moves the position": "a_failed_attempt_moves_no_batch_that_was_planned_ahead",
    "a small batch is skipped over": "batches_of_any_size_bring_every_row_once",
}


def test_a_sound_source_passes_every_test(tmp_path: Path) -> None:
    assert failed("none", tmp_path) == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path) -> None:
    verdicts = failed(fault, tmp_path)
    assert FAULTS[fault] in verdicts, verdicts


@pytest.mark.spark
def test_a_share_that_workers_lose_is_found(spark: Any, tmp_path: Path) -> None:
    assert failed("none", tmp_path, spark) == {}
    (verdict,) = failed("workers lose a partition", tmp_path, spark).items()
    assert verdict[0] == "workers_read_what_the_driver_reads"
    assert "batch 1 (" in verdict[1]
    assert "read by workers, has different rows. Missing: Row(n=200), Row(n=201)" in verdict[1]


# --- stores -----------------------------------------------------------------------------------------------------------


class DictMap:
    """A map over a dict that outlives it, with one fault."""

    def __init__(self, entries: dict[bytes, bytes], fault: str = "") -> None:
        self.entries, self.fault = entries, fault

    def multiGet(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.entries.get(key) for key in keys]

    def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
        put = list(zip(keys, values, strict=True))
        if self.fault == "loses":
            put = put[:1] + put[2:]
        self.entries.update(put)

    def multiRemove(self, keys: list[bytes]) -> None:
        for key in keys:
            self.entries.pop(key, None)

    def keys(self) -> Iterator[bytes]:
        return iter(list(self.entries))


class Servers(dict[tuple[str, str], dict[bytes, bytes]]):
    """The dicts of states by their identity, and a factory over them."""

    def factory(self, kind: StateKind, fault: str = "") -> BackingMapState:
        def open_map(identity: Any) -> Any:
            return DictMap(self.setdefault((identity.topology, identity.name), {}), fault)

        return BackingMapState(kind, open_map)


class TestThirdPartyStore(StoreContract):
    """A store that somebody brings: a factory is all that there is to give. It has one kind of state only."""

    kinds = (StateKind.OPAQUE,)

    @pytest.fixture
    def factory(self) -> Any:
        return Servers().factory


@pytest.mark.parametrize(
    "test", ["a_restart_finds_what_was_there", "a_key_that_is_not_there_reads_null_and_each_row_is_answered"]
)
def test_a_store_that_loses_writes_fails(test: str, tmp_path: Path) -> None:
    servers = Servers()
    storage = FactoryStorage(lambda kind: servers.factory(kind, "loses"), tmp_path)
    setting = Setting(storage)
    given = {"setting": setting, "store": setting.started(), "storage": storage, "kind": StateKind.OPAQUE}
    method = getattr(StoreContract(), f"test_{test}")
    with pytest.raises(AssertionError):
        method(**{name: given[name] for name in inspect.signature(method).parameters})
    storage.close()


# --- imports ----------------------------------------------------------------------------------------------------------


def ran(program: str) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    return done.stdout + done.stderr


def test_only_the_contracts_and_engines_need_pytest() -> None:
    contracts = {name for name in trident.testing.__all__ if name.endswith("Contract")}
    places = {
        "FactoryStorage",
        "Storage",
        "ChangingSource",
        "MessageQueue",
        "FunctionPlace",
        "OutputLog",
        "OutputPlace",
    }
    names = sorted(set(trident.testing.__all__) - contracts - places)
    program = f"import sys; from trident.testing import {', '.join(names)}; print('pytest' in sys.modules)"
    assert ran(program) == "False\n"


def test_without_pytest_a_contract_says_what_to_install() -> None:
    program = "import sys; sys.modules['pytest'] = None; from trident.testing import StoreContract"
    assert "pytest is not installed: pip install 'trident-pyspark[testing]'" in ran(program)


class SlowStore:
    """A store with a clock of its own: each commit takes five seconds, and a read takes as long as a commit."""

    def __init__(self, reads: bool) -> None:
        self.now, self.reads, self.last_read = 0.0, reads, 0

    def commit(self, txid: int) -> None:
        self.now += 5
        while self.reads and self.last_read < txid - 1:
            time.sleep(0.001)

    def read(self, reader: int, committed: int) -> str:
        if not self.reads or committed == self.last_read:
            raise SnapshotMovedError("two commits have overtaken the read")
        self.last_read = committed
        return ""

    def race(self) -> None:
        read_while_committing(
            1, self.read, self.commit, after=0, least=3, passing=(SnapshotMovedError,), clock=lambda: self.now
        )


def test_a_slow_store_has_the_time_that_its_reads_take() -> None:
    store = SlowStore(reads=True)
    store.race()
    assert store.now > 100


def test_a_reader_that_finishes_no_read_is_named() -> None:
    with pytest.raises(
        AssertionError, match="a reader finished 0 reads beside 7 commits, and no further one within 30"
    ):
        SlowStore(reads=False).race()
