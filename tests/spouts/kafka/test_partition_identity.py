"""A position proves what it is the position of: the cluster, the topic, and the last message of each partition."""

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.kafka.reads import drained, emitted, planned, values
from tests.support.kafka import KafkaBroker
from trident.errors import DataLossError
from trident.spouts import KafkaSpout
from trident_spouts.executor import SpoutExecutor

OTHER = (
    r"no longer has the messages that were read, up to offset {}: the message at offset {} of .* was the last message, "
    r"and now there is the "
)


def proven(executor: SpoutExecutor, position: Any = None) -> Any:
    """Read until nothing is left, and return the position with its evidence, as a run freezes it."""
    while (plan := planned(executor, position)) is not None:
        emission = emitted(executor, plan)
        assert emission.after is None, "it was not read yet"
        emission.arrow()
        position = emission.after
    return position


def begun(servers: str, topic: str, to: int = 0, **options: Any) -> Any:
    """Return the position of a new stream that has read everything, at least to offset `to`, in a run of its own."""
    executor = KafkaSpout(servers, topic, **options).open()
    deadline = time.monotonic() + 30
    try:
        position = proven(executor)
        while to and (position is None or position[topic]["to"][0] < to):  # the marker of an abort comes after it
            assert time.monotonic() < deadline
            position = proven(executor, position)
        return position
    finally:
        executor.close()


def without_epochs(position: Any) -> Any:
    """Return a position that tells nothing of the epochs of leaders."""
    return {name: {part: each[part] for part in each if part != "epochs"} for name, each in position.items()}


def test_a_position_names_cluster_epoch_and_last_message(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic, 2), "abc")
    position = begun(kafka.servers, topic)[topic]
    assert position["cluster"] == kafka.admin.describe_cluster().result(30).cluster_id
    assert position["epochs"] == [0, 0]
    last, none = position["last"]
    (message,) = kafka.messages(topic)[-1:]
    assert last[:2] == [2, message.timestamp()[1]] and len(last[2]) == 16
    assert none == [0, -1, ""]


# --- restored from a copy, and grown beyond it -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaBroker, dict[str, Any]]]:
    """A broker that was restored under open executors, with the positions of three streams.

    Their topics were `grown` beyond the position, are `equal` in length, or had an `aborted` end.
    """
    folder = tmp_path_factory.mktemp("restored")
    with KafkaBroker(folder / "broker") as kafka:
        streams: dict[str, Any] = {}
        for name in ("grown", "equal", "aborted", "running", "spark", "kept"):
            kafka.send(kafka.create(name), ["m0", "m1", "m2"])
        kafka.create("compacted", cleanup_policy="compact")
        kafka.send("compacted", ["m0", "m1", "m2"], key=b"k")
        kafka.back_up(folder / "copy")
        for name in ("grown", "equal", "running", "spark"):
            kafka.send(name, ["m3 before", "m4 before"])
        kafka.send("compacted", ["m3 before", "m4 before"], key=b"k")
        kafka.send_transaction("aborted", ["lost"], commit=False)
        for name in ("running", "spark"):
            executor = KafkaSpout(kafka.servers, name, kind="opaque").open()
            streams[name] = executor, proven(executor)
        streams |= {name: begun(kafka.servers, name) for name in ("grown", "equal", "kept", "compacted")}
        streams["aborted"] = begun(kafka.servers, "aborted", to=5)
        kafka.restore(folder / "copy")
        for name in ("grown", "running", "spark"):
            kafka.send(name, ["m3 after", "m4 after", "m5 after"])
        kafka.send("equal", ["m3 after", "m4 after"])
        kafka.send("compacted", ["m3 after"], key=b"k")
        kafka.send_transaction("compacted", ["lost"], commit=False, key=b"k")
        kafka.send("aborted", ["m3", "m4"])
        yield kafka, streams
        for name in ("running", "spark"):
            streams[name][0].close()


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("name", ["grown", "equal"])
def test_a_restored_partition_that_has_grown_on_is_told_at_the_first_plan(
    restored: tuple[KafkaBroker, dict[str, Any]], name: str, kind: Any
) -> None:
    kafka, streams = restored
    executor = KafkaSpout(kafka.servers, name, kind=kind).open()
    for _ in range(2):
        with pytest.raises(DataLossError, match=OTHER.format(5, 4)) as caught:
            planned(executor, streams[name])
    assert "and messages that were read before count twice; onDataLoss='latest'" in str(caught.value)
    executor.close()


