"""The demo is killed in the middle of a batch, resumes, and every count is right."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.server import RedisServer
from trident.demo import CORPUS
from trident.demo.__main__ import KILLED_IN, Driver, DriverFailedError, compare, main
from trident.demo.words import count_independently


def _play(redis: str = "", source: str = "") -> str:
    environment = {**os.environ, "SPARK_API_MODE": "classic", "REDIS": redis, "SOURCE": source}
    command = [sys.executable, "-m", "trident.demo"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    return ran.stdout


def _check(output: str) -> None:
    lines = output.splitlines()
    killed = next(number for number, line in enumerate(lines) if "SIGKILL" in line)
    before, after = (
        [int(n) for n in re.findall(r"batch +(\d+) committed", "\n".join(part))]
        for part in (lines[:killed], lines[killed:])
    )
    assert before == list(range(1, KILLED_IN))
    assert after == list(range(KILLED_IN, after[-1] + 1)) and after[-1] > KILLED_IN
    assert "asked while it runs" in output
    assert lines[-2] == "0 lost, 0 counted twice"
    assert lines[-1].startswith("make demo SERVE=1 ends with the address of its page")


@pytest.mark.spark
def test_counts_in_memory_survive_the_kill() -> None:
    _check(_play())


@pytest.mark.spark
@pytest.mark.soak
def test_counts_in_redis_survive_the_kill_and_are_gone_in_the_end(shared_redis: RedisServer) -> None:
    shared_redis.client.set("somebody's", "key")
    _check(_play(shared_redis.url))
    assert shared_redis.client.keys() == [b"somebody's"]


@pytest.mark.spark
@pytest.mark.soak
def test_counts_of_messages_in_kafka_survive_the_kill() -> None:
    kafka = pytest.importorskip("tests.support.kafka", reason="the demo with Kafka needs confluent-kafka")
    if reason := kafka.out_of_reach():
        pytest.skip(reason)
    output = _play(source="kafka")
    assert re.search(r"messages in 3 partitions of a Kafka broker at 127\.0\.0\.1:\d+", output)
    _check(output)


def test_an_unknown_source_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE", "kafak")
    assert main() == 2
    assert capsys.readouterr().err == "the demo failed: SOURCE='kafak' is not one of 'files', 'kafka'\n"


def test_a_wrong_count_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    right = Counter({"whale": 3, "sea": 2})
    assert compare({"whale": 3, "sea": 2}, right)
    assert not compare({"whale": 4}, right)
    assert capsys.readouterr().out.splitlines()[-1] == "2 lost, 1 counted twice"


def test_a_driver_that_ends_otherwise_is_no_success(tmp_path: Path) -> None:
    driver = Driver("demo", tmp_path, crash_at="no.such.point")
    assert list(driver.reports()) == []
    with pytest.raises(
        DriverFailedError, match=r"(?s)expected a kill in batch 8, but the driver ended with exit code 1.*no such point"
    ):
        driver.check_killed()


def test_the_independent_count_reads_the_whole_novel() -> None:
    counted = count_independently(CORPUS)
    assert (counted["whale"], counted["ishmael"], counted.total()) == (1_023, 19, 211_745)
