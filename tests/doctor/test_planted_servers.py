"""Each fault of a server, a right or a program that is planted here is found, with the way out, in real servers."""

import contextlib
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.doctor.site import SECRET, Site
from tests.support.postgres import PostgresServer
from tests.support.s3 import BUCKET, S3Server
from tests.support.server import RedisServer, free_port
from trident.doctor.checks import diagnoses
from trident.doctor.disk import space
from trident.doctor.examined_setup import ExaminedSetup
from trident.doctor.packages import unmet
from trident.log import RedisLog
from trident.state import RedisMapState


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder, monkeypatch)


def check_one(rows: list[Mapping[str, Any]], check: str, found: str, todo: str, level: str = "error") -> None:
    """Assert that there is one finding, and that it says this."""
    assert [(row["check"], row["level"]) for row in rows] == [(check, level)], rows
    assert re.search(found, rows[0]["found"]) and re.search(todo, rows[0]["todo"]), rows[0]


# --- Redis ---------------------------------------------------------------------------------------------------------


def evicts(server: RedisServer) -> None:
    server.client.config_set("maxmemory-policy", "allkeys-lru")


def forgets(server: RedisServer) -> None:
    server.client.config_set("appendonly", "no")


def is_full(server: RedisServer) -> None:
    server.client.config_set("maxmemory", int(server.client.info("memory")["used_memory"] * 1.02))


def is_away(server: RedisServer) -> None:
    server.stop()


def has_another_password(server: RedisServer) -> None:
    server.client.config_set("requirepass", SECRET[::-1])


def denies_writes(server: RedisServer) -> None:
    rules = f"on >{SECRET} ~* &* +@all -hset"
    server.client.execute_command("ACL", "SETUSER", "default", "reset", *rules.split())  # type: ignore[no-untyped-call]


def is_a_replica(server: RedisServer) -> None:
    server.client.replicaof("127.0.0.1", "1")


REDIS: dict[Callable[[RedisServer], None], tuple[str, ...]] = {
    evicts: ("may evict keys .*allkeys-lru", "CONFIG SET maxmemory-policy noeviction"),
    forgets: ("appendonly is off", "CONFIG SET appendonly yes", "warning"),
    is_full: (r"uses \d+% of its maxmemory", "CONFIG SET maxmemory"),
    is_away: ("127.0.0.1", "Start the server"),
    has_another_password: ("rejects the login", "its password"),
    denies_writes: ("refuses the user HSET", "ACL SETUSER"),
    is_a_replica: ("is a (slave|replica)", "master"),
}


@pytest.mark.parametrize("plant", REDIS, ids=lambda plant: plant.__name__)
def test_a_fault_of_redis_is_found_with_the_way_out(
    site: Site, tmp_path: Path, plant: Callable[[RedisServer], None]
) -> None:
    with RedisServer(tmp_path / "redis", password=SECRET) as server:
        words = site.program(f'RedisMapState.opaque("{server.url}", connectTimeout=1)')  # the program has the password
        assert site.doctor(*words) == []
        plant(server)
        check_one(site.doctor(*words), "parts", *REDIS[plant])


