"""How a JdbcSpout is written down: its options, what it shows of itself, and that it never shows a password."""

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.jdbc.reads import planned
from tests.support.postgres import PASSWORD, PostgresServer
from trident.errors import MissingPackageError, SourceUnreadableError, TopologyError, TypeDeclarationError
from trident.spouts import JdbcSpout

URL = "postgresql://me:geheim@host:5432/shop?sslpassword=geheim"


def test_its_repr_shows_what_it_was_given_and_no_password() -> None:
    spout = JdbcSpout(
        URL,
        "shop.orders",
        "id long",
        orderBy="id",
        kind="opaque",
        isolationLag="2 minutes",
        user="me",
        password="geheim",
        maxRowsPerBatch=10,
    )
    assert repr(spout) == (
        "JdbcSpout('postgresql://me:***@host:5432/shop?sslpassword=***', 'shop.orders', 'id bigint', orderBy='id', "
        "kind='opaque', isolationLag=120, maxRowsPerBatch=10, user='me', password='***')"
    )
    query = JdbcSpout("file:/run/url", query="select 1 as id", orderBy="id", mode="snapshot", password="env:PASSWORD")
    assert repr(query) == (
        "JdbcSpout('file:/run/url', orderBy='id', query='select 1 as id', mode='snapshot', password='env:PASSWORD')"
    )
    assert "geheim" not in f"{spout._address!r}"
    copied = pickle.loads(pickle.dumps(spout))  # noqa: S301  our own bytes
    assert (copied, hash(copied)) == (spout, hash(spout))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"url": "mysql://me:geheim@host/shop"}, "expected postgresql://.*Other databases are not supported yet"),
        ({"url": "me:geheim@host/shop"}, r"url='\*\*\*@host/shop': expected postgresql://"),
        ({"url": 5}, r"url=5 \(int\): expected postgresql://"),
        ({"url": "env:"}, "expected postgresql://"),
        ({"table": None}, "expected either a table, JdbcSpout\\(url, 'orders', orderBy='id'\\), or query="),
        ({"query": "select 1"}, "expected either a table"),
        ({"table": "a.b.c"}, "table='a.b.c'.*expected the name of a table or view"),
        ({"table": ""}, "expected the name of a table or view"),
        ({"table": None, "query": " "}, r"query=' ' \(str\): expected the text of a SELECT"),
        ({"orderBy": None}, "orderBy=None.*expected the name of a column"),
        ({"mode": "all"}, "mode='all' is not one of 'incremental', 'snapshot'"),
        ({"kind": "exact"}, "kind='exact' is not one of 'transactional', 'opaque'"),
        ({"onDataLoss": "skip"}, "onDataLoss='skip' is not one of 'fail', 'warn'"),
        ({"startingFrom": "now"}, "startingFrom='now'.*expected 'earliest', 'latest', or the value of orderBy"),
        ({"startingFrom": True}, "startingFrom=True"),
        ({"startingFrom": 7, "mode": "snapshot"}, "startingFrom=7 needs mode='incremental'"),
        ({"isolationLag": -1}, "isolationLag=-1: expected a non-negative duration"),
        ({"maxRowsPerBatch": 0}, "maxRowsPerBatch=0: expected a whole number of at least 1"),
        ({"numPartitions": 2.5}, "numPartitions=2.5: expected a whole number"),
        ({"user": 5}, r"user=5 \(int\): expected a text"),
        ({"retrySecs": "soon"}, "retrySecs='soon' is not a duration"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_written(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=f"JdbcSpout: .*{message}") as refused:
        JdbcSpout(**{"url": URL, "table": "orders", "orderBy": "id", **given})
    assert "geheim" not in str(refused.value)


def test_a_password_that_is_no_text_is_not_shown() -> None:
    with pytest.raises(TopologyError, match="JdbcSpout: password") as refused:
        JdbcSpout(URL, "orders", orderBy="id", password=b"geheim")  # type: ignore[arg-type]
    assert "geheim" not in str(refused.value)


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    spout = JdbcSpout(URL, "orders", "id long", orderBy="id")
    with pytest.raises(MissingPackageError, match=r"JdbcSpout needs the package psycopg.*trident-pyspark\[jdbc\]"):
        planned(spout.open())


@pytest.mark.parametrize("form", ["url", "jdbc", "env", "file", "apart"])
def test_url_user_and_password_have_many_forms(
    form: str, postgres: PostgresServer, table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    postgres.run(f"create table {table} (id int)")
    url, options = postgres.url, {}
    if form == "jdbc":
        url, options = f"jdbc:postgresql://{postgres.place}?user=postgres", {"password": PASSWORD}
    elif form == "env":
        monkeypatch.setenv("SHOP_URL", f"{url}\n")
        url = "env:SHOP_URL"
    elif form == "file":
        (tmp_path / "url").write_text(f"{url}\n")
        url = f"file:{tmp_path / 'url'}"
    elif form == "apart":
        monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
        url, options = f"postgresql://{postgres.place}", {"user": "postgres", "password": "env:SHOP_PASSWORD"}
    executor = JdbcSpout(url, table, orderBy="id", **options).open()
    assert planned(executor) is None
    executor.close()


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        (
            "env:NOT_SET_ANYWHERE",
            {},
            "url='env:NOT_SET_ANYWHERE': the environment variable NOT_SET_ANYWHERE is not set",
        ),
        ("file:/no/such", {}, r"url='file:/no/such': the file cannot be read \(No such file or directory\)"),
        ("env:OTHER", {}, "env:OTHER does not contain a url that begins with postgresql://"),
        (
            "postgresql://me:ge%zzheim@host:x/y",
            {},
            "cannot be understood; expected postgresql://user@host:5432/database",
        ),
        ("{}", {"password": "geheim"}, 'answered: .*password authentication failed for user "postgres"'),
        (
            "{}",
            {"user": "nobody_here"},
            "answered: .*authentication failed.*; check user, password and database in the",
        ),
        ("{}_x", {}, 'answered: .*database "postgres_x" does not exist'),
    ],
)
def test_an_address_that_cannot_work_is_told_without_secrets(
    url: str, options: dict[str, Any], message: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER", "mysql://me:geheim@host")
    executor = JdbcSpout(url.format(postgres.url), "orders", "id int", orderBy="id", **options).open()
    with pytest.raises(SourceUnreadableError, match=f"JdbcSpout: .*{message}") as refused:
        planned(executor)
    for secret in ("geheim", "ge%zzheim", PASSWORD):
        assert secret not in str(refused.value)


def test_a_user_without_the_right_to_read_is_told(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id int)", f"create role {table} login password 'x'")
    url = f"postgresql://{table}:x@{postgres.place}"
    executor = JdbcSpout(url, table, "id int", orderBy="id").open()
    with pytest.raises(SourceUnreadableError, match=f"permission denied for table {table}; GRANT it to the user"):
        planned(executor)
    postgres.run(f"grant select on {table} to {table}", f"insert into {table} values (1)")
    assert planned(executor)["pages"][0][:2] == ["1", 1], "no other right is needed"
    executor.close()


def test_an_index_is_no_table(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id int)", f"create sequence {table}_s")
    with pytest.raises(SourceUnreadableError, match=f"table {table}_s is not a table or view"):
        _ = JdbcSpout(postgres.url, f"{table}_s", orderBy="last_value").schema
    with pytest.raises(SourceUnreadableError, match=r"has no column 'ID' \(orderBy\); its columns are id"):
        planned(JdbcSpout(postgres.url, table, orderBy="ID").open())


def test_the_schema_is_asked_for_once(mortal: PostgresServer, table: str) -> None:
    mortal.run(f"create table {table} (id int, span interval)")
    with pytest.raises(TypeDeclarationError, match="column 'span'"):
        _ = JdbcSpout(mortal.url, table, orderBy="id").schema
    spout = JdbcSpout(mortal.url, query=f"select id from {table}", orderBy="id")
    assert spout.schema.names == ["id"]
    mortal.kill()
    assert spout.schema.names == ["id"]
