"""A place in which a topology is to run: a folder with a program and trident.toml, and an environment."""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from trident.cli.main import main

SECRET = "s3cr3t-Pa55word"
"""A password in each address that a test makes up. The doctor's output never has it."""

_HEAD = """
from trident import Count, TridentTopology
from trident.log import RedisLog
from trident.spouts import FixedBatchSpout, JdbcSpout, KafkaSpout, PostgresChangesSpout, RedisStreamSpout
from trident.state import MemoryMapState, PostgresMapState, RedisMapState, SqliteMapState

topology = TridentTopology()
words = FixedBatchSpout("word string", [[("the",)]])
"""


class Site:
    """A folder and an environment of one test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))
        for name in ("SPARK_HOME", "TRIDENT_START_DRIVER_ROWS", "TRIDENT_CONFIG", "TRIDENT_PROFILE", "SPARK_LOCAL_IP"):
            monkeypatch.delenv(name, raising=False)

    def program(self, state: str = "MemoryMapState.opaque()", spout: str = "words") -> list[str]:
        """Write a program that counts, and return the arguments that name it."""
        module = f"planted_{uuid.uuid4().hex}"
        counts = f'.persistentAggregate({state}, Count(), "n", name="counts")'
        stream = f'topology.newStream("words", {spout})'
        key = ".groupBy(topology_key)" if spout == "words" else ""
        text = f'{_HEAD}topology_key = "word"\n{stream}{key}{counts}\n'
        (self.folder / f"{module}.py").write_text(text)
        return [f"{module}:topology", *self.checkpoint()]

    def checkpoint(self) -> list[str]:
        """Return the arguments of a checkpoint below the folder of the site, and of a topology in it."""
        return ["--checkpoint", str(self.folder / "checkpoint"), "--name", "wc"]

    def toml(self, text: str) -> None:
        """Write trident.toml."""
        (self.folder / "trident.toml").write_text(text)

    def executable(self, name: str, text: str) -> Path:
        """Write a shell script."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def doctor(self, *words: str) -> list[Mapping[str, Any]]:
        """Return the findings of `trident doctor --json`. The exit code says whether one of them is an error."""
        arguments = ["doctor", "--json", *words]
        if "--engine" not in words:
            arguments += ["--engine", "embedded"]
        ran = CliRunner().invoke(main, arguments, catch_exceptions=False)
        rows = [json.loads(line) for line in ran.stdout.splitlines()]
        assert ran.exit_code == int(any(row["level"] == "error" for row in rows)), ran.output
        assert SECRET not in ran.output
        return rows