def test_a_log_in_redis_needs_a_server_that_keeps_each_write(site: Site, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", password=SECRET) as server:
        site.patch.setenv("LOG_URL", server.url)
        words = ("--log-url", "env:LOG_URL", "--name", "wc")
        assert site.doctor(*words) == []
        server.client.config_set("appendfsync", "everysec")
        check_one(site.doctor(*words), "log", "appendfsync is everysec", "appendfsync always")


def test_a_clock_that_differs_is_found(redis_server: RedisServer) -> None:
    import time

    state = RedisMapState.opaque(redis_server.url)
    assert list(state.examine()) == []
    (finding,) = state.examine(lambda: time.time() + 90)
    assert finding.found == "its clock is 90 s behind this machine's" and "time service" in finding.todo
    (finding,) = RedisLog(redis_server.url).examine(lambda: time.time() - 90)
    assert finding.found == "its clock is 90 s ahead of this machine's"


# --- databases -----------------------------------------------------------------------------------------------------

TABLE = 'PostgresMapState.opaque("env:TABLES")'


@contextlib.contextmanager
def user_of(server: PostgresServer, attributes: str = "") -> Iterator[str]:
    """Yield the url of a user who may do nothing, with `SECRET` as password."""
    server.run(f"create role planted login password '{SECRET}' {attributes}")
    try:
        yield f"postgresql://planted:{quote(SECRET)}@{server.place}"
    finally:
        server.run("drop owned by planted", "drop role planted")


def test_faults_of_postgresql_are_found(site: Site, postgres: PostgresServer) -> None:
    site.patch.setenv("TABLES", postgres.url)
    words = site.program(TABLE)
    check_one(site.doctor(*words), "parts", "fsync is off", "fsync = on", "warning")  # as the tests' server is set

    with user_of(postgres) as url:
        postgres.run("revoke create on schema public from public")
        site.patch.setenv("TABLES", url)
        (rights,) = (row for row in site.doctor(*words) if "fsync" not in row["found"])
        assert "planted may not create tables in the schema public" in rights["found"]
        assert "GRANT CREATE ON SCHEMA public TO planted" in rights["todo"]

        site.patch.setenv("TABLES", url.replace(SECRET, SECRET[::-1]))
        check_one(site.doctor(*words), "parts", "authentication failed", "user and password")

    away = site.program(f'PostgresMapState.opaque("postgresql://me:{SECRET}@127.0.0.1:{free_port()}/postgres")')
    check_one(site.doctor(*away), "parts", "refused", "Start the database")


def test_a_database_that_is_read_is_examined_as_a_plan_would(site: Site, postgres: PostgresServer) -> None:
    site.patch.setenv("TABLES", postgres.url)
    jdbc = 'JdbcSpout("env:TABLES", "no_such_table", "id long", orderBy="id")'
    changes = 'PostgresChangesSpout("env:TABLES", "no_such_table", "id long", slot="s", publication="p")'
    key = site.program(spout=jdbc)
    check_one(site.doctor(*key), "parts", "no_such_table", "names the table")
    rows = site.doctor(*site.program(spout=changes))
    assert any("wal_level is replica" in row["found"] and "ALTER SYSTEM" in row["todo"] for row in rows), rows


# --- Kafka ---------------------------------------------------------------------------------------------------------


def test_faults_of_kafka_are_found(site: Site, kafka: Any) -> None:
    kafka.create("planted")
    there = site.program(spout=f'KafkaSpout("{kafka.servers}", "planted")')
    assert site.doctor(*there) == []
    absent = site.program(spout=f'KafkaSpout("{kafka.servers}", ["planted", "plamted"])')
    check_one(site.doctor(*absent), "parts", "no topic 'plamted'", "Create it")
    away = site.program(spout=f'KafkaSpout("127.0.0.1:{free_port()}", "planted")')
    check_one(site.doctor(*away), "parts", "no broker answers: .*refused", "Start the broker")
    login = f'"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "{SECRET}"'
    options = f'{{"security.protocol": "SASL_PLAINTEXT", {login}}}'
    refused = site.program(spout=f'KafkaSpout("{kafka.secured}", "planted", options={options})')
    check_one(site.doctor(*refused), "parts", "(?i)authentication", "sasl")


def test_a_missing_extra_is_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        words = site.program(spout=f'KafkaSpout("127.0.0.1:{listening.getsockname()[1]}", "planted")')
        monkeypatch.setitem(sys.modules, "confluent_kafka.admin", None)
        check_one(site.doctor(*words), "parts", "confluent-kafka", r"pip install 'trident-pyspark\[")


# --- an object store -----------------------------------------------------------------------------------------------


def test_faults_of_an_object_store_are_found(site: Site, s3_server: S3Server) -> None:
    storage = dict(s3_server.storage)

    def rows(**changed: str) -> list[Mapping[str, Any]]:
        options = ", ".join(f'{name} = "{value}"' for name, value in {**storage, **changed}.items() if name != "url")
        url = changed.get("url", f"s3://{BUCKET}/runs")
        site.toml(f'[start]\nfilesLocation = "{url}"\nfilesStorage = {{ {options} }}\n')
        return site.doctor()

    assert rows() == []
    (site.folder / "wrong").write_text(SECRET)
    check_one(rows(secret_access_key="file:wrong"), "files_location", "one cannot", "credentials")
    check_one(rows(secret_access_key="file:absent"), "files_location", "absent", "filesStorage")
    check_one(rows(url="s3://no-such-bucket/runs"), "files_location", "one cannot", "correct the URL")
    check_one(rows(endpoint=f"http://127.0.0.1:{free_port()}"), "files_location", "one cannot", "Start the store")


# --- the program, ports and packages -------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_found(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        check_one(site.doctor("--port", port), "port", "(?i)in use", "another --port")
    assert site.doctor("--port", port) == []


def test_faults_of_a_program_are_found(site: Site) -> None:
    words = site.program()
    assert site.doctor(*words) == []
    check_one(site.doctor(words[0]), "program", "neither a checkpointLocation nor a log", "--checkpoint", "warning")
    unsafe = site.program("MemoryMapState.nonTransactional()")
    check_one(site.doctor(*unsafe, "--set", "requireExactlyOnce=true"), "program", "guarantee less", "trident explain")
    check_one(site.doctor("no_such_module:topology"), "program", "no module", "in its folder")
    folder = site.program('SqliteMapState.opaque("no/such/folder/states.db")')
    check_one(site.doctor(*folder), "parts", "does not exist", "mkdir -p")
    gone = site.program(spout='RedisStreamSpout("redis://127.0.0.1:1", "words", "word string")')
    site.toml(f'[spouts.words]\nurl = "redis://127.0.0.1:{free_port()}"\n')
    check_one(site.doctor(*gone), "parts", "refused", "")
    assert "127.0.0.1:1 " not in str(site.doctor(*gone))
    site.toml("[spouts.words]\nurls = 1\n")
    assert ("program", "did you mean 'url'") in [
        (row["check"], re.search("did you mean 'url'|$", row["found"])[0]) for row in site.doctor(*gone)
    ]
    site.toml("")
    (site.folder / "planted_broken.py").write_text(f'raise RuntimeError("redis://me:{SECRET}@host/0")\n')
    check_one(site.doctor("planted_broken:topology"), "program", "RuntimeError", "Correct the program")


def test_a_disk_that_is_almost_full_is_found(tmp_path: Path) -> None:
    assert list(space(tmp_path, 1)) == []
    (finding,) = space(tmp_path, 1 << 60)
    assert "MB are free" in finding.found and "larger disk" in finding.todo


def test_a_package_that_is_missing_or_old_is_found() -> None:
    assert list(unmet("click>=8.1")) == []
    (missing,), (old,) = unmet("no-such-distribution>=1"), unmet("click>=8.1,<8.1")
    assert (missing.todo, old.todo) == ("pip install 'no-such-distribution>=1'", "pip install 'click>=8.1,<8.1'")


def test_a_check_that_fails_itself_hides_no_other() -> None:
    def broken(case: ExaminedSetup) -> list[Any]:
        raise OSError(5, "Input/output error")

    def found(case: ExaminedSetup) -> list[Any]:
        return list(unmet("no-such-distribution"))

    assert [diagnosis.check for diagnosis in diagnoses(ExaminedSetup(), [broken, found])] == ["broken", "found"]