def test_offsets_of_aborted_messages_that_hold_others_now_are_told(
    restored: tuple[KafkaBroker, dict[str, Any]],
) -> None:
    kafka, streams = restored
    assert (streams["aborted"]["aborted"]["to"], streams["aborted"]["aborted"]["last"][0][0]) == ([5], 2)
    executor = KafkaSpout(kafka.servers, "aborted").open()
    with pytest.raises(DataLossError, match=r"the message at offset 2 of .* and now there is the message at offset 4"):
        planned(executor, streams["aborted"])
    executor.close()


def test_a_restored_compacted_partition_without_a_message_to_compare_is_told_by_its_epochs(
    restored: tuple[KafkaBroker, dict[str, Any]],
) -> None:
    """An aborted message stands where the last message was: in a compacted topic that alone proves nothing."""
    kafka, streams = restored
    executor = KafkaSpout(kafka.servers, "compacted").open()
    with pytest.raises(DataLossError, match="leader epoch 0 now ends at offset 3: Kafka was restored"):
        planned(executor, streams["compacted"])
    executor.close()


def test_a_partition_that_is_what_it_was_goes_on_after_a_restore(
    restored: tuple[KafkaBroker, dict[str, Any]],
) -> None:
    kafka, streams = restored
    kafka.send("kept", ["m3"])
    executor = KafkaSpout(kafka.servers, "kept").open()
    assert drained(executor, streams["kept"])[0] == ["m3"]
    executor.close()


def test_a_restore_under_a_running_stream_is_told_before_a_tuple_is_emitted(
    restored: tuple[KafkaBroker, dict[str, Any]],
) -> None:
    """Though the leader's epoch tells nothing, as if it were the same as before the restore."""
    _, streams = restored
    executor, position = streams["running"]
    emission = emitted(executor, planned(executor, without_epochs(position)))
    with pytest.raises(DataLossError, match=OTHER.format(5, 4)):
        emission.arrow()


def test_a_restore_is_told_before_spark_reads(restored: tuple[KafkaBroker, dict[str, Any]]) -> None:
    _, streams = restored
    executor, position = streams["spark"]
    emission: Any = emitted(executor, planned(executor, without_epochs(position)))
    with pytest.raises(DataLossError, match=OTHER.format(5, 4)):
        emission.dataframe(None, Path())


@pytest.mark.parametrize(("policy", "left"), [("earliest", ["m0", "m1", "m2", "m3 after", "m4 after"]), ("latest", [])])
def test_a_restored_partition_goes_on_where_the_policy_says(
    restored: tuple[KafkaBroker, dict[str, Any]], policy: Any, left: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    kafka, streams = restored
    executor = KafkaSpout(kafka.servers, "equal", onDataLoss=policy).open()
    assert drained(executor, streams["equal"])[0] == left
    executor.close()
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "trident.spouts"]
    assert ("and messages that were read before count twice" in warning) == (policy == "earliest")


# --- other evidence --------------------------------------------------------------------------------------------------


