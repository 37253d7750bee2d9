"""Flink SQL over the same files: its SQL gateway in one JVM for all queries, which runs each job in that process.

Flink is no dependency of this project. Its jars come from Maven Central into the user's cache at the first use.
"""

import http.client
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark

from benchmarks.nexmark.events import SCHEMAS, Events
from benchmarks.nexmark.flink_queries import ORDERED, QUERIES, SIDE, SOURCE, UPDATED
from trident.base.java import ensure_java
from trident.demo.artifacts import first_fetched, in_cache, java
from trident.demo.ports import free_port

VERSION = "2.3.0"
JARS = (
    f"org.apache.flink:flink-sql-gateway:{VERSION}",
    f"org.apache.flink:flink-statebackend-rocksdb:{VERSION}",
    # The empty classifier stands for the jar alone: the gateway has those that it depends on.
    f"org.apache.flink:flink-table-planner-loader:{VERSION}:",
    f"org.apache.flink:flink-table-runtime:{VERSION}:",
    f"org.apache.flink:flink-cep:{VERSION}:",
    f"org.apache.flink:flink-connector-base:{VERSION}:",
    f"org.apache.flink:flink-connector-files:{VERSION}:",
    f"org.apache.flink:flink-json:{VERSION}:",
    f"org.apache.flink:flink-sql-parquet:{VERSION}:",
)
CONFS = {
    "execution.target": "local",
    "parallelism.default": 2,
    "state.backend.type": "rocksdb",
    "execution.checkpointing.interval": "10s",
    "execution.checkpointing.incremental": True,
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": False,
    "taskmanager.memory.managed.size": "1g",
    "table.exec.mini-batch.enabled": True,
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": 50_000,
    "table.optimizer.distinct-agg.split.enabled": True,
    "table.local-time-zone": "UTC",
    "table.dml-sync": True,
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "sql-gateway.endpoint.rest.address": "127.0.0.1",
    "sql-gateway.endpoint.rest.bind-address": "127.0.0.1",
}
"""Those of the published benchmark, but for memory, parallelism and checkpoints: it has one each three minutes."""
OPENED = (
    *("java.lang", "java.lang.reflect", "java.net", "java.nio", "java.text", "java.time"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
)
"""The packages of Java that Flink's scripts open for its serializers."""
TIMES = ("dateTime", "bidTime", "expires")
_UNDER_WAY = ("INITIALIZED", "PENDING", "RUNNING")
_START_SECONDS, _POLL_SECONDS = 120, 0.02


class FlinkError(RuntimeError):
    """Flink cannot be had, or refuses a statement, or a job of it failed."""


def fetched() -> bool:
    """Return whether all jars are in the cache."""
    return all(in_cache(artifact) for artifact in JARS)


def prepare(events: Events) -> None:
    """Write the files that only Flink reads, once: the tables in one file each, and the table of q13."""
    if Path(events.folder, "flink").exists():
        return
    for table in SCHEMAS:
        rows = pa.concat_tables(pq.read_table(path) for path in events.paths(table))
        _write(rows, _folder(events, table, "q5"))
    keys = range(10_000)
    since = pa.array([datetime(1970, 1, 1, tzinfo=UTC)] * len(keys), pa.timestamp("us", "UTC"))
    side = pa.table({"key": keys, "value": [f"value {key}" for key in keys], "since": since})
    _write(side, _folder(events, "side", "q13"))


def _write(rows: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "rows.parquet")


def _folder(events: Events, table: str, query: str) -> Path:
    within = Path("flink") if query in ORDERED or table == "side" else Path()
    return Path(events.folder) / within / table


class Flink:
    """A SQL gateway on a loopback port, from its start until `close`.

    Raises FlinkError if its jars cannot be fetched, or if it does not start.
    """

    def __init__(self, folder: Path) -> None:
        ensure_java()
        jars = _jars()
        self._log, self._port = folder / "log", free_port()
        (folder / "local").mkdir(parents=True)
        settings = {**CONFS, "sql-gateway.endpoint.rest.port": self._port, "io.tmp.dirs": str(folder / "local")}
        (folder / "config.yaml").write_text("".join(f"{name}: {json.dumps(of)}\n" for name, of in settings.items()))
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        options = ["-Xmx4g", "-Duser.timezone=UTC", f"-Djava.io.tmpdir={folder}/local", *opened]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [java(), *options, "-cp", ":".join(map(str, jars)), "org.apache.flink.table.gateway.SqlGateway"],
                env={**os.environ, "FLINK_CONF_DIR": str(folder)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self._call("GET", "/info")
                return
            except OSError:
                time.sleep(0.1)
        self.close()
        raise FlinkError(f"Flink's SQL gateway did not start: {self._log.read_text()[-2000:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()

    def run(self, events: Events, query: str, folder: Path, kept: bool = False) -> pa.Table | None:
        """Run a query over all events, of which `prepare` has written the files, and return its rows.

        Updated rows are thrown away, and the result is None, unless all their changes are `kept` in files.
        """
        out, updated = folder / "out", query in UPDATED
        sink = f"'connector' = 'filesystem', 'path' = '{out}', 'format' = '{'debezium-json' if updated else 'parquet'}'"
        if updated and not kept:
            sink = "'connector' = 'blackhole'"
        partitions = "PARTITIONED BY (`day`, `minute`)" if query == "q10" else ""
        sources = [SOURCE[table].format(path=_folder(events, table, query)) for table in SCHEMAS]
        side = SIDE.format(path=_folder(events, "side", query))
        self._execute(folder, *sources, side, f"CREATE TABLE found {partitions} WITH ({sink}) AS {QUERIES[query]}")
        if updated:
            return left(out) if kept else None
        files = [str(file) for file in out.rglob("part-*")]
        return ds.dataset(files, format="parquet", partitioning="hive" if partitions else None).to_table()

    def run_empty(self, folder: Path) -> None:
        """Run a job of one row, which costs its start alone."""
        self._execute(folder, "CREATE TABLE found WITH ('connector' = 'blackhole') AS SELECT 1 AS num")

    def _execute(self, folder: Path, *statements: str) -> None:
        """Run statements in a session, each to its end. Raises FlinkError."""
        places = {"execution.checkpointing.dir": f"file://{folder}/checkpoint"}
        session = f"/sessions/{self._call('POST', '/sessions', {'properties': places})['sessionHandle']}"
        for statement in statements:
            handle = self._call("POST", f"{session}/statements", {"statement": statement})["operationHandle"]
            operation = f"{session}/operations/{handle}"
            while (status := self._call("GET", f"{operation}/status")["status"]) in _UNDER_WAY:
                time.sleep(_POLL_SECONDS)
            if status != "FINISHED":
                reasons = self._call("GET", f"{operation}/result/0").get("errors", [status])
                raise FlinkError(f"{_causes(reasons)}\n{statement}")
        self._call("DELETE", session)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port)) as connection:
            connection.request(method, f"/v1{path}", None if body is None else json.dumps(body))
            return json.load(connection.getresponse())


def _jars() -> list[Path]:
    """Return Flink's jars, each once, and PySpark's classes of Hadoop, which the Parquet format needs."""
    found: dict[str, Path] = {}
    for artifact in JARS:
        folder, reason = first_fetched([artifact])
        if reason:
            raise FlinkError(reason)
        found |= {jar.name: jar for jar in folder.glob("*.jar")}
    return [*found.values(), *(Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")]


def _causes(reasons: list[str]) -> str:
    """Return the causes without their stack traces."""
    lines = "\n".join(reasons).splitlines()
    return "\n".join(line for line in lines if line.startswith("Caused by")) or "\n".join(lines[:5])


def left(out: Path) -> pa.Table:
    """Return the rows that are left after all changes in the files, in any order."""
    counts: Counter[str] = Counter()
    for row, number in _changes(out):
        counts[row] += number
    rows = pa.Table.from_pylist([json.loads(row) for row in counts.elements()])
    for name in set(TIMES) & set(rows.column_names):
        at = rows.column_names.index(name)
        rows = rows.set_column(at, name, rows[name].cast(pa.timestamp("ms")))
    return rows


def _changes(out: Path) -> Iterator[tuple[str, int]]:
    """Yield each added row with 1, each retracted one with -1."""
    for file in out.rglob("part-*"):
        for line in file.read_text().splitlines():
            change = json.loads(line)
            yield (json.dumps(change["after"]), 1) if change["after"] else (json.dumps(change["before"]), -1)
