"""As much of the package deltalake as states in Delta tables use, over the world's object store.

A version is one object that is created unless it is there. A commit that comes second is checked against the versions
that came first, by the rules of deltalake; ``test_fake_delta.py`` holds them against the real one.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import exceptions

from tests.simulator.bucket import Bucket
from tests.simulator.in_world import Worlds
from tests.simulator.scheduler import Wrong

_MOST_TRIES = 15


class Added(NamedTuple):
    """A file that a version adds."""

    path: str
    size: int
    partitions: Mapping[str, str]
    at: int
    changes: bool
    stats: str


class Removed(NamedTuple):
    """A file that a version removes."""

    path: str
    changes: bool
    at: int
    size: int
    partitions: Mapping[str, str]


class Transaction(NamedTuple):
    """The number of an application."""

    app_id: str
    version: int


@dataclass(frozen=True)
class Change:
    """The changes that a version makes."""

    numbers: Mapping[str, int]
    added: Sequence[Added] = ()
    removed: Sequence[Removed] = ()
    properties: Mapping[str, str] | None = None

    def collides(self, later: "Change", read: Container[str]) -> str:
        """Return why a version that was to follow an earlier one cannot follow this one; "" if it can.

        `read` are the paths of the files of that earlier version."""
        if self.properties is not None:
            return "Metadata changed since last commit."
        if any(file.changes and file.path in read for file in self.removed):
            return "Commit failed: a concurrent transaction deleted data this operation read."
        if self.numbers.keys() & later.numbers.keys():
            return "Concurrent transaction failed."
        return ""


@dataclass(frozen=True)
class Snapshot:
    """A table as of a version."""

    version: int = -1
    numbers: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    """The size of each file, by its path."""
    change: Change | None = None

    def after(self, change: Change) -> "Snapshot":
        """Return the table as of the version that makes a change to this one."""
        removed = {file.path for file in change.removed}
        added = {file.path: file.size for file in change.added}
        files = {path: size for path, size in self.files.items() if path not in removed} | added
        properties = self.properties if change.properties is None else {**self.properties, **change.properties}
        return Snapshot(self.version + 1, {**self.numbers, **change.numbers}, properties, files, change)


class FakeTable:
    """In the place of `deltalake.DeltaTable`."""

    def __init__(self, address: str, version: int | None = None, storage_options: Any = None) -> None:
        self._address = address
        self._now = self._loaded(version)
        self.alter = SimpleNamespace(set_table_properties=self._set_properties)

    @classmethod
    def create(
        cls,
        address: str,
        schema: pa.Schema,
        mode: str,
        configuration: Mapping[str, str],
        commit_properties: Sequence[Transaction],
        **_: Any,
    ) -> Self:
        """Create a table where there is none."""
        table = object.__new__(cls)
        table._address, table._now = address, Snapshot()
        if table._bucket.below(f"{address}/_delta_log"):
            raise exceptions.DeltaError("Generic error: A Delta Lake table already exists at that location.")
        table._commit(Change(dict(commit_properties), properties=configuration))
        return table

    @property
    def _bucket(self) -> Bucket:
        bucket: Bucket = Worlds.now.bucket
        return bucket

    # --- read ----------------------------------------------------------------------------------------------------

    def version(self) -> int:
        return self._now.version

    def schema(self) -> None:
        """Nothing: the library hands it on as it is."""

    def metadata(self) -> Any:
        return SimpleNamespace(configuration=self._now.properties)

    def transaction_version(self, application: str) -> int | None:
        return self._now.numbers.get(application)

    def get_add_actions(self) -> pa.RecordBatch:
        paths, sizes = [*self._now.files], [*self._now.files.values()]
        return pa.record_batch({"path": pa.array(paths, pa.string()), "size_bytes": pa.array(sizes, pa.int64())})

    def update_incremental(self) -> None:
        """Load the versions that came since."""
        last = self._last()
        if last > self._now.version and self._now.version + 1 not in self._versions():
            raise exceptions.DeltaError(f"Kernel error: version {self._now.version + 1} is missing")
        if last > self._now.version:
            self._now = self._at(last)

    def _loaded(self, version: int | None) -> Snapshot:
        versions = self._versions()
        if not versions or (version is not None and version < min(versions)):  # cleaned up
            raise exceptions.TableNotFoundError("Generic delta kernel error: No files in log segment")
        if version is not None and version not in versions:
            raise exceptions.DeltaError(f"Kernel error: there is no version {version}")
        return self._at(max(versions) if version is None else version)

    def _last(self) -> int:
        return max(self._versions(), default=-1)

    def _versions(self) -> set[int]:
        self._bucket.read("list", f"{self._address}/_delta_log")
        names = self._bucket.below(f"{self._address}/_delta_log")
        return {int(name.removesuffix(".json")) for name in names if name.endswith(".json")}

    def _at(self, version: int) -> Snapshot:
        snapshot: Snapshot = self._bucket.objects[self._path(version)].content
        return snapshot

    def _path(self, version: int) -> str:
        return f"{self._address}/_delta_log/{version:020}.json"

    # --- write ---------------------------------------------------------------------------------------------------

    def create_write_transaction(
        self, actions: Sequence[Any], mode: str, schema: Any, commit_properties: Sequence[Transaction], **_: Any
    ) -> None:
        added = [action for action in actions if isinstance(action, Added)]
        removed = [action for action in actions if isinstance(action, Removed)]
        if mode == "overwrite":
            removed += self._everything()
        self._commit(Change(dict(commit_properties), added, removed))

    def overwrite(self, commit_properties: Sequence[Transaction]) -> None:
        """Make a version without files."""
        self._commit(Change(dict(commit_properties), removed=self._everything()))

    def _everything(self) -> list[Removed]:
        now = Worlds.now.scheduler.time()
        return [Removed(path, True, int(now * 1000), size, {}) for path, size in self._now.files.items()]

    def _set_properties(
        self, properties: Mapping[str, str], raise_if_not_exists: bool, commit_properties: Sequence[Transaction]
    ) -> None:
        self._commit(Change(dict(commit_properties), properties=properties))
        self.update_incremental()

    def _commit(self, change: Change) -> None:
        """Make the next version. If others came first, check them, and make the version after theirs."""
        bucket, seen = self._bucket, self._now
        for _ in range(_MOST_TRIES):
            made = seen.after(change)
            path = self._path(made.version)
            if bucket.write("commit", path, lambda path=path, made=made: bucket.create(path, made)):  # type: ignore[misc]
                return
            last = self._last()
            for version in range(seen.version + 1, last + 1):
                winner = self._at(version).change
                if winner is None or (why := winner.collides(change, self._now.files)):
                    raise exceptions.CommitFailedError(f"Failed to commit transaction: {why}")
            seen = self._at(last)
        raise exceptions.CommitFailedError("Failed to commit transaction: too many tries")

    # --- upkeep --------------------------------------------------------------------------------------------------

    def create_checkpoint(self) -> None:
        bucket, name = self._bucket, f"{self._address}/_delta_log/{self._now.version:020}.checkpoint.parquet"
        bucket.write("checkpoint", name, lambda: bucket.put(name, b""))

    def cleanup_metadata(self) -> None:
        """Delete the versions before the last checkpoint that are too old for the world."""
        bucket, folder = self._bucket, f"{self._address}/_delta_log"
        checkpoints = [name for name in bucket.below(folder) if name.endswith(".checkpoint.parquet")]
        oldest = bucket.world.scheduler.now - bucket.world.setting.delta.log_kept
        for version in sorted(self._versions()):
            path = self._path(version)
            if version < int(max(checkpoints).partition(".")[0]) and bucket.objects[path].at < oldest:
                bucket.write("delete", path, lambda path=path: bucket.delete(path))  # type: ignore[misc]


def _overwritten(table: FakeTable, data: Any, *, commit_properties: Sequence[Transaction], **_: Any) -> None:
    """As `write_deltalake` of no rows, with the schema of a new state."""
    table.overwrite(commit_properties)


def check_table(bucket: Bucket, address: str, marker: int) -> None:
    """The last version of a state's table is whole, as of this batch, and has each row of a key and a batch once.

    Raises Wrong.
    """
    versions = [name for name in bucket.below(f"{address}/_delta_log") if name.endswith(".json")]
    table: Snapshot = bucket.objects[f"{address}/_delta_log/{max(versions)}"].content
    numbers, rows = table.numbers, Counter[Any]()
    if numbers.get("trident/state") != marker:
        raise Wrong(f"table {address} ends with batch {numbers.get('trident/state')}, the last one is {marker}")
    missing = [path for path in table.files if f"{address}/{path}" not in bucket.objects]
    if missing:
        raise Wrong(f"table {address} names files that are not there: {missing}")
    for path in table.files:
        found = pq.read_table(BytesIO(bucket.objects[f"{address}/{path}"].content))
        rows.update(map(repr, found.drop_columns([found.column_names[-3]]).to_pylist()))
    twice = [row for row, count in rows.items() if count > 1]
    if twice:
        raise Wrong(f"table {address} has rows twice: {twice}, in {[*table.files]}")


MODULE = SimpleNamespace(
    DeltaTable=FakeTable,
    Transaction=Transaction,
    CommitProperties=lambda app_transactions: app_transactions,
    PostCommitHookProperties=lambda **_: None,
    transaction=SimpleNamespace(AddAction=Added, RemoveAction=Removed),
    write_deltalake=_overwritten,
    exceptions=exceptions,
)
"""In the place of the module deltalake."""
