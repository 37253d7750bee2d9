"""What a KafkaSpout says of itself, what it refuses, and the options that it hands to its clients; without a broker."""

import datetime
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import KafkaError

from trident.errors import MissingPackageError, SourceUnreadableError, SpoutContractError, TopologyError
from trident.spouts import KafkaSpout, SpoutKind, TransactionAttempt
from trident_spouts.kafka import cluster
from trident_spouts.kafka.offset_ranges import OffsetRange, TopicRange, from_metadata, limited, ranges_of, to_metadata
from trident_spouts.kafka.options import client_options, java_options

LOGIN = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "me"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected either topics, KafkaSpout('localhost:9092', 'orders'), or pattern='clicks-.*'"),
        ({"topics": "a", "pattern": "b"}, "expected either topics"),
        ({"topics": []}, "topics=[] (list): expected a topic's name, or a list of different names"),
        ({"topics": ["a", "a"]}, "topics=['a', 'a'] (list): expected a topic's name"),
        ({"topics": 5}, "topics=5 (int): expected a topic's name"),
        ({"pattern": "("}, "pattern='(' is not a regular expression (missing ), unterminated subpattern"),
        (
            {"topics": "a", "kind": "nonTransactional"},
            "kind='nonTransactional' is not one of 'transactional', 'opaque'",
        ),
        ({"topics": "a", "isolationLevel": "x"}, "isolationLevel='x' is not one of 'read_committed', 'read_unco"),
        ({"topics": "a", "onDataLoss": "skip"}, "onDataLoss='skip' is not one of 'fail', 'earliest', 'latest'"),
        ({"topics": "a", "maxOffsetsPerBatch": 0}, "maxOffsetsPerBatch=0: expected a whole number of at least 1"),
        (
            {"topics": "a", "startingOffsets": "begin"},
            "startingOffsets='begin' (str): expected 'earliest', 'latest', a ",
        ),
        ({"topics": "a", "startingOffsets": {"a": {0: -1}}}, "startingOffsets['a']={0: -1} (dict): expected an offset"),
        ({"topics": "a", "startingOffsets": {"a": {"0": 1}}}, "startingOffsets['a']={'0': 1} (dict): expected an off"),
        ({"topics": "a", "startingOffsets": {"a": {"0": 1}}}, "; a partition is a number, 0, not the text '0'"),
        (
            {"topics": "a", "startingOffsets": datetime.datetime(2026, 1, 1)},
            "has no time zone; write datetime(2026, 1, 31, 12, tzinfo=timezone.utc)",
        ),
        ({"topics": "a", "options": "x"}, "options='x' (str): expected a mapping, such as {'security.protocol': "),
        ({"topics": "a", "options": {"a": None}}, "options: expected names and values of options, got 'a': a NoneType"),
        ({"topics": "a", "options": {"isolation.level": "x"}}, "options: 'isolation.level' is set by the spout itself"),
        ({"topics": "a", "options": {"auto.offset.reset": "x"}}, "is set by the spout itself; use onDataLoss="),
        ({"topics": "a", "sparkOptions": {"kafka.bootstrap.servers": "x"}}, "itself; use bootstrapServers="),
        ({"topics": "a", "sparkOptions": {"startingoffsets": "x"}}, "itself; use startingOffsets="),
        ({"topics": "a", "sparkOptions": {"kafka.group.id": "x"}}, "itself; use options={'group.id': ...}"),
    ],
)
def test_a_wrong_argument_is_refused_where_it_is_written(arguments: Any, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        KafkaSpout("localhost:9092", **arguments)
    assert str(caught.value).startswith("KafkaSpout: ") and message in str(caught.value)


def test_servers_are_text() -> None:
    with pytest.raises(
        TopologyError, match=r"bootstrapServers=9092 \(int\): expected 'host:port', several separated by commas"
    ):
        KafkaSpout(9092, "a")  # type: ignore[arg-type]


def test_its_text_shows_what_was_given_and_no_secret() -> None:
    spout = KafkaSpout(
        "b:1", ["x", "y"], kind="opaque", onDataLoss="latest", options={**LOGIN, "sasl.password": "hush"},
        sparkOptions={"kafka.sasl.jaas.config": "hush", "minPartitions": 4, "kafka.ssl.key.password": "env:KEY"},
    )  # fmt: skip
    assert "hush" not in repr(spout)
    assert repr(spout) == (
        "KafkaSpout('b:1', ['x', 'y'], kind='opaque', onDataLoss='latest', options={'security.protocol': 'sasl_ssl', "
        "'sasl.mechanism': 'PLAIN', 'sasl.username': 'me', 'sasl.password': '***'}, sparkOptions="
        "{'kafka.sasl.jaas.config': '***', 'minPartitions': 4, 'kafka.ssl.key.password': 'env:KEY'})"
    )
    assert spout.kind is SpoutKind.OPAQUE and hash(spout) == hash(spout)
    assert KafkaSpout("b:1", "x") == KafkaSpout("b:1", ["x"]) != KafkaSpout("b:1", "y")


# --- options --------------------------------------------------------------------------------------------------------


def test_a_secret_is_read_where_a_client_connects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    monkeypatch.setenv("KAFKA_SERVERS", "one:1,two:2\n")
    options = {**LOGIN, "sasl.password": f"file:{file}"}
    with pytest.raises(TopologyError) as caught:
        client_options("env:KAFKA_SERVERS", options)
    assert str(caught.value) == (
        f"KafkaSpout: sasl.password='file:{file}': the file cannot be read (No such file or directory)"
    )
    file.write_text("hush\n")
    read = client_options("env:KAFKA_SERVERS", options)
    assert (read["sasl.password"], read["bootstrap.servers"]) == ("hush", "one:1,two:2")
    monkeypatch.delenv("KAFKA_SERVERS")
    with pytest.raises(
        TopologyError, match="bootstrapServers='env:KAFKA_SERVERS': the environment variable KAFKA_SERV"
    ):
        client_options("env:KAFKA_SERVERS", options)


def test_options_are_translated_for_the_java_client(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"the {name}")
    options = {**LOGIN, "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": 'a"b\\c', "fetch.min.bytes": 5}
    options |= {f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "certificate", "key")}
    options |= {
        "ssl.key.password": "hush",
        "ssl.endpoint.identification.algorithm": "none",
        "debug": "all",
        "group.id": "me",
    }
    assert java_options(client_options("b:1", options)) == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "the ca",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "the certificate",
        "kafka.ssl.keystore.key": "the key",
        "kafka.ssl.key.password": "hush",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.fetch.min.bytes": "5",
        "kafka.reconnect.backoff.max.ms": "1000",
    }


