"""Spark is examined if that is asked for: its start, within a time, and its workers' view of servers."""

import contextlib
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.doctor.site import SECRET
from tests.support import s3
from tests.support.s3 import S3Server
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.finding import Finding
from trident.doctor.examined_setup import ExaminedSetup
from trident.doctor.files_location import files_location
from trident.doctor.workers import spark as examine_spark
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState


def counting(state: RedisMapState) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [[("the",)]]))
    words.groupBy("word").persistentAggregate(state, Count(), "n", name="counts")
    return topology


@pytest.mark.spark
def test_workers_that_lack_a_variable_of_the_driver_are_found(
    spark: SparkSession, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(1).mapInArrow(lambda batches: batches, "id long").count()  # the workers' environment is fixed from here
    monkeypatch.setenv("ONLY_OF_THE_DRIVER", shared_redis.url)
    state = RedisMapState.opaque("env:ONLY_OF_THE_DRIVER", writers="executors")

    def found(state: RedisMapState) -> list[str]:
        case = ExaminedSetup(program=counting(state), session=lambda: contextlib.nullcontext(spark))
        return [f"{finding.about}: {finding.found}" for finding in examine_spark(case)]

    (workers,) = found(state)
    assert "Spark's workers: a state at env:ONLY_OF_THE_DRIVER" in workers and "is not set" in workers
    assert found(RedisMapState.opaque("env:ONLY_OF_THE_DRIVER")) == []  # the driver alone writes it
    assert found(RedisMapState.opaque(shared_redis.url, writers="auto")) == []


@pytest.mark.spark
def test_workers_that_lack_the_secret_of_the_files_are_found(
    spark: SparkSession, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(1).mapInArrow(lambda batches: batches, "id long").count()
    monkeypatch.setenv("KEY_OF_THE_DRIVER", s3.SECRET)
    storage = dict(s3_server.storage)

    def found(secret: str) -> list[Finding]:
        given = {"filesLocation": f"s3://{s3.BUCKET}/doctor", "filesStorage": storage | {"secret_access_key": secret}}
        case = ExaminedSetup(given=given, session=lambda: contextlib.nullcontext(spark))
        assert list(files_location(case)) == []
        return list(examine_spark(case))

    (workers,) = found("env:KEY_OF_THE_DRIVER")
    assert (
        workers.about == f"Spark's workers: s3://{s3.BUCKET}/doctor" and "KEY_OF_THE_DRIVER is not set" in workers.found
    )
    assert found(storage["secret_access_key"]) == []


def test_a_spark_that_does_not_answer_is_given_up() -> None:
    @contextlib.contextmanager
    def hangs() -> Iterator[SparkSession]:
        time.sleep(5)
        raise AssertionError
        yield

    (finding,) = examine_spark(ExaminedSetup(session=hangs, spark_secs=0.1))
    assert "no Python task ended within 0.1 s" in finding.found and "--spark-secs" in finding.todo


def test_a_spark_that_fails_is_found_and_no_password_is_shown() -> None:
    @contextlib.contextmanager
    def fails() -> Iterator[SparkSession]:
        raise RuntimeError(f"no master at redis://me:{SECRET}@host\n  of many lines")
        yield

    (finding,) = examine_spark(ExaminedSetup(session=fails))
    assert finding.found == "RuntimeError: no master at redis://me:***@host" and "Java" in finding.todo


def test_spark_is_not_started_unless_it_is_asked_for() -> None:
    assert list(examine_spark(ExaminedSetup())) == []
