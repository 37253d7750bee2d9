"""The numbers of the formats: each is listed, and a stored number that this version does not know is refused."""

import hashlib
import itertools
import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility import messages, savepoints, submits
from tests.compatibility.cases import CASES
from tests.compatibility.drive import run
from tests.compatibility.formats import FORMATS, changed_behind_the_log
from tests.compatibility.programs import CHECKPOINT, NAME
from tests.compatibility.restored import restored
from tests.compatibility.shelf import GOLDEN, dump_keys, dump_tables, versions
from tests.support.kafka import KafkaBroker
from tests.support.postgres import PostgresServer
from tests.support.server import RedisServer
from trident import forkTopology
from trident.base.errors import TridentError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
NEWEST = versions()[-1]

pytestmark = pytest.mark.filterwarnings("ignore:state '.*' fsync is off:RuntimeWarning")


def test_no_format_changes_without_checkpoints_of_its_own() -> None:
    """A new number needs a reader of the former one, and new checkpoints: see docs/compatibility.md."""
    stored = json.loads((GOLDEN / NEWEST / "formats.json").read_text())
    assert {each.name: each.number for each in FORMATS} == stored


def test_the_log_gets_a_new_number_with_each_other_format() -> None:
    stored = [json.loads((GOLDEN / version / "formats.json").read_text()) for version in versions()]
    for former, present in itertools.pairwise([*stored, {each.name: each.number for each in FORMATS}]):
        assert changed_behind_the_log(former, present) == []


def test_each_number_of_a_format_in_the_code_is_listed() -> None:
    listed = {(each.module, each.constant) for each in FORMATS}
    for room in (ROOT / "trident", ROOT / "state" / "trident_state", ROOT / "spouts" / "trident_spouts"):
        for file in room.rglob("*.py"):
            for constant in re.findall(r"^(_?FORMAT) = ", file.read_text(), flags=re.MULTILINE):
                module = ".".join(file.relative_to(room.parent).with_suffix("").parts)
                assert (module, constant) in listed, f"add {module}.{constant} to FORMATS and to {PAGE.name}"


def test_the_page_has_a_row_for_each_format() -> None:
    rows = dict(re.findall(r"^\| ([^|]+?) \| `([^`]+)` \|", PAGE.read_text(), flags=re.MULTILINE))
    assert rows == {each.name: str(each.number) for each in FORMATS}


# --- numbers of a later version ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """The bytes of a case on this machine: its folder is the present one."""

    redis: RedisServer | None
    postgres: PostgresServer | None
    kafka: KafkaBroker | None

    def contents(self) -> dict[str, Any]:
        """Return everything that is stored, so that any write shows."""
        held: dict[str, Any] = {}
        for path in sorted(Path().rglob("*")):
            if path.suffix in (".sqlite", ".db"):
                with sqlite3.connect(path) as db:
                    held[str(path)] = list(db.iterdump())
            elif path.is_file() and not path.name.endswith(("-wal", "-shm")):
                held[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        held["redis"] = self.redis and dump_keys(self.redis.client)
        held["kafka"] = self.kafka and messages.dump_topic(self.kafka)
        held["postgres"] = self.postgres and dump_tables(self.postgres, "golden")
        return held


Change = Callable[[Stored], None]


def sqlite(path: str, statement: str, *values: Any) -> Change:
    def change(stored: Stored) -> None:
        with sqlite3.connect(path) as db:
            assert db.execute(statement, values).rowcount > 0

    return change


def redis_hashes(pattern: str, number: bytes) -> Change:
    def change(stored: Stored) -> None:
        assert stored.redis is not None
        names = list(stored.redis.client.scan_iter(pattern))
        assert names
        for name in names:
            stored.redis.client.hset(name, "format", number)

    return change


def in_postgres(statement: str) -> Change:
    def change(stored: Stored) -> None:
        assert stored.postgres is not None
        with stored.postgres.connect(dbname="golden") as connection:
            assert connection.execute(statement.encode()).rowcount > 0

    return change


def in_files(pattern: str, former: str, later: str) -> Change:
    def change(stored: Stored) -> None:
        paths = [path for path in Path().glob(pattern) if former in path.read_text()]
        assert paths
        for path in paths:
            path.write_text(path.read_text().replace(former, later))

    return change


def in_kafka(stored: Stored) -> None:
    assert stored.kafka is not None
    offset, metadata = messages.record(stored.kafka.admin)
    assert '"format": 2' in metadata
    messages.put_record(stored.kafka.servers, offset, metadata.replace('"format": 2', '"format": 99'))


READERS: dict[str, Callable[[], object]] = {
    "savepoint": lambda: forkTopology(NAME, savepoints.SAVEPOINT, "another", CHECKPOINT),
    "stored topology": submits.drive_stored,
}
"""The formats that a start does not read, with the call that reads them."""

LATER = {
    "log in SQLite": ("memory", sqlite("checkpoint/golden/log.sqlite", "update meta set format = 'trident log 99'")),
    "log in Redis": ("redis-log", redis_hashes("*:log:m", b"trident log 99")),
    "snapshot of a state in memory": (
        "memory",
        sqlite(
            "checkpoint/golden/log.sqlite",
            """update states set manifest = cast(replace(manifest, '"format":2', '"format":99') as blob)
            where name = 'sets'""",
        ),
    ),
    "state in Redis": ("redis", redis_hashes("*/sets/*}:m", b"99")),
    "state in a map, SQLite or PostgreSQL": (
        "sqlite",
        sqlite("states.db", 'update "golden/sets" set record = replace(record, \'"format":2\', \'"format":99\')'),
    ),
    "state in a Delta table": ("delta", in_files("tables/**/*.json", '"trident.format":"1"', '"trident.format":"99"')),
    "Parquet output": ("outputs", in_files("parquet/_trident/sink.json", '"format": 2', '"format": 99')),
    "Delta output": (
        "outputs",
        in_files("delta/_delta_log/*.json", 'delta:format","version":1', 'delta:format","version":99'),
    ),
    "JDBC output": ("outputs", in_postgres("update _trident_outputs set format = 99")),
    "Kafka output": ("kafka", in_kafka),
    "savepoint": ("savepoint", in_files("checkpoint/golden/savepoints/kept.json", '"format":1', '"format":99')),
    "stored topology": ("submitted", in_files("home/topologies/*/topology.json", '"format": 2', '"format": 99')),
}
OUTPUTS = {"Parquet output": "parquet/", "Delta output": "delta/", "JDBC output": "postgres", "Kafka output": "kafka"}
"""Outputs, with the place that each of them would write."""


@pytest.mark.parametrize("name", LATER)
def test_a_start_refuses_the_number_of_a_later_version_and_touches_nothing(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, change = CASES[LATER[name][0]], LATER[name][1]
    places = restored(case, GOLDEN / NEWEST / f"{LATER[name][0]}.tar.xz", request, tmp_path, monkeypatch)
    stored = Stored(
        request.getfixturevalue("shared_redis") if case.redis else None,
        request.getfixturevalue("postgres") if case.postgres else None,
        request.getfixturevalue("kafka") if case.kafka else None,
    )
    change(stored)
    before = stored.contents()
    with pytest.raises(TridentError, match=r"format '?(trident log )?99.* this version"):
        READERS.get(name, lambda: run(case, places))()
    after, place = stored.contents(), OUTPUTS.get(name, "")  # outputs are opened after the log, which refuses first
    assert {at: each for at, each in after.items() if place in at} == {
        at: each for at, each in before.items() if place in at
    }