def test_an_option_that_the_client_does_not_know_is_refused() -> None:
    with pytest.raises(TopologyError, match='KafkaSpout: options: No such configuration property: "retention.ms"'):
        KafkaSpout("b:1", "t", options={"retention.ms": 5}).open()


def test_the_package_is_named_that_is_missing() -> None:
    with (
        mock.patch.dict(sys.modules, {"confluent_kafka": None, "confluent_kafka.admin": None}),
        pytest.raises(MissingPackageError, match=r"the package confluent-kafka in the driver: pip install 'trident-py"),
    ):
        KafkaSpout("b:1", "t").open()


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_SECS", 0.3)
    executor = KafkaSpout("127.0.0.1:1", "t").open()
    with pytest.raises(SourceUnreadableError) as caught:
        executor.plan(TransactionAttempt(1, 0, 1), None, 0.0)
    assert str(caught.value).startswith("KafkaSpout: cannot describe the topics at 127.0.0.1:1: ")
    assert "Connection refused" in str(caught.value) or "brokers are down" in str(caught.value)
    executor.close()


def test_a_reason_stays_when_all_brokers_are_reported_as_down() -> None:
    there = cluster.Cluster({"bootstrap.servers": "127.0.0.1:1"}, "read_committed")
    down, reason = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError._AUTHENTICATION, "wrong password")
    for heard, kept in ((down, down), (reason, reason), (down, reason)):
        there._heard(heard)
        assert there._last_error is kept


# --- ranges ---------------------------------------------------------------------------------------------------------


def test_metadata_names_every_offset_and_comes_back() -> None:
    topics = {"a": TopicRange("x", [0, 5, 7], [3, 5, 9]), "b": TopicRange(None, [1], [1])}
    assert from_metadata(to_metadata(topics)) == topics
    assert ranges_of(topics) == (OffsetRange("a", 0, 0, 3), OffsetRange("a", 2, 7, 9))


@pytest.mark.parametrize("metadata", [7, "x", {"files": []}, {"t": {"id": "x"}}])
def test_metadata_of_another_spout_is_refused(metadata: Any) -> None:
    with pytest.raises(SpoutContractError, match="KafkaSpout: .* of the log: another spout wrote it"):
        from_metadata(metadata)


@pytest.mark.parametrize("lags", [[1, 1, 1], [100, 1, 0, 7], [10**12, 3], [5] * 1000])
@pytest.mark.parametrize("limit", [1, 2, 10, 999])
def test_a_limit_is_used_up_and_no_partition_gives_more_than_it_has(lags: list[int], limit: int) -> None:
    shares = limited(lags, limit)
    assert sum(shares) == min(limit, sum(lags))
    assert all(0 <= share <= lag for share, lag in zip(shares, lags, strict=True))


def test_a_range_that_spark_may_cut_is_not_one_partition() -> None:
    """An aggregate over one partition needs no shuffle: over two it would give two groups of one key."""
    plan = to_metadata({"t": TopicRange("x", [0], [5])})
    for options, one in (({}, True), ({"MinPartitions": 4}, False), ({"maxRecordsPerPartition": 2}, False)):
        executor = KafkaSpout("b:1", "t", sparkOptions=options).open()
        assert executor.emit(TransactionAttempt(1, 0, 1), plan).one_partition is one
        executor.close()
