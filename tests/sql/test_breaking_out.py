"""A query over states reaches nothing else: no file, network, setting, variable, other statement, other state."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from trident.base.errors import SqlError, SqlLimitError, SqlNotAllowedError, StateError
from trident.run.running import RunningTopology
from trident.sql import duckdb_worker
from trident.sql.duckdb_process import SealedProcess

SECRET = "the-secret-of-this-test"

other = {"hidden": [SECRET]}

ATTEMPTS = (
    # files
    "select * from read_csv('{file}')",
    "select * from read_csv_auto('{file}')",
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from read_json('{file}')",
    "select * from read_json_objects('{file}')",
    "select * from read_ndjson('{file}')",
    "select * from read_parquet('{file}')",
    "select * from parquet_scan('{file}')",
    "select * from parquet_metadata('{file}')",
    "select * from parquet_schema('{file}')",
    "select * from sniff_csv('{file}')",
    "select * from glob('{folder}/*')",
    "select * from '{file}'",
    "from '{folder}/*.csv'",
    'select * from "{file}"',
    "select * from '/proc/self/environ'",
    "select (select content from read_text('{file}'))",
    "select * from counts, lateral (select * from read_text('{file}'))",
    "with t as materialized (select * from read_text('{file}')) select * from t",
    "select 1 union all select size from read_blob('{file}')",
    "select * from counts where person in (select content from read_text('{file}'))",
    "select * from read_duckdb('{file}')",
    "pivot read_csv('{file}') on a using count(*)",
    "describe select * from read_csv('{file}')",
    "summarize '{file}'",
    "copy counts to '{folder}/out.csv'",
    "copy (select 1) to '{folder}/out.parquet' (format parquet)",
    "copy counts from '{file}'",
    "export database '{folder}/all'",
    "import database '{folder}'",
    "attach '{folder}/out.db'",
    "attach 'http://127.0.0.1:{port}/x.db' as x (read_only)",
    # the network
    "select * from read_csv('http://127.0.0.1:{port}/x.csv')",
    "select * from 'http://127.0.0.1:{port}/x.parquet'",
    "select * from 's3://127.0.0.1:{port}/x.parquet'",
    "install httpfs",
    "force install httpfs from 'http://127.0.0.1:{port}'",
    "load httpfs",
    "install sqlite; load sqlite",
    "select * from sqlite_scan('{file}', 't')",
    "select * from postgres_scan('host=127.0.0.1 port={port}', 'public', 't')",
    "load '{file}'",
    # settings, the environment, secrets
    "set threads = 4",
    "set lock_configuration = false",
    "set enable_external_access = true",
    "set global memory_limit = '90GB'",
    "reset memory_limit",
    "set variable x = 1",
    "pragma enable_logging",
    "pragma database_list",
    "pragma memory_limit='90GB'",
    "select getenv('HOME')",
    "select getvariable('x')",
    "select current_setting('temp_directory')",
    "select value from duckdb_settings()",
    "select * from duckdb_settings",
    "select * from pg_settings",
    "select * from duckdb_secrets()",
    "select * from which_secret('s3://x', 's3')",
    "create secret (type s3, key_id 'x')",
    "select * from duckdb_extensions()",
    "select * from duckdb_logs",
    "select write_log('x')",
    "call enable_logging()",
    # the catalogue, other statements
    "show tables",
    "show all tables",
    "select * from information_schema.tables",
    "select * from pg_catalog.pg_tables",
    "select * from sqlite_master",
    "select * from duckdb_functions()",
    "select * from system.main.duckdb_tables",
    "with duckdb_settings as (select 1) select * from duckdb_settings",
    "select (with pg_settings as (select 1) select 1), * from pg_settings",
    "select * from temp.main.counts",
    "create table t as select 1",
    "create view v as select * from counts",
    "create recursive view v (n) as select 1",
    "create macro f(x) as x",
    "create type mood as enum ('x')",
    "insert into counts values ('x', 1)",
    "update counts set n = 0",
    "delete from counts",
    "drop table counts",
    "alter table counts add column x int",
    "truncate counts",
    "with x as (insert into counts values ('x', 1) returning *) select * from x",
    "with x as (delete from counts returning *) select * from x",
    "begin",
    "checkpoint",
    "vacuum",
    "use memory",
    "detach memory",
    "prepare p as select 1",
    "execute p",
    "deallocate p",
    "explain select * from counts",
    "explain analyze select * from counts",
    "call range(3)",
    "comment on table counts is 'x'",
    # several statements, and text that hides them
    "select 1; select 2",
    "select 1; copy (select 1) to '{folder}/out.csv'",
    "select 1 /* ; */ ; -- x\nset threads = 4",
    "/* select */ attach '{folder}/out.db'",
    "select $$;$$ ; install httpfs",
    ";",
    "",
    "-- only a comment",
    # queries in texts
    "select * from query('select * from read_text(''{file}'')')",
    "select * from query_table('counts')",
    "select * from query_table(['{file}'])",
    "from json_execute_serialized_sql(json_serialize_sql('select 1'))",
    "pragma json_execute_serialized_sql('x')",
    "select json_serialize_plan('select * from read_text(''{file}'')')",
    # Python
    "select * from other",
    "select * from tests",
    "select * from pandas_scan(1)",
    "select * from arrow_scan(1, 2, 3)",
    "select * from python_map_function()",
    "select * from seq_scan('counts')",
    # names
    "select * from no_such_state",
    "select no_such_function(1)",
)


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A port that notes each connection."""
    came = list[str]()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        over = threading.Event()

        def listen() -> None:
            while not over.is_set():
                try:
                    connection, address = server.accept()
                except TimeoutError:
                    continue
                came.append(str(address))
                connection.close()

        thread = threading.Thread(target=listen)
        thread.start()
        yield server.getsockname()[1], came
        over.set()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.csv").write_text(f"a\n{SECRET}\n")
    return tmp_path


