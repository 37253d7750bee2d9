"""The positions of a topology's streams, read from its log while it runs and after it has ended."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.access.small_topologies import Fed, counted, counting, everything, fixed
from tests.support.server import RedisServer
from trident import listPositions, openTopology
from trident.cli.main import main
from trident.errors import LogError, TopologyError, TridentError
from trident.log import RedisLog
from trident.spouts import FileSpout, OpaquePartitionedSpout
from trident.testing import crash_at
from trident.testing.local import start_local

TEXT = "the cow\n"


def test_a_run_and_its_log_show_the_same_positions(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(TEXT)
    source, checkpoint = FileSpout(tmp_path / "*.txt", schema="word string", format="text"), tmp_path / "ckpt"
    with start_local(counting(source), name="wc", checkpointLocation=checkpoint) as running:
        assert running.positions["words"].position in ({}, {str(tmp_path / "in.txt"): len(TEXT)})
        running.processAllAvailable(timeout=20)
        at = running.positions["words"]
        assert listPositions(checkpoint) == [at]
        with running.serve() as server:
            (group,) = httpx.get(f"{server.url}/status").json()["groups"]
    assert at.asDict() == {
        "topology": "wc",
        "stream": "words",
        "batchGroup": "words",
        "committed": 1,
        "frozen": 1,
        "position": {str(tmp_path / "in.txt"): len(TEXT)},
    }
    assert group["positions"] == [{"stream": "words", "frozen": 1, "parts": at.position, "more": 0}]
    files = everything(checkpoint)
    assert listPositions(checkpoint, topology="wc") == [at] == [running.positions["words"]]
    assert everything(checkpoint) == files
    with openTopology(counting(source), name="wc", checkpointLocation=checkpoint) as opened:
        assert opened.positions == {"words": at}
        (group,) = opened.watched.status().groups
        assert [each.parts for each in group.positions] == [at.position]


def test_frozen_batches_are_part_of_the_position(tmp_path: Path) -> None:
    with crash_at("commit.state.before", 2), suppress(TridentError):
        counted(counting(fixed(["a"], ["b"], ["c"])), checkpointLocation=tmp_path)
    (at,) = listPositions(tmp_path)
    assert at.committed == 1 and at.frozen > 1  # the run freezes ahead of its commits
    assert at.position == {"batches": at.frozen}


def test_the_log_may_be_in_redis(tmp_path: Path, shared_redis: RedisServer) -> None:
    log = RedisLog(shared_redis.url, requireDurable=False)
    fed = Fed(log=log, checkpointLocation=tmp_path)
    with fed.running:
        fed.feed("a")
        assert listPositions(log=log, topology="wc") == [*fed.running.positions.values()]
    with pytest.raises(TopologyError, match="a log in Redis belongs to one topology: give topology= too"):
        listPositions(log=log)
    with pytest.raises(TopologyError, match="give the location of the log: checkpointLocation=, or log="):
        listPositions()
    with pytest.raises(LogError, match="no topology 'other'"):
        listPositions(tmp_path / "elsewhere", topology="other")


class Letters(OpaquePartitionedSpout):
    outputFields = "word string"

    def getPartitions(self) -> list[str]:
        return ["a-c", "d-f"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> tuple[list[str], int]:
        return ([partition], 1) if lastMetadata is None else ([], lastMetadata)

    def position_by_part(self, position: Any) -> dict[str, Any]:
        return {f"letters {part}": at for part, at in position["positions"].items()}


PROGRAM = "from tests.access.test_positions import Letters, counting\ntopology = counting(Letters())\n"


def test_the_command_prints_a_line_for_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(counting(Letters()), checkpointLocation=tmp_path / "ckpt")
    (tmp_path / "letters_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    line = {"topology": "wc", "stream": "words", "batchGroup": "words", "committed": 1, "frozen": 1}
    assert _printed("--checkpoint", str(tmp_path / "ckpt")) == [
        line | {"part": "a-c", "position": 1},
        line | {"part": "d-f", "position": 1},
    ]
    own = _printed("wc", "--checkpoint", str(tmp_path / "ckpt"), "--program", "letters_program:topology")
    assert [each["part"] for each in own] == ["letters a-c", "letters d-f"]
    assert CliRunner().invoke(main, ["positions"]).exit_code == 2
    assert "no streams there" in CliRunner().invoke(main, ["positions", "--checkpoint", str(tmp_path / "x")]).output


def _printed(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["positions", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]
