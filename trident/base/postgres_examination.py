"""The examination of a PostgreSQL database for `trident doctor`: reachable, and with enough rights."""

from collections.abc import Callable, Iterator
from typing import Any

from trident.base.errors import TridentError
from trident.base.finding import Finding, Now, clocks_apart
from trident.base.postgres_address import parameters_of, postgres_client, said
from trident.base.reachability import SECONDS
from trident.base.redis_address import redacted

Question = Callable[[Any], Iterator[Finding]]
"""A query on an open connection of psycopg. It yields the faults that it finds."""

_STOPS = "a start is refused, or stops with the first batch"


def examine_database(
    about: str,
    url: str,
    user: str | None,
    password: str | None,
    extra: str,
    now: Now,
    *questions: Question,
) -> Iterator[Finding]:
    """Yield the faults of a database, then those that `questions` find, each in a transaction that is rolled back.

    `user`, `password`: as for `parameters_of`. `extra`: the extra that has the client.
    """
    client = postgres_client(about, extra)
    try:
        given = parameters_of(about, url, user, password, SECONDS, TridentError)
        with client.connect(**given, prepare_threshold=None) as connection:
            (theirs,) = connection.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
            yield from clocks_apart(about, theirs, now)
            for question in questions:
                yield from question(connection)
                connection.rollback()
    except TridentError as error:
        yield Finding(about, str(error), _STOPS, "Correct the url; it may be env:NAME or file:path that holds it")
    except client.Error as error:
        todo = "Start the database, or correct host, port, database, user and password of the url; look at firewalls, "
        todo += "and at pg_hba.conf if the server refuses this machine"
        yield Finding(about, f"{redacted(url)}: {said(error)}", _STOPS, todo)


def primary(about: str) -> Question:
    """Return the SQL query that asks whether the server accepts writes."""

    def asked(connection: Any) -> Iterator[Finding]:
        (standby,) = connection.execute("select pg_is_in_recovery()").fetchone()
        if standby:
            todo = "Let the url lead to the primary: several hosts, and ?target_session_attrs=read-write"
            yield Finding(about, "the server is a standby, which is read-only", _STOPS, todo)

    return asked


def may_create(about: str) -> Question:
    """Return the SQL query that asks whether the user may create tables in the first schema of the search path.

    If it may not, but may write a table there, the needed tables may already exist: then the finding is only advice.
    """

    def asked(connection: Any) -> Iterator[Finding]:
        query = (
            "select current_user, current_schema(), has_schema_privilege(current_schema(), 'CREATE'), exists (select "
        )
        query += "from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r' and "
        query += "has_table_privilege(oid, 'INSERT'))"
        user, schema, allowed, tables = connection.execute(query).fetchone()
        if schema is None:
            todo = f"CREATE SCHEMA states AUTHORIZATION {user}; and ?options=-csearch_path%3Dstates in the url"
            yield Finding(about, "no schema of the user's search_path exists", "tables cannot be created", todo)
        elif not allowed:
            found = f"the user {user} may not create tables in the schema {schema}"
            todo = f"GRANT CREATE ON SCHEMA {schema} TO {user}; or a schema of its own: CREATE SCHEMA states "
            yield Finding(
                about, found, _STOPS, f"{todo}AUTHORIZATION {user}, ?options=-csearch_path%3Dstates", not tables
            )

    return asked


def durable(about: str) -> Question:
    """Return the SQL query that asks whether the server keeps every confirmed commit."""

    def asked(connection: Any) -> Iterator[Finding]:
        query = "select name from pg_settings where name in ('fsync', 'full_page_writes') and setting = 'off'"
        for (name,) in connection.execute(query).fetchall():
            matters = "a crash of its machine may lose commits, or damage the database"
            todo = f"Set {name} = on in postgresql.conf (ALTER SYSTEM SET {name} = on; select pg_reload_conf())"
            yield Finding(about, f"{name} is off", matters, todo, grave=False)

    return asked