def test_another_cluster_is_named_and_so_is_what_a_mirror_counts_twice(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "ab")
    position = begun(kafka.servers, topic)
    position[topic] |= {"cluster": "theirs", "id": "another"}
    executor = KafkaSpout(kafka.servers, topic).open()
    with pytest.raises(DataLossError) as caught:
        planned(executor, position)
    executor.close()
    ours = begun(kafka.servers, topic)[topic]
    assert str(caught.value) == (
        f"KafkaSpout: topic '{topic}' was read in the cluster theirs (topic id another), but bootstrapServers leads to "
        f"the cluster {ours['cluster']} (topic id {ours['id']}). Correct bootstrapServers; or, to continue in this "
        f"cluster: onDataLoss='earliest' continues from the first available offset, and messages that a mirror copied "
        f"from the former cluster count twice; onDataLoss='latest' continues from the end, and unread messages are lost"
    )


def test_brokers_without_topic_ids_are_told_apart_by_the_cluster(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "ab")
    position = begun(kafka.servers, topic)
    position[topic] |= {"cluster": "theirs", "id": None}
    executor = KafkaSpout(kafka.servers, topic).open()
    with pytest.raises(DataLossError, match="was read in the cluster theirs "):
        planned(executor, position)
    executor.close()


def test_a_leader_epoch_that_went_back_is_told(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "ab")
    position = begun(kafka.servers, topic)
    position[topic]["epochs"] = [7]
    executor = KafkaSpout(kafka.servers, topic).open()
    with pytest.raises(DataLossError, match="its leader epoch was 7, and is now 0: Kafka was restored"):
        planned(executor, position)
    executor.close()


def test_a_partition_with_another_leader_epoch_is_compared_in_a_run_too(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "ab")
    executor: Any = KafkaSpout(kafka.servers, topic).open()
    position = proven(executor)
    position[topic]["epochs"] = [-1]
    executor._reader._lasts.hold((topic, 0), 2, executor._reader._lasts.at((topic, 0), 2)._replace(digest="x"))
    with pytest.raises(DataLossError, match=OTHER.format(2, 1)):
        planned(executor, position)
    executor.close()


def test_a_position_without_evidence_goes_on_and_gets_it_with_the_next_batch(kafka: KafkaBroker, topic: str) -> None:
    """Of all partitions, also of those without tuples in the batch: as version 0.2 wrote it."""
    kafka.send(kafka.create(topic, 2), "ab")
    kafka.send(topic, "x", 1)
    position = begun(kafka.servers, topic)
    full = copy.deepcopy(position)
    for part in ("cluster", "epochs", "last"):
        del position[topic][part]
    kafka.send(topic, "c")
    executor = KafkaSpout(kafka.servers, topic).open()
    after = proven(executor, position)
    executor.close()
    assert after[topic]["last"][0][0] == 2 and after[topic]["last"][1] == full[topic]["last"][1]


def test_a_stream_that_begins_at_the_end_has_evidence_from_its_first_batch_on(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "ab")
    executor = KafkaSpout(kafka.servers, topic, startingOffsets="latest").open()
    emission = emitted(executor, planned(executor))
    assert emission.arrow().num_rows == 0
    after: Any = emission.after
    assert (after[topic]["to"], after[topic]["last"][0][0]) == ([2], 1)
    executor.close()


# --- what may go without being a loss --------------------------------------------------------------------------------


def test_a_last_message_that_retention_took_is_no_loss(kafka: KafkaBroker, topic: str) -> None:
    kafka.send(kafka.create(topic), "ab")
    position = begun(kafka.servers, topic)
    executor = KafkaSpout(kafka.servers, topic).open()
    kafka.send(topic, "cd")
    kafka.drop_before(topic, 0, 2)
    assert drained(executor, position)[0] == ["c", "d"]
    executor.close()


def test_a_last_message_that_compaction_took_is_no_loss(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic, cleanup_policy="compact")
    kafka.send_transaction(topic, ["x"], commit=False, key=b"k")
    position = begun(kafka.servers, topic, to=2)
    position[topic]["last"] = [[1, 5, "what stood where the marker stands"]]
    executor = KafkaSpout(kafka.servers, topic).open()
    kafka.send(topic, ["a"], key=b"k")
    assert drained(executor, position)[0] == ["a"]
    executor.close()


