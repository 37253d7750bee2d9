"""Stored checkpoints: a program's folder as an archive, the keys of its Redis as JSON, its tables as SQL."""

import base64
import json
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import redis

from tests.support.postgres import PASSWORD, PostgresServer, programs

GOLDEN = Path(__file__).parents[1] / "golden"
"""The folder with a folder for each version, and in that an archive and the expected content for each program."""

FOLDER, REDIS, POSTGRES, KAFKA, DISK = "folder", "redis.json", "postgres.sql", "kafka.json", "disk"

NOWHERE = "/golden"
"""The path in an archive of the folder in which a program was submitted."""


def versions() -> list[str]:
    """Return the versions of which there are checkpoints."""
    return sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir())


def pack(folder: Path, archive: Path) -> None:
    """Write all files below a folder into an archive, without names of users."""

    def nameless(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:xz") as packed:
        packed.add(folder, arcname=".", filter=nameless)


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


# --- Redis ------------------------------------------------------------------------------------------------------------


def dump_keys(client: redis.Redis) -> str:
    """Return all keys and their values as JSON; the format of ``DUMP`` would depend on the server's version."""
    held = {}
    for key in sorted(client.scan_iter()):
        kind = client.type(key).decode()
        assert client.ttl(key) == -1, f"{key!r} expires"
        held[_text(key)] = [kind, _READ[kind](client, key)]
    return json.dumps(held, indent=0)


def load_keys(client: redis.Redis, text: str) -> None:
    for key, (kind, value) in json.loads(text).items():
        _WRITE[kind](client, _bytes(key), value)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _read_hash(client: Any, key: bytes) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in sorted(client.hgetall(key).items())}


_READ: Mapping[str, Callable[[Any, bytes], Any]] = {
    "hash": _read_hash,
    "string": lambda client, key: _text(client.get(key)),
    "zset": lambda client, key: [[_text(name), score] for name, score in client.zrange(key, 0, -1, withscores=True)],
    "set": lambda client, key: sorted(_text(name) for name in client.smembers(key)),
    "list": lambda client, key: [_text(value) for value in client.lrange(key, 0, -1)],
}
_WRITE: Mapping[str, Callable[[Any, bytes, Any], Any]] = {
    "hash": lambda client, key, value: client.hset(key, mapping={_bytes(n): _bytes(v) for n, v in value.items()}),
    "string": lambda client, key, value: client.set(key, _bytes(value)),
    "zset": lambda client, key, value: client.zadd(key, {_bytes(name): score for name, score in value}),
    "set": lambda client, key, value: client.sadd(key, *map(_bytes, value)),
    "list": lambda client, key, value: client.rpush(key, *map(_bytes, value)),
}

# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def dump_tables(server: PostgresServer, database: str) -> str:
    """Return a database as SQL."""
    folder = programs()
    assert folder is not None
    words = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "--inserts", "--no-owner", "--no-acl"]
    done = subprocess.run(
        [str(folder / "pg_dump"), *words, database],
        env={"PGPASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    return "\n".join(line for line in lines if line and not line.startswith(("--", "\\", "SET ")))


def load_tables(server: PostgresServer, database: str, text: str) -> None:
    with server.connect(dbname=database) as connection:
        connection.execute(text.encode())


def new_database(server: PostgresServer, name: str) -> str:
    """Make an empty database, and return its url."""
    server.run(f'drop database if exists "{name}"', f'create database "{name}"')
    return server.url.removesuffix("/postgres") + f"/{name}"
