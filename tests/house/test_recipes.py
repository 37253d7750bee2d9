"""The recipes run as they stand, print what they say, and their sinks hold each row once when calls are repeated."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.pages import blocks_of, program_of
from trident import TridentTopology
from trident.spouts import FixedBatchSpout
from trident.testing import crash_at, run_through

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
RUN = "with topology.start("
NEEDS = {"delta": "deltalake", "iceberg": "pyiceberg"}


def promised(text: str) -> list[str]:
    """Return what a page says that its program prints: the comments behind its prints, and its blocks of text."""
    lines = re.findall(r"^ *print\(.*\)  # (.*)$", text, flags=re.MULTILINE)
    return lines + [
        line for block in re.findall(r"^```text\n(\d.*?)^```$", text, re.M | re.S) for line in block.split("\n")[:-1]
    ]


@pytest.mark.parametrize(
    ("name", "lines"), [("duplicates", 4), ("enrich", 3), ("join", 3), ("jdbc", 1), ("delta", 1), ("iceberg", 1)]
)
def test_a_recipe_runs_as_it_stands_and_prints_what_it_says(
    name: str, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"the recipe {name}.md needs the package {NEEDS[name]}")
    page = RECIPES / f"{name}.md"
    exec(compile(program_of(page), str(page), "exec"), {"__name__": "page"})
    said = capsys.readouterr().out.splitlines()
    assert said == promised(page.read_text(encoding="utf-8")) and len(said) == lines


def declared(name: str, **replaced: str) -> dict[str, Any]:
    """Return the names of a recipe whose topology is declared and not started."""
    page: dict[str, Any] = {"__name__": "page"}
    program = "\n".join(blocks_of(RECIPES / f"{name}.md"))
    for old, new in replaced.items():
        program = program.replace(old, new)
    exec(compile(program[: program.index(RUN)], name, "exec"), page)
    return page


@pytest.mark.parametrize("point", ["output.before", "output.after"])
def test_a_database_holds_each_row_once_after_a_crash(point: str, tmp_path: Path) -> None:
    page = declared("jdbc")
    with crash_at(point, 2), run_through(page["topology"], checkpointLocation=tmp_path):
        pass
    page["store"](pa.table({"id": [3], "price": [1.0]}), 2, 1)  # the call that a restart repeats
    with sqlite3.connect(page["database"]) as db:
        assert sorted(db.execute("SELECT id FROM orders")) == [(1,), (2,), (3,)]
        assert sorted(db.execute("SELECT txid FROM applied")) == [(1,), (2,)]


def test_delta_holds_each_row_once_after_a_crash(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="the recipe delta.md needs the package deltalake")
    page = declared("delta")
    with crash_at("output.after", 2), run_through(page["topology"], checkpointLocation=tmp_path):
        pass
    page["store"](pa.table({"id": [3], "price": [1.0]}), 2, 1)
    table = pa.table(page["DeltaTable"](page["path"]).to_pyarrow_table())
    assert sorted(table["id"].to_pylist()) == [1, 2, 3]


def test_kafka_holds_each_message_once_after_a_crash(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("confluent_kafka", reason="the recipe kafka.md needs the package confluent-kafka")
    kafka = request.getfixturevalue("kafka")
    large, orders = kafka.create("shop.orders.large"), kafka.create("shop.orders")
    page = declared(
        "kafka", **{"localhost:9092": kafka.servers, '"orders.large"': f'"{large}"', '"orders", k': f'"{orders}", k'}
    )
    with crash_at("output.after", 2), run_through(page["topology"], checkpointLocation=tmp_path):
        pass
    found = [(message.key(), json.loads(message.value())["price"]) for message in kafka.messages(orders)]
    assert found == [(b"ann", 2.5), (b"bob", 400.0), (b"ann", 1.0)]
    assert [message.key() for message in kafka.messages(large)] == [b"bob"]


@pytest.mark.spark
def test_sparks_jdbc_writer_stores_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/shop;create=true"
    page = declared("jdbc")
    exec(blocks_of(RECIPES / "jdbc.md")[2], page)
    begin = spark.range(1)
    db = page["connect"](begin, url)
    for table in (
        "orders (id BIGINT, price DOUBLE)",
        "applied (sink VARCHAR(20), txid BIGINT, PRIMARY KEY (sink, txid))",
    ):
        db.createStatement().executeUpdate(f"CREATE TABLE {table}")
    calls = []

    def store(df: Any, txid: int, attempt: int) -> None:
        page["store_by_jdbc"](df, txid, attempt, url=url)
        calls.append(txid)
        if calls.count(txid) == 1:
            raise ConnectionError("the answer got lost")

    topology = TridentTopology()
    rows = [[(1, 2.5), (2, 4.0)], [(3, 1.0)]]
    topology.newStream("orders", FixedBatchSpout("id long, price double", rows)).foreachBatch(store)
    with topology.start(spark, name="shop", checkpointLocation=tmp_path / "ckpt") as running:
        running.processAllAvailable()
    assert calls == [1, 1, 2, 2]
    read = spark.read.format("jdbc").option("url", url)
    assert sorted(row[0] for row in read.option("dbtable", "orders").load().collect()) == [1, 2, 3]
    names = db.createStatement().executeQuery("SELECT COUNT(*) FROM SYS.SYSTABLES WHERE TABLENAME LIKE 'STAGE%'")
    assert names.next() and names.getInt(1) == 0
    db.close()
