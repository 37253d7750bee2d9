"""The test server is a real one: what it acknowledged is there after a kill, as its AOF setting says."""

from pathlib import Path

import pytest
import redis

from tests.support.server import RedisServer, server_version


def test_a_killed_server_with_aof_always_comes_back_with_every_write(redis_server: RedisServer) -> None:
    for n in range(100):
        redis_server.client.set(f"key-{n}", n)
    redis_server.restart()
    assert redis_server.client.dbsize() == 100


def test_a_killed_server_without_aof_comes_back_empty(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "none") as server:
        server.client.set("key", 1)
        server.restart()
        assert server.client.dbsize() == 0


def test_a_wiped_server_comes_back_empty_on_the_same_url(redis_server: RedisServer) -> None:
    url = redis_server.url
    redis_server.client.set("key", 1)
    redis_server.stop()
    redis_server.wipe()
    redis_server.start()
    assert (redis_server.url, redis_server.client.dbsize()) == (url, 0)


def test_a_stopped_server_refuses_and_a_paused_one_times_out(redis_server: RedisServer) -> None:
    hurried = redis_server.connect(socket_timeout=0.2)
    redis_server.pause()
    with pytest.raises(redis.TimeoutError):
        hurried.ping()
    redis_server.resume()
    redis_server.stop()
    with pytest.raises(redis.ConnectionError):
        redis_server.connect().ping()


def test_a_password_is_part_of_the_url(tmp_path: Path) -> None:
    with RedisServer(tmp_path, password="open-sesame") as server:
        assert redis.Redis.from_url(server.url).ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port).ping()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no-such-option"):
        RedisServer(tmp_path, "always", "--no-such-option", "1").start()


def test_the_shared_server_is_empty_at_first(shared_redis: RedisServer) -> None:
    shared_redis.client.set("left", "behind")


def test_the_shared_server_is_empty_again(shared_redis: RedisServer) -> None:
    assert shared_redis.client.dbsize() == 0


def test_the_server_tells_its_name() -> None:
    assert "server v=" in server_version()
