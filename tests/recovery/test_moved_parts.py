"""A topic, a stream of Redis or a file that moves from one stream of a topology to another."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka import KafkaBroker
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.errors import CodeChangedError
from trident.spouts import FileSpout, KafkaSpout, RedisStreamSpout
from trident.state import MemoryMapState

Source = Callable[[str], Any]
"""Makes a spout that reads the parts with these letters."""


@pytest.fixture(params=["kafka", "kafka pattern", "redis", "files"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    """Two parts, `x` with three tuples and `y` with two."""
    name = uuid.uuid4().hex[:8]
    content = {"x": ["a", "b", "a"], "y": ["b", "c"]}
    if request.param.startswith("kafka"):
        broker: KafkaBroker = request.getfixturevalue("kafka")
        for part, words in content.items():
            broker.send(broker.create(f"{name}-{part}"), words)
        if request.param == "kafka":
            return lambda parts: KafkaSpout(broker.servers, [f"{name}-{part}" for part in parts])
        return lambda parts: KafkaSpout(broker.servers, pattern=f"{name}-[{parts}]")
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("shared_redis")
        for part, words in content.items():
            for word in words:
                server.client.xadd(f"{name}-{part}", {"value": word})
        return lambda parts: RedisStreamSpout(server.url, [f"{name}-{part}" for part in parts], "value string")
    for part, words in content.items():
        (tmp_path / f"{part}.txt").write_text("".join(f"{word}\n" for word in words))
    return lambda parts: FileSpout(tmp_path / f"[{parts}].txt", "text")


def word(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture
def counted(source: Source, tmp_path: Path) -> Callable[..., Mapping[str, int]]:
    """Run a program of streams to the end of their sources, and return its counts."""

    def run(states: Mapping[str, str] | None = None, anew: Sequence[str] = (), **streams: str) -> Mapping[str, int]:
        topology, into = TridentTopology(), dict[str, list[Any]]()
        for stream, parts in streams.items():
            made = topology.newStream(stream, source(parts), anew=stream in anew)
            field = "value" if "value" in made.fields else "line"
            words = made.each(field, word, "word string").project("word")
            into.setdefault((states or {}).get(stream, "counts"), []).append(words)
        for state, read in into.items():
            merged = topology.merge(*read) if len(read) > 1 else read[0]
            merged.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=state)
        with topology.start(name="t", engine="embedded", checkpointLocation=tmp_path / "c") as running:
            running.processAllAvailable(timeout=60)
            return dict(running.state("counts").items())

    return run


BOTH = {"a": 2, "b": 2, "c": 1}


def test_a_part_that_moves_to_a_new_stream_is_refused_and_goes_on_where_it_was(counted: Any) -> None:
    assert counted(first="xy") == BOTH
    with pytest.raises(CodeChangedError) as caught:
        counted(first="x", second="y")
    message = str(caught.value)
    assert "the stream 'second' would read '" in message and "y" in message.partition("would read ")[2][:200]
    assert "the stream 'first', which does not read it any more, has read it for 'counts'" in message
    assert "newStream('second', ..., anew=True)" in message and "test_moved_parts.py:" in message
    assert counted(first="xy") == BOTH


def test_a_part_that_is_left_out_for_a_while_is_not_forgotten(counted: Any) -> None:
    assert counted(first="xy") == BOTH
    assert counted(first="x") == BOTH
    with pytest.raises(CodeChangedError, match="would read"):
        counted(first="x", second="y")


def test_streams_that_exchange_their_parts_are_refused(counted: Any) -> None:
    assert counted(first="x", second="y") == BOTH
    with pytest.raises(CodeChangedError, match="a stream of a new name that reads only it"):
        counted(first="y", second="x")
    assert counted(first="x", second="y") == BOTH


def test_a_part_that_is_to_count_again_counts_again_once(counted: Any) -> None:
    assert counted(first="xy") == BOTH
    again = {"a": 2, "b": 3, "c": 2}
    assert counted(first="x", second="y", anew=["second"]) == again
    assert counted(first="x", second="y", anew=["second"]) == again
    assert counted(first="x", second="y") == again


def test_a_part_for_another_state_is_accepted(counted: Any) -> None:
    assert counted(first="xy") == BOTH
    assert counted(first="x", second="y", states={"second": "others"}) == BOTH


def test_a_part_that_is_read_twice_on_purpose_is_accepted(counted: Any) -> None:
    assert counted(first="xy") == BOTH
    assert counted(first="xy", third="y") == {"a": 2, "b": 3, "c": 2}