def test_no_attempt_succeeds(shop: RunningTopology, folder: Path, listener: tuple[int, list[str]]) -> None:
    port, came = listener
    before = shop.state("counts").toArrow()
    assert len(ATTEMPTS) >= 40
    for attempt in ATTEMPTS:
        text = attempt
        for name, value in (("file", folder / "secret.csv"), ("folder", folder), ("port", port)):
            text = text.replace(f"{{{name}}}", str(value))
        with pytest.raises((SqlError, StateError)) as caught:
            shop.sql(text)
        assert not isinstance(caught.value, SqlLimitError), text
        assert SECRET not in str(caught.value), text
    assert not came
    assert sorted(os.listdir(folder)) == ["secret.csv"]
    assert shop.state("counts").toArrow().equals(before)


FIRST_REFUSED = (
    ("set threads = 4", "this statement does more than read. A query reads states: SELECT, WITH, VALUES, FROM"),
    ("select 1; select 2", "the text has 2 statements"),
    ("select * from read_text('/etc/passwd')", "the table function read_text is not allowed in a query over states"),
    ("select getvariable('x')", "the function getvariable is not allowed"),
    ("select * from temp.main.counts", "a state has its plain name, without a schema"),
    ("show tables", "SHOW is not allowed"),
    ("with x as (insert into counts values ('x', 1) returning *) select * from x", "INSERT does more than read"),
    (
        "with duckdb_settings as (select 1) select * from duckdb_settings",
        "this is the name of one of DuckDB's own tables",
    ),
    (f"select {'a.' * 100}b from counts", "a name of more than 64 parts"),
)


@pytest.mark.parametrize(("query", "message"), FIRST_REFUSED)
def test_the_check_of_the_statement_refuses(shop: RunningTopology, query: str, message: str) -> None:
    with pytest.raises(SqlNotAllowedError) as caught:
        shop.sql(query)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('{file}')",
        "select * from read_csv('{file}')",
        "select * from glob('{folder}/*')",
        "select * from '{file}'",
        "copy (select 1) to '{folder}/out.csv'",
        "attach '{folder}/out.db'",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "set disabled_filesystems = ''",
        "set threads = 3",
        "install httpfs",
        "load httpfs",
        "select * from other",
        "export database '{folder}/all'",
        "select getenv('HOME')",
    ],
)
def test_the_sealed_process_refuses_without_the_check(folder: Path, query: str) -> None:
    """The second wall: the process itself, asked for what the check of the statement would not let through."""
    text = query.replace("{file}", str(folder / "secret.csv")).replace("{folder}", str(folder))
    request = {"do": "run", "query": text, "tables": [], "threads": 1, "maxRows": 10, "maxBytes": 64 << 20}
    process = SealedProcess()
    head, content = process.ask(request, b"", (), lambda: None)
    process.close()
    assert head["error"] in ("PermissionException", "CatalogException", "InvalidInputException", "IOException"), head
    assert not content
    assert sorted(os.listdir(folder)) == ["secret.csv"]


def test_the_process_has_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    process = SealedProcess()
    request = {"do": "parse", "threads": 1, "maxRows": 10, "maxBytes": 64 << 20}
    process.ask(request, b"select 1", (), lambda: None)
    try:
        environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert SECRET.encode() not in environment
        assert set(dict(entry.split(b"=", 1) for entry in environment.split(b"\0") if entry)) <= {
            b"LD_LIBRARY_PATH",
            b"LC_CTYPE",
        }
        assert os.readlink(f"/proc/{process.pid}/cwd") == "/"
    finally:
        process.close()


def test_every_setting_of_the_seal_is_one_of_duckdb_and_holds_for_each_query() -> None:
    """A misspelt setting would be left out in silence, and a setting of another connection too."""
    known = {name.lower() for (name,) in duckdb.connect().execute("select name from duckdb_settings()").fetchall()}
    assert [each for each in duckdb_worker.SETTINGS if each.partition("=")[0].lower() not in known] == []
    process = SealedProcess()
    for setting in duckdb_worker.SETTINGS:
        name, _, value = setting.partition("=")
        if name == "disabled_filesystems":  # DuckDB does not show it; the test of the sealed process shows its effect
            continue
        request = {"do": "run", "tables": [], "threads": 1, "maxRows": 10, "maxBytes": 64 << 20}
        query = f"select lower(current_setting('{name}')::varchar)"
        head, content = process.ask({**request, "query": query}, b"", (), lambda: None)
        assert "error" not in head, head
        (shown,) = pa.ipc.open_stream(content).read_all().column(0).to_pylist()
        assert shown == value.strip("'").lower(), name
    process.close()
