"""Positions in the terms of the sources: each built-in spout has its own, and a spout of a user gets a default."""

import inspect
import logging
from typing import Any

import pytest

from trident import spouts
from trident.reads.stream_positions import stream_position
from trident.spouts import (
    DeltaSpout,
    FileSpout,
    JdbcSpout,
    KafkaSpout,
    OpaquePartitionedSpout,
    RedisStreamSpout,
)
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.files.manifest_planner import ManifestPosition
from trident_spouts.files.read_files import Entry, ReadFiles
from trident_spouts.positions import ShowsPosition, position_by_part

OF_THEIR_USERS = {"PollingSpout", "SparkSpout"}
"""Spouts whose positions are the values of the user's functions, which the default shows as they are."""

KAFKA = {"orders": {"id": "x1", "from": [0, 7], "to": [5, 7]}, "users": {"id": "x2", "from": [1], "to": [2]}}
DELTA = {"table": "t", "from": [3, 0, False], "to": [5, 2, False], "check": 1}
REDIS = {"pages": [], "positions": {"clicks": ["17-0", "d", 3, None, "0-0"]}}


def test_every_spout_of_the_library_shows_its_positions_without_an_instance() -> None:
    classes = {name: getattr(spouts, name) for name in spouts.__all__}
    ready = {name for name, each in classes.items() if inspect.isclass(each) and "open" in vars(each)}
    ready -= {
        name for name in ready if getattr(classes[name], "_is_protocol", False) or inspect.isabstract(classes[name])
    }
    assert {"KafkaSpout", "FileSpout", "RateSpout"} <= ready
    assert {name for name in ready if not isinstance(classes[name], ShowsPosition)} == OF_THEIR_USERS
    for name in ready - OF_THEIR_USERS:
        assert isinstance(inspect.getattr_static(classes[name], "position_by_part"), staticmethod), name


@pytest.mark.parametrize(
    ("spout", "position", "parts"),
    [
        (KafkaSpout, KAFKA, {"orders-0": 5, "orders-1": 7, "users-0": 2}),
        (RedisStreamSpout, REDIS, {"clicks": "17-0"}),
        (DeltaSpout, DELTA, {"version": 5, "files": 2}),
        (FileSpout, {"seen": ReadFiles(None, {"a.csv": Entry(5, 2)}, "/in").encode()}, {"/in/a.csv": 5}),
        (FileSpout, {"manifest": ManifestPosition(3).to_json()}, {"files": 3}),
    ],
)  # fmt: skip
def test_a_position_is_shown_in_the_terms_of_its_source(spout: Any, position: Any, parts: Any) -> None:
    assert position_by_part(spout, position) == parts
    assert position_by_part(spout, None) == {}


class Queues(OpaquePartitionedSpout):
    outputFields = "word string"

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> tuple[list[str], int]:
        return [], 0


def test_a_users_spout_has_the_positions_of_its_partitions_or_its_own_words() -> None:
    assert position_by_part(as_spout(Queues()), {"positions": {"p": 5}}) == {"p": 5}

    class Spoken(Queues):
        def position_by_part(self, position: Any) -> dict[str, Any]:
            return {f"queue {name}": f"message {at}" for name, at in position["positions"].items()}

    assert position_by_part(as_spout(Spoken()), {"positions": {"p": 5}}) == {"queue p": "message 5"}


def test_a_spout_that_cannot_describe_its_position_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        at = stream_position("wc", "words", "words", 2, 3, JdbcSpout, {"day": 1})
    assert (at.position, at.committed, at.frozen) == ({"position": {"day": 1}}, 2, 3)
    assert "the spout of stream 'words' failed in position_by_part()" in caplog.text
