"""Store the checkpoints of this version: ``python -m tests.compatibility.write_golden [CASE ...]``.

A version's checkpoints are written once, before its release, and never again: later versions must open these bytes.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tests.compatibility import sent
from tests.compatibility.cases import CASES, Case
from tests.compatibility.formats import FORMATS
from tests.compatibility.messages import dump_topic, new_topic
from tests.compatibility.shelf import (
    DISK,
    FOLDER,
    GOLDEN,
    KAFKA,
    NOWHERE,
    POSTGRES,
    REDIS,
    dump_keys,
    dump_tables,
    new_database,
    pack,
)
from tests.support.kafka import KafkaBroker
from tests.support.postgres import PostgresServer
from tests.support.server import RedisServer
from trident.base.crash_points import VARIABLE
from trident.base.version import __version__

ROOT = Path(__file__).parents[2]
TABLE = "create table rows (word text, seq bigint primary key)"


class Servers:
    """A Redis, a PostgreSQL and a Kafka of this program; each is started when a case needs it."""

    def __init__(self, folder: Path) -> None:
        self._redis, self._postgres = RedisServer(folder / "redis"), PostgresServer()
        self._folder, self._kafka = folder, cast("KafkaBroker | None", None)

    @contextmanager
    def of(self, case: Case) -> Iterator[dict[str, str]]:
        """Yield the environment of a driver, with empty servers."""
        environment = {}
        if case.redis:
            server = self._redis.__enter__()
            server.client.flushall()
            environment["GOLDEN_REDIS"] = server.url
        if case.postgres:
            database = new_database(self._postgres.__enter__(), "golden")
            with self._postgres.connect(dbname="golden") as connection:
                connection.execute(TABLE)
            environment["GOLDEN_POSTGRES"] = database
        if case.kafka:
            self._kafka = self._kafka or KafkaBroker(Path(tempfile.mkdtemp(dir=self._folder)) / "broker").start()
            environment["GOLDEN_KAFKA"] = new_topic(self._kafka)
        if case.disk:
            self.end_kafka()
            self._kafka = sent.new_broker(Path(tempfile.mkdtemp(dir=self._folder)) / "broker")
            environment["GOLDEN_KAFKA"] = self._kafka.servers
        yield environment

    def dump(self, case: Case, folder: Path) -> None:
        if case.redis:
            (folder / REDIS).write_text(dump_keys(self._redis.client))
        if case.postgres:
            (folder / POSTGRES).write_text(dump_tables(self._postgres, "golden"))
        if case.kafka:
            assert self._kafka is not None
            (folder / KAFKA).write_text(dump_topic(self._kafka))
        if case.disk:
            assert self._kafka is not None
            self._kafka.back_up(folder / DISK)

    def end_kafka(self) -> None:
        if self._kafka is not None:
            self._kafka.kill()
            self._kafka = None

    def end(self) -> None:
        self.end_kafka()
        self._redis.kill()
        self._postgres.__exit__(None, None, None)


def live(name: str, parts: int, folder: Path, environment: dict[str, str], crash: str = "", read: bool = False) -> Any:
    """Let a driver live, and return what it printed; None if it was killed."""
    words = [sys.executable, "-m", "tests.compatibility.drive", name, str(parts), *(["read"] if read else [])]
    path = os.pathsep.join(str(ROOT / each) for each in (".", "state", "spouts"))
    settings = {**os.environ, **environment, "PYTHONPATH": path, VARIABLE: crash}
    ended = subprocess.run(words, cwd=folder, env=settings, stdout=subprocess.PIPE, text=True, timeout=300)
    assert ended.returncode == (-signal.SIGKILL if crash else 0), f"{name}: {ended.returncode}"
    return None if crash else json.loads(ended.stdout)


def write(name: str, case: Case, target: Path, servers: Servers, scratch: Path) -> None:
    """Store a program's checkpoint, the content of its states then, and at the end of its input."""
    whole, stored = scratch / name / "whole", scratch / name / "stored"
    for folder in (whole, stored / FOLDER):
        folder.mkdir(parents=True)
    with servers.of(case) as environment:
        after = live(name, 3, whole, environment)
    with servers.of(case) as environment:
        live(name, 1, stored / FOLDER, environment)
        live(name, 2, stored / FOLDER, environment, case.killed)
        servers.dump(case, stored)
        case.moved(stored / FOLDER, NOWHERE, stored / FOLDER)
        pack(stored, target / f"{name}.tar.xz")
        case.moved(NOWHERE, stored / FOLDER, stored / FOLDER)
        before = live(name, 2, stored / FOLDER, environment, read=True)
        assert live(name, 3, stored / FOLDER, environment) == after, f"{name}: a resumed run differs from a whole one"
    (target / f"{name}.json").write_text(json.dumps({"before": before, "after": after}, indent=0) + "\n")


def main() -> None:
    target = GOLDEN / __version__.rpartition(".")[0]
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        servers = Servers(Path(scratch))
        try:
            for name, case in CASES.items():
                if name in sys.argv[1:] or not sys.argv[1:]:
                    write(name, case, target, servers, Path(scratch))
                    print(name, (target / f"{name}.tar.xz").stat().st_size, flush=True)
                    shutil.rmtree(Path(scratch) / name)
        finally:
            servers.end()
    numbers = {each.name: each.number for each in FORMATS}
    (target / "formats.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
