"""A group's coordinator that is not ready, or has moved, costs an output time, and not the process."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.support.kafka import KafkaBroker
from trident.outputs.kafka.cluster import OutputCluster
from trident.outputs.kafka.errors import OutputErrors

READ = """
import sys
from trident.outputs.kafka.cluster import OutputCluster
from trident.outputs.kafka.errors import OutputErrors
servers, group = sys.argv[1:]
cluster = OutputCluster({"bootstrap.servers": servers, "log_level": 0}, OutputErrors("out", servers), "out")
print(cluster.committed(group, "topic", True))
"""


class Admin:
    """A client whose coordinator moves before it answers for the first time."""

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    def _answer(self, what: str, answer: Any) -> Any:
        self._asked.append(what)
        if len(self._asked) == 1:
            raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))
        return answer

    def describe_consumer_groups(self, groups: list[str], request_timeout: float) -> Any:
        return {groups[0]: SimpleNamespace(result=lambda: self._answer("coordinator", None))}

    def list_consumer_group_offsets(self, asked: list[Any], require_stable: bool, request_timeout: float) -> Any:
        stored = SimpleNamespace(error=None, offset=7, metadata="{}")
        answer = SimpleNamespace(topic_partitions=[stored])
        return {asked[0].group_id: SimpleNamespace(result=lambda: self._answer("offsets", answer))}

    def poll(self, seconds: float) -> None: ...


def test_offsets_are_read_only_where_the_coordinator_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that refuses a request for offsets would end the process."""
    asked = list[str]()
    monkeypatch.setattr(OutputCluster, "_connected", lambda self: Admin(asked))
    cluster = OutputCluster({"bootstrap.servers": "nowhere"}, OutputErrors("out", "nowhere"), "out")
    assert cluster.committed("group", "topic", True) == (7, "{}")
    assert asked == ["coordinator", "coordinator", "offsets"]


def test_outputs_that_begin_before_their_broker_read_their_record(tmp_path: Path) -> None:
    def read(number: int) -> tuple[int, str]:
        command = [sys.executable, "-c", READ, broker.servers, f"group{number}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return ended.returncode, ended.stdout + ended.stderr

    broker = KafkaBroker(tmp_path / "kafka")
    with ThreadPoolExecutor(8) as threads:
        read_records = threads.map(read, range(8))
        with broker:
            assert list(read_records) == [(0, "None\n")] * 8
