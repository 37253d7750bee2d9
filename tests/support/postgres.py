"""A real PostgreSQL for tests and benchmarks to start, kill and restart, and the jar of its driver for Java."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
import pytest

from tests.support.server import free_port
from trident.demo.artifacts import first_fetched

PASSWORD = "se/cret?#@:%"
"""The password of the user ``postgres``: in a url each of its signs must be written in another form."""

LOGICAL = ("wal_level=logical", "max_replication_slots=100")
"""The options of a server whose log of changes can be read, by slots."""

_DRIVER = "org.postgresql:postgresql:42.7.4"
_START_SECONDS = 60
_PLACES = ("/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt/postgresql", "/usr/local/opt/postgresql")
"""Where distributions put the programs of a server, which are not on the path."""


@cache
def programs() -> Path | None:
    """Return the folder with the programs of a server: of $POSTGRES_BIN, the path, or a place of distributions."""
    given = os.environ.get("POSTGRES_BIN")
    on_path = shutil.which("initdb")
    beside = [folder for place in _PLACES for folder in sorted(Path(place).parent.glob(f"{Path(place).name}*/*/bin"))]
    beside += [folder for place in _PLACES for folder in sorted(Path(place).parent.glob(f"{Path(place).name}*/bin"))]
    folders = [Path(given)] if given else [*([Path(on_path).resolve().parent] if on_path else []), *reversed(beside)]
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def out_of_reach() -> str:
    """Return why there is no server; "" if there is one."""
    if programs() is None:
        return "there is no PostgreSQL: install it (apt-get install postgresql), or name its programs in POSTGRES_BIN"
    return ""


def driver_jar() -> tuple[Path | None, str]:
    """Return the jar of PostgreSQL's driver for Java, or why it cannot be fetched."""
    folder, reason = first_fetched([_DRIVER])
    return (None, reason) if reason else (next(folder.glob("postgresql-*.jar")), "")


def _user() -> tuple[int, int] | None:
    """Return the user and group under which the server runs; None for our own. It refuses to run as root."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    return 65534, 65534


class PostgresServer:
    """A server process of one's own, on its own loopback port and in a folder of its own, which goes at the end."""

    def __init__(self, *options: str) -> None:
        if reason := out_of_reach():
            pytest.skip(reason)
        self.port = free_port()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        # Not below pytest's folder, which only its owner may enter.
        self._folder = Path(tempfile.mkdtemp(prefix="trident-postgres-"))
        self._data = self._folder / "data"
        self._copy = self._folder / "copy"
        password = self._folder / "password"
        password.write_text(PASSWORD)
        self._as: dict[str, Any] = {"cwd": self._folder}
        if (owner := _user()) is not None:
            self._as |= {"user": owner[0], "group": owner[1], "extra_groups": []}
            os.chown(self._folder, *owner)
            os.chown(password, *owner)
        words = ["-U", "postgres", "-A", "scram-sha-256", f"--pwfile={password}", "-N", "-E", "UTF8", "--locale=C"]
        self._run("initdb", "-D", str(self._data), *words)

    def _program(self, name: str) -> str:
        folder = programs()
        assert folder is not None
        return str(folder / name)

    def _run(self, name: str, *words: str, **options: Any) -> None:
        options = {"capture_output": True, "text": True, "timeout": 60, **self._as, **options}
        ended = subprocess.run([self._program(name), *words], **options)
        assert ended.returncode == 0, f"{name} failed: {ended.stdout[-1000:]} {ended.stderr[-2000:]}"

    @property
    def place(self) -> str:
        """``127.0.0.1:port/postgres``, without a user."""
        return f"127.0.0.1:{self.port}/postgres"

    @property
    def url(self) -> str:
        """The url of the database, with its password."""
        return f"postgresql://postgres:{quote(PASSWORD, safe='')}@{self.place}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start on the same port and data, and return when the server answers."""
        assert not self.running, "the server is running already"
        settings = ["fsync=off", "unix_socket_directories=", "listen_addresses=127.0.0.1", f"port={self.port}"]
        settings += ["max_prepared_transactions=5", "autovacuum=off", "max_connections=60", *self._options]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._program("postgres"),
                    "-D",
                    str(self._data),
                    *(word for each in settings for word in ("-c", each)),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop it
                **self._as,
            )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.connect().close()
                return self
            except psycopg.OperationalError:
                if not self.running or time.monotonic() > deadline:
                    self.kill()
                    text = (self._folder / "server.log").read_text(errors="replace")
                    raise RuntimeError(f"the server did not start:\n{text[-3000:]}") from None
                time.sleep(0.02)

    def kill(self) -> None:
        """End it as a crash would, with all that serve connections. Does nothing if it is not running."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # after SIGKILL its children would live on for a moment
            self._process.wait(timeout=30)
            self._process = None

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def copy(self) -> None:
        """Take a copy of the running server's data, as a backup does."""
        shutil.rmtree(self._copy, ignore_errors=True)
        words = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-D", str(self._copy), "--checkpoint=fast"]
        self._run("pg_basebackup", *words, env={**os.environ, "PGPASSWORD": PASSWORD})

    def copy_at_rest(self) -> None:
        """Take a copy of the data while the server is stopped, also of the slots, which a backup leaves out."""
        self._run("pg_ctl", "stop", "-w", "-m", "fast", "-D", str(self._data))
        self._process = None
        subprocess.run(["rm", "-rf", self._copy], check=True)
        subprocess.run(["cp", "-a", self._data, self._copy], check=True)
        self.start()

    def restore(self, *, timeline: bool = False) -> None:
        """Put the data back to the last copy, and start on them; with `timeline` as a recovery from an archive does."""
        self.kill()
        subprocess.run(["rm", "-rf", self._data], check=True)
        subprocess.run(["cp", "-a", self._copy, self._data], check=True)
        if timeline:
            with (self._data / "postgresql.auto.conf").open("a") as settings:
                settings.write("restore_command = 'false'\n")
            (self._data / "recovery.signal").touch()
        self.start()
        if timeline:  # connections are taken while it still recovers
            with self.connect() as connection:
                deadline = time.monotonic() + _START_SECONDS
                while connection.execute("select pg_is_in_recovery()").fetchall() != [(False,)]:
                    assert time.monotonic() < deadline, "the server does not end its recovery"
                    time.sleep(0.02)

    @contextmanager
    def as_standby(self) -> Iterator[None]:
        """Let the server be a standby that waits for its primary, in the block."""
        signal_file = self._data / "standby.signal"
        self._run("pg_ctl", "stop", "-w", "-m", "fast", "-D", str(self._data))
        signal_file.touch()
        self._process = None
        self.start()
        try:
            yield
        finally:
            self.kill()
            signal_file.unlink()
            self.start()

    def connect(self, **options: Any) -> "psycopg.Connection[Any]":
        """Return a new connection in autocommit mode."""
        return psycopg.connect(self.url, autocommit=True, connect_timeout=10, **options)

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    @contextmanager
    def transaction(self, *statements: str) -> Iterator["psycopg.Connection[Any]"]:
        """Run statements in a transaction that stays open in the block; it is rolled back unless the block commits."""
        with self.connect() as connection:
            connection.execute("begin")
            for statement in statements:
                connection.execute(statement.encode())
            yield connection
            if connection.info.transaction_status:
                connection.execute("rollback")

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
