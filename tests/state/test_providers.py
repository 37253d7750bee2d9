"""stateProvider: states by the names of their providers, with the configuration that Storm documents."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import TridentTopology
from trident.errors import StateError, TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, SqliteMapState, stateProvider
from trident.testing.local import start_local

REDIS = "org.apache.storm.redis.state.RedisKeyValueStateProvider"


def of_mine(config: dict[str, Any]) -> Any:
    """A provider of a user's own, by its dotted name."""
    return SqliteMapState.opaque(config["file"])


NO_PROVIDER = 5


@pytest.mark.parametrize(
    ("provider", "config", "expected"),
    [
        (None, None, "MemoryMapState.opaque()"),
        ("memory", "{}", "MemoryMapState.opaque()"),
        ("org.apache.storm.state.InMemoryKeyValueStateProvider", None, "MemoryMapState.opaque()"),
        ("redis", None, "RedisMapState.opaque('redis://localhost:6379/0', connectTimeout=2.0, socketTimeout=2.0)"),
        (
            REDIS,
            '{"keyClass": null, "jedisPoolConfig": '
            '{"host": "db", "port": 1, "timeout": 500, "database": 3, "password": "x@y"}}',
            "RedisMapState.opaque('redis://:***@db:1/3', connectTimeout=0.5, socketTimeout=0.5)",
        ),
        ("sqlite", {"path": "a.db"}, "SqliteMapState.opaque('a.db')"),
        ("postgres", {"url": "postgresql://h/d"}, "PostgresMapState.opaque('postgresql://h/d')"),
        (f"{__name__}.of_mine", {"file": "b.db"}, "SqliteMapState.opaque('b.db')"),
    ],
)
def test_a_provider_is_chosen_by_name(provider: Any, config: Any, expected: str) -> None:
    assert repr(stateProvider(provider, config)) == expected


@pytest.mark.parametrize(
    ("provider", "config", "message"),
    [
        ("rediss", None, r"unknown state provider 'rediss'; did you mean 'redis'\?; the providers are memory, redis"),
        (
            "no.such.Provider",
            None,
            r"'no.such.Provider' cannot be imported \(No module named 'no'\); the providers are",
        ),
        (f"{__name__}.NO_PROVIDER", None, r"NO_PROVIDER' is 5: expected a callable that takes the configuration"),
        ("builtins.dict", {"a": 1}, r"'builtins.dict' returned {'a': 1} \(dict\): expected a state factory"),
        (7, None, r"provider 7 \(int\): expected a name, such as 'redis'"),
        (
            "redis",
            "{",
            r"config of state provider 'redis' is not JSON \(line 1, column 2: .*\): expected a JSON object",
        ),
        ("redis", "[]", r"config of state provider 'redis' is of type list: expected a JSON object"),
        ("redis", {"jedispool": {}}, r"config of state provider 'redis' has no key 'jedispool'.*jedisPoolConfig"),
        ("redis", {"jedisPoolConfig": {"prot": 1}}, r"jedisPoolConfig has no key 'prot'; did you mean 'port'\?"),
        ("redis", {"jedisPoolConfig": {"port": "1"}}, r"jedisPoolConfig: port is of type str: expected int"),
        (
            "redis",
            {"jedisPoolConfig": 3},
            r"config of state provider 'redis': jedisPoolConfig is of type int: expected",
        ),
        ("redis", {"valueSerializerClass": "a.B"}, r"valueSerializerClass has no effect here: .*valueType='binary'"),
        (
            "redis",
            {"keyClass": "java.lang.String"},
            r"keyClass has no effect here: the type of the key is set by keyFields",
        ),
        ("memory", {"size": 1}, r"config of state provider 'memory' has no key 'size'; it has no keys"),
        ("sqlite", {}, r"config of state provider 'sqlite' lacks 'path'"),
        ("sqlite", {"path": ":memory:"}, r"config of state provider 'sqlite': path=':memory:'"),
        ("postgres", {"url": "mysql://h"}, r"config of state provider 'postgres': "),
    ],
)
def test_a_wrong_name_or_configuration_is_refused(provider: Any, config: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        stateProvider(provider, config)


def test_no_error_and_no_log_shows_a_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts = []
    for pool in ({"password": "secret", "prot": 1}, {"password": "secret", "port": 10**9}, {"password": ["secret"]}):
        for config in ({"jedisPoolConfig": pool}, json.dumps({"jedisPoolConfig": pool}) + "secret"):
            with pytest.raises(TopologyError) as error:
                stateProvider("redis", config)
            texts.append(str(error.value))
    texts.append(repr(stateProvider("redis", {"jedisPoolConfig": {"password": "secret"}})))
    assert "secret" not in " ".join([*texts, caplog.text])


def counting(state: Any) -> TridentTopology:
    def counted(tuple: Any, state: Any) -> None:
        state.put(tuple.word, state.get(tuple.word, 0) + 1)

    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat", "dog"]]))
    words.statefulEach(counted, keyFields="word", valueType="long", stateFactory=state, name="counts")
    return topology


def test_an_operation_keeps_its_state_in_the_database_of_a_provider(shared_redis: RedisServer, tmp_path: Path) -> None:
    pool = {"host": "127.0.0.1", "port": shared_redis.port, "database": 3}
    provided = stateProvider(REDIS, json.dumps({"jedisPoolConfig": pool}))
    with start_local(counting(provided), name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"dog": 2, "cat": 1}
    assert "db3" in str(shared_redis.client.info("keyspace"))


def test_a_wrong_password_and_a_server_that_is_away_end_the_start(shared_redis: RedisServer, tmp_path: Path) -> None:
    for pool in ({"port": shared_redis.port, "password": "wrong"}, {"port": 1, "timeout": 200}):
        provided = stateProvider("redis", {"jedisPoolConfig": {"host": "127.0.0.1", **pool}})
        with pytest.raises(StateError) as error:
            start_local(counting(provided), name="t", checkpointLocation=tmp_path)
        assert "wrong" not in str(error.value)


def test_the_default_is_a_state_in_memory() -> None:
    assert stateProvider() == MemoryMapState.opaque()
