"""The simulated Delta tables against the package deltalake: any commits in any order collide, and leave the same."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.simulator.bucket import Bucket
from tests.simulator.fake_delta import MODULE
from tests.simulator.in_world import Worlds

SCHEMA = pa.schema([("a", pa.int64())])
NUMBERS = ("marker", "epoch", "merges")
_MEMORY = Path("/dev/shm")  # noqa: S108 (where fsync costs nothing)


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    """A world in which nothing goes wrong."""
    scheduler = SimpleNamespace(point=lambda *_, **__: None, now=0.0, time=time.time, fiber=None)
    setting = SimpleNamespace(delta=SimpleNamespace(hour=3600.0))
    Worlds.now = SimpleNamespace(scheduler=scheduler, setting=setting, ending=True, over=False)
    yield
    Worlds.now = None


class Tables:
    """One table, and two handles of it, with the same calls over either package."""

    def __init__(self, module: Any, address: str, write: Any) -> None:
        self._module, self._address, self._write = module, address, write
        module.DeltaTable.create(
            address,
            SCHEMA,
            mode="error",
            configuration={"trident.x": "0"},
            raise_if_key_not_exists=False,
            storage_options=None,
            commit_properties=self._numbered({"marker": 0}),
        )
        self._handles = [module.DeltaTable(address, version=None, storage_options=None) for _ in range(2)]

    def _numbered(self, numbers: dict[str, int]) -> Any:
        held = [self._module.Transaction(name, number) for name, number in numbers.items()]
        return self._module.CommitProperties(app_transactions=held)

    def call(self, at: int, kind: str, numbers: dict[str, int], name: str) -> tuple[Any, ...]:
        """Do something with a handle. Return how it ended, and the table as a new handle finds it."""
        table, module = self._handles[at], self._module
        hooks = module.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        ended = "done"
        try:
            if kind == "update":
                table.update_incremental()
            elif kind == "properties":
                table.alter.set_table_properties(
                    {"trident.x": name}, raise_if_not_exists=False, commit_properties=self._numbered(numbers)
                )
            else:
                actions: list[Any] = []
                if kind != "overwrite":
                    add = module.transaction.AddAction
                    actions.append(add(name, self._write(name), {}, _now(), kind != "merge", '{"numRecords": 1}'))
                if kind == "merge":
                    remove = module.transaction.RemoveAction
                    actions += [remove(path, False, _now(), 9, {}) for path in self._files(table)[:2]]
                mode = "overwrite" if kind == "overwrite" else "append"
                table.create_write_transaction(
                    actions,
                    mode,
                    table.schema(),
                    commit_properties=self._numbered(numbers),
                    post_commithook_properties=hooks,
                )
                table.update_incremental()
        except deltalake.exceptions.CommitFailedError as error:
            ended = str(error).partition("\n")[0]
            self._handles[at] = module.DeltaTable(self._address, version=None, storage_options=None)
        return (ended, *self._seen(self._handles[at]), *self._seen(self._last()))

    def _last(self) -> Any:
        return self._module.DeltaTable(self._address, version=None, storage_options=None)

    def _seen(self, table: Any) -> tuple[Any, ...]:
        numbers = [table.transaction_version(name) for name in NUMBERS]
        return table.version(), numbers, table.metadata().configuration["trident.x"], self._files(table)

    def _files(self, table: Any) -> list[str]:
        return sorted(pa.table(table.get_add_actions()).column("path").to_pylist())


def _now() -> int:
    return int(time.time() * 1000)


CALLS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["append"] * 4 + ["merge"] * 4 + ["overwrite", "properties", "update"]),
    st.dictionaries(st.sampled_from(NUMBERS), st.integers(1, 3), min_size=1, max_size=2),
)


# Files that came and went after the version on which a commit builds are no files that it read.
@example([*[(1, kind, {"marker": 1}) for kind in ("append", "append", "overwrite")], (0, "append", {"epoch": 1})])
@settings(max_examples=25)
@given(st.lists(CALLS, min_size=2, max_size=8))
def test_commits_collide_and_leave_the_same(calls: list[tuple[int, str, dict[str, int]]]) -> None:
    scheduler = Worlds.now.scheduler
    scheduler.now, scheduler.time = 0.0, time.time
    bucket = Worlds.now.bucket = Bucket(Worlds.now, Random(0))
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:

        def written(name: str) -> int:
            pq.write_table(pa.table({"a": [1]}), Path(folder) / name)
            return (Path(folder) / name).stat().st_size

        real = Tables(deltalake, folder, written)
        fake = Tables(MODULE, "sim://table", lambda name: bucket.put(f"sim://table/{name}", b"") and 9)
        for number, (at, kind, numbers) in enumerate(calls):
            assert fake.call(at, kind, numbers, f"{number}.parquet") == real.call(
                at, kind, numbers, f"{number}.parquet"
            )


def test_a_table_is_created_once() -> None:
    Worlds.now.bucket = bucket = Bucket(Worlds.now, Random(0))
    Tables(MODULE, "sim://table", None)
    with pytest.raises(deltalake.exceptions.DeltaError, match="already exists"):
        Tables(MODULE, "sim://table", None)
    with pytest.raises(deltalake.exceptions.TableNotFoundError):
        MODULE.DeltaTable("sim://other")
    assert bucket.below("sim://table") == ["_delta_log/00000000000000000000.json"]
