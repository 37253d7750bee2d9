"""A fork of a topology that writes a table and has a state in a database: own table, own record, own state."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.forks import BATCHES, LATER, contents, save
from tests.support.postgres import PostgresServer
from trident import Count, TridentTopology, forkTopology
from trident.errors import OutputConflictError
from trident.spouts import FixedBatchSpout
from trident.state import PostgresMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.filterwarnings("ignore")


def rows(postgres: PostgresServer, table: str) -> list[Any]:
    with postgres.connect() as connection:
        return sorted(row[0] for row in connection.execute(f"select word from {table}".encode()).fetchall())


def test_a_topology_under_another_name_is_warned_of_rows_that_come_twice(
    postgres: PostgresServer, table: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warned(topology: str, output: str | None = None, **options: Any) -> list[str]:
        caplog.clear()
        program = TridentTopology()
        words = program.newStream("words", FixedBatchSpout("word string", [["dog"]]))
        words.writeJdbc(postgres.url, table, name=output, **options)
        with start_local(program, name=topology, checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=20)
        return [record.getMessage() for record in caplog.records if "has the rows of output" in record.getMessage()]

    postgres.run(f"create table {table} (word text)")
    assert warned("first") == []
    (warning,) = warned("second")
    assert "has the rows of output 'words.writeJdbc' of topology 'first' up to its batch 1. If" in warning
    assert warned("second") == warned("third", "others") == []
    postgres.run(f"drop table {table}", f"create table {table} (word text primary key)")
    assert warned("fourth", key="word") == warned("fifth", key="word") == []


def test_each_topology_has_its_table_its_record_and_its_state(
    postgres: PostgresServer, table: str, tmp_path: Path
) -> None:
    def program(batches: list[Any], into: str, output: str = "words") -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("words", FixedBatchSpout("word string", batches))
        state = PostgresMapState.opaque(postgres.url)
        stream.groupBy("word").persistentAggregate(state, Count(), "n", name=f"counts-{table}")
        stream.writeJdbc(postgres.url, into, name=output)
        return topology

    postgres.run(f"create table {table} (word text)", f"create table {table}_trial (word text)")
    save(program(BATCHES, table), tmp_path)
    forkTopology("first", "before", "second", tmp_path)
    for output in ("words", "renamed"):
        with pytest.raises(
            OutputConflictError, match=f"writes to table {table}, as output 'words' of topology 'first'"
        ):
            contents(program(LATER, table, output), "second", tmp_path, f"counts-{table}")
    for _ in range(2):
        whole = contents(program(LATER, f"{table}_trial", "trial"), "second", tmp_path, f"counts-{table}")
        assert whole == {"dog": 3, "cat": 1, "cow": 1}
    assert rows(postgres, f"{table}_trial") == ["cow", "dog"], "the batches after the savepoint"
    assert rows(postgres, table) == ["cat", "dog", "dog"]
    assert contents(program([*BATCHES, ["cat"]], table), "first", tmp_path, f"counts-{table}") == {"dog": 2, "cat": 2}
    assert rows(postgres, table) == ["cat", "cat", "dog", "dog"]
