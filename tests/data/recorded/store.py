"""Recorded stores as files: a checkpoint as an archive, a server's keys as JSON."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import redis

HERE = Path(__file__).parent


def recordings() -> list[str]:
    """Return the names of all recordings, ``v0.1/memory-clean``."""
    return sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in HERE.glob("*/*/expected.json"))


def restore(recording: str, folder: Path, client: "redis.Redis | None" = None) -> dict[str, Any]:
    """Put a recording's files into `folder` and its keys on a server; return what to expect of it."""
    where = HERE / recording
    shutil.unpack_archive(where / "files.zip", folder)
    if (where / "keys.json").exists():
        assert client is not None, f"{recording} needs a server"
        for key, fields in json.loads((where / "keys.json").read_text()):
            client.hset(key, mapping={_bytes(name): _bytes(value) for name, value in fields.items()})
    expected: dict[str, Any] = json.loads((where / "expected.json").read_text())
    return expected


def keep(files: Path, client: "redis.Redis | None", into: Path) -> None:
    """Store these files, and the keys of a server."""
    shutil.make_archive(str(into / "files"), "zip", files)
    if client is None:
        return
    lines = []
    for key in sorted(client.scan_iter()):  # DUMP would not do: not every server takes the payload of every other one
        assert client.type(key) == b"hash" and client.ttl(key) == -1, key
        fields = sorted(client.hgetall(key).items())
        lines.append(json.dumps([key.decode(), {_text(name): _text(value) for name, value in fields}]))
    (into / "keys.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _text(value: bytes) -> str:
    """ASCII as it is behind "=", anything else in base64 behind ":"."""
    printable = all(32 <= byte < 127 for byte in value)
    return "=" + value.decode() if printable else ":" + base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return text[1:].encode() if text[0] == "=" else base64.b64decode(text[1:])