LEVELS: tuple[Any, ...] = ("read_committed", "read_uncommitted")


@pytest.mark.parametrize("levels", [LEVELS, LEVELS[::-1]], ids=["to-uncommitted", "to-committed"])
def test_another_isolation_level_is_no_loss_behind_an_aborted_end(
    kafka: KafkaBroker, topic: str, levels: tuple[Any, Any]
) -> None:
    """Each level has another last message. The evidence of the new level comes with the next batch."""
    kafka.send(kafka.create(topic, 2), "ab")
    kafka.send_transaction(topic, ["x", "y"], commit=False)
    kafka.send(topic, "z", partition=1)
    position = begun(kafka.servers, topic, to=5, isolationLevel=levels[0])
    for at, level in enumerate((levels[1], levels[1], levels[0]), 6):
        kafka.send(topic, "c")
        position["another"] = away = position[topic] | {"isolation": levels[0]}
        executor = KafkaSpout(kafka.servers, topic, isolationLevel=level).open()
        position = proven(executor, position)
        executor.close()
        assert position[topic]["to"] == [at, 1] and position[topic]["isolation"] == level
        assert [last[:1] for last in position[topic]["last"]] == [[at - 1], [0]]
        assert position.pop("another")["last"] == away["last"], "a topic that is not read keeps its evidence"
    position[topic]["last"][0][2] = "x"
    executor = KafkaSpout(kafka.servers, topic, isolationLevel=levels[0]).open()
    with pytest.raises(DataLossError, match=OTHER.format(8, 7)):
        planned(executor, position)
    executor.close()


def test_a_last_message_that_compaction_took_is_no_loss_once_the_topic_keeps_all(
    kafka: KafkaBroker, topic: str
) -> None:
    """Also later, as long as the position names that message; another message in its place is always told."""
    kafka.send(kafka.create(topic, 2, cleanup_policy="compact"), ["x"], key=b"k", partition=1)
    kafka.send_transaction(topic, ["x"], commit=False, key=b"k")
    position = begun(kafka.servers, topic, to=2)
    assert position[topic]["compacted"]
    position[topic]["last"][0] = [1, 5, "what stood where the marker stands"]
    kafka.configure(topic, cleanup_policy="delete")
    for _ in range(2):
        kafka.send(topic, ["a"], key=b"k", partition=1)
        executor = KafkaSpout(kafka.servers, topic).open()
        position = proven(executor, position)
        executor.close()
    assert position[topic]["to"] == [2, 3]
    position[topic]["last"][1][2] = "x"
    executor = KafkaSpout(kafka.servers, topic).open()
    with pytest.raises(DataLossError, match=OTHER.format(3, 2)):
        planned(executor, position)
    executor.close()


def test_a_last_message_that_is_gone_from_a_topic_that_keeps_all_is_told(kafka: KafkaBroker, topic: str) -> None:
    kafka.create(topic)
    kafka.send_transaction(topic, ["x"], commit=False)
    position = begun(kafka.servers, topic, to=2)
    position[topic]["last"] = [[1, 5, "what stood where the marker stands"]]
    executor = KafkaSpout(kafka.servers, topic).open()
    with pytest.raises(DataLossError, match=r"the message at offset 1 of 1970-.* was the last message, and is gone: "):
        planned(executor, position)
    executor.close()


def test_the_steady_state_fetches_nothing_more(kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.send(kafka.create(topic, 2), "ab")
    executor: Any = KafkaSpout(kafka.servers, topic).open()
    position = proven(executor)
    monkeypatch.setattr(executor._looks, "_pass", None)
    for _ in range(3):
        kafka.send(topic, "c")
        kafka.send_transaction(topic, ["lost"], commit=False, partition=1)
        emission = emitted(executor, planned(executor, position))
        assert values(emission.arrow()) == ["c"]
        position = emission.after
    executor.close()
