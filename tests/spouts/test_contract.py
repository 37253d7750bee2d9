"""Every spout of the library keeps the contract of all spouts."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.spouts import ReplayingSpout, Varied
from trident.spouts import (
    BatchSpout,
    Csv,
    FeederBatchSpout,
    FileSpout,
    FixedBatchSpout,
    IterableSpout,
    Json,
    OpaquePartitionedSpout,
    PartitionedSpout,
    PollingSpout,
    RateSpout,
    SpoutKind,
)
from trident.testing import SpoutContract, TestSource

ROWS = [("cow", 1), ("moon", 2), ("cow", 3), ("dog", 4), ("dog", 4), ("spoon", 5), ("dish", 6)]
FIELDS = "word string, n long"
MakeSpout = Callable[[], Any]


class TestFixedBatchSpout(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS

    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        return lambda: FixedBatchSpout(FIELDS, [ROWS[:3], [], ROWS[3:]])


@pytest.mark.parametrize("kind", SpoutKind)
class TestTestSource(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS

    @pytest.fixture
    def make_spout(self, kind: SpoutKind) -> MakeSpout:
        return lambda: TestSource(FIELDS, [ROWS[:3], [], ROWS[3:]], kind)


class TestReplayingSpout(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS

    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        partitions = {"p": ROWS[:4], "q": ROWS[4:]}
        return lambda: ReplayingSpout(FIELDS, partitions, Varied(5, ("p", "q")))


class TestPollingSpout(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS

    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        return lambda: PollingSpout(FIELDS, {"p": ROWS[:4], "q": ROWS[4:]}, maxRows=2)


class TestIterableSpout(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS

    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        return lambda: IterableSpout(FIELDS, lambda: iter(ROWS), batchSize=3)


class TestRateSpout(SpoutContract):
    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        start = datetime(1970, 1, 1, tzinfo=UTC)  # in the past, so all rows have come
        return lambda: RateSpout(100, rows=8, keys=2, skew=0.5, lateness=1, startTime=start, maxRowsPerBatch=3)


class TestFeederBatchSpout(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS

    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        def fed() -> FeederBatchSpout:
            feeder = FeederBatchSpout(FIELDS)
            for batch in (ROWS[:3], [], ROWS[3:]):
                feeder.feed(batch)
            return feeder

        return fed


class TestTextFiles(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [f"{word} {n} {name}" for name in "ab" for word, n in ROWS]

    @pytest.fixture
    def make_spout(self, tmp_path: Path) -> MakeSpout:
        folder = tmp_path / "in"
        folder.mkdir()
        for name in "ab":
            (folder / name).write_text("".join(f"{word} {n} {name}\n" for word, n in ROWS))
        return lambda: FileSpout(folder, maxBytesPerBatch=30)


class TestParquetFiles(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [(f"{word}{name}", n) for name in "ab" for word, n in ROWS]

    @pytest.fixture
    def make_spout(self, tmp_path: Path) -> MakeSpout:
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder = tmp_path / "in"
        folder.mkdir()
        for name in "ab":
            table = pa.table({"word": [f"{word}{name}" for word, _ in ROWS], "n": [n for _, n in ROWS]})
            pq.write_table(table, folder / f"{name}.parquet")
        return lambda: FileSpout(folder, format="parquet", maxFilesPerBatch=1)


@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        ({}, ""),
        *(pytest.param({}, suffix, marks=pytest.mark.soak) for suffix in (".gz", ".bz2", ".zst")),
        pytest.param({"multiLine": True}, "", marks=pytest.mark.soak),
        ({"multiLine": True}, ".zst"),
        ({"header": False, "sep": ";"}, ".gz"),
        ({"skipLines": 3}, ""),
    ],
    ids=str,
)
class TestCsvFiles(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [(f"{word} {name}", n) for name in "ab" for word, n in ROWS]

    @pytest.fixture
    def make_spout(self, tmp_path: Path, suffix: str, options: dict[str, Any]) -> MakeSpout:
        from tests.spouts.files.test_compressed import PACK

        folder, sep = tmp_path / "in", options.get("sep", ",")
        folder.mkdir()
        for name in "ab":
            text = "a title, of more bytes than a batch takes\n" * options.get("skipLines", 0)
            text += f"word{sep}n\n" if options.get("header", True) else ""
            text += "".join(f'"{word} {name}"{sep}{n}\n' for word, n in ROWS)
            (folder / f"{name}.csv{suffix}").write_bytes(PACK.get(suffix, bytes)(text.encode()))
        return lambda: FileSpout(folder, Csv(**options), FIELDS, maxBytesPerBatch=30)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
class TestCompressedFiles(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [(f"{word}{name}", n) for name in "ab" for word, n in ROWS]

    @pytest.fixture
    def make_spout(self, tmp_path: Path, suffix: str) -> MakeSpout:
        from tests.spouts.files.test_compressed import PACK

        folder = tmp_path / "in"
        folder.mkdir()
        for name in "ab":
            lines = "".join(f'{{"word": "{word}{name}", "n": {n}.0}}\n' for word, n in ROWS)
            (folder / f"{name}{suffix}").write_bytes(PACK[suffix](lines.encode()))
        return lambda: FileSpout(folder, Json(numbers="lenient"), FIELDS, maxFilesPerBatch=1)


# --- the contracts of users' own spouts ---------------------------------------------------------------------------


class Logs(PartitionedSpout):
    outputFields = "word string, n long"
    logs = {"p": ROWS[:4], "q": ROWS[4:]}

    def __init__(self, shown: Sequence[str] = ("p", "q")) -> None:
        self.shown = shown

    def getPartitions(self) -> Sequence[str]:
        return self.shown

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        at, rows = lastMetadata or 0, self.logs[partition]
        return (rows[at : at + 1], at + 1) if at < len(rows) else (None, None)

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        return self.logs[partition][metadata - 1 : metadata]


class Feed(OpaquePartitionedSpout):
    outputFields = "word string, n long"

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        at = lastMetadata or 0
        taken = ROWS[at : at + 1 + (at + attempt.attempt) % 3]
        return taken or None, at + len(taken)


class Numbered(BatchSpout):
    outputFields = "word string, n long"

    def emitBatch(self, batchId: int) -> Any:
        return ROWS[batchId * 2 - 2 : batchId * 2] or None


class Mapped(Numbered):
    """The rows come from an iterator in C: its end must not be taken for a function that raised StopIteration."""

    def emitBatch(self, batchId: int) -> Any:
        return map(tuple, zip(*zip(*super().emitBatch(batchId) or (), strict=True), strict=True))


@pytest.mark.parametrize("spout", [Logs, Feed, Numbered, Mapped])
class TestUsersContracts(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS

    @pytest.fixture
    def make_spout(self, spout: Any) -> MakeSpout:
        return spout  # type: ignore[no-any-return]


# --- partitions that come and go ----------------------------------------------------------------------------------


class Feeds(OpaquePartitionedSpout):
    outputFields = "word string, n long"

    def __init__(self, shown: Sequence[str]) -> None:
        self.shown = shown

    def getPartitions(self) -> Sequence[str]:
        return self.shown

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        at, rows = lastMetadata or 0, Logs.logs[partition]
        return rows[at : at + 2] or None, min(at + 2, len(rows))


def polling(shown: Sequence[str]) -> PollingSpout:
    def rows_of(partition: str) -> Any:
        rows = Logs.logs[partition]
        return lambda position, limit: (rows[position or 0 :][:limit], min(len(rows), (position or 0) + limit))

    return PollingSpout(FIELDS, lambda: {name: rows_of(name) for name in shown}, maxRows=1)


@pytest.mark.parametrize("kind", [Logs, Feeds, polling], ids=["transactional", "opaque", "polling"])
class TestPartitionsThatComeAndGo(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return ROWS

    @pytest.fixture
    def shown(self) -> list[str]:
        return ["p", "q"]

    @pytest.fixture
    def make_spout(self, kind: Any, shown: list[str]) -> MakeSpout:
        return lambda: kind(shown)

    @pytest.fixture
    def partitions(self) -> list[str]:
        return ["p", "q"]

    @pytest.fixture
    def show_partitions(self, shown: list[str]) -> Any:
        def show(names: Sequence[str]) -> None:
            shown[:] = names

        return show
