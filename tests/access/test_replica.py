"""The copy of a state in memory that follows its driver from outside."""

from contextlib import closing
from operator import add
from pathlib import Path

from tests.access.small_topologies import Fed
from trident.access.locations import read_location
from trident.access.replica import MemoryReplica
from trident_state.state_shape import Combine


def test_a_copy_that_falls_behind_the_log_begins_again_from_a_snapshot_it_knew(tmp_path: Path) -> None:
    driver = Fed(checkpointLocation=str(tmp_path))
    for word in ("dog", "cat", "dog"):
        driver.feed(word)
    location = read_location(str(tmp_path), None, None, "trident")
    log = location.open_log_to_read("wc")
    replica = MemoryReplica(log, location.place("wc", log), "counts", Combine("Count", add, "sum"))
    assert replica.follow(1) == 1
    driver.running.stop()  # writes a snapshot at txid 3
    assert replica.follow(1) == 1  # the copy has read that there is one
    with closing(location.open_log_to_write("wc")) as writing:
        writing.trim(writing.take(), "words", 3, 0, 0)
    assert replica.follow(2) == 3
    entries = {row["word"]: row["value"] for page in replica.scan(None) for row in page.to_pylist()}
    assert entries == {"dog": 2, "cat": 1}
    replica.close()


def test_a_copy_goes_on_after_the_next_driver_has_written_a_snapshot_that_is_no_newer(tmp_path: Path) -> None:
    first = Fed(checkpointLocation=str(tmp_path))
    first.feed("dog")
    location = read_location(str(tmp_path), None, None, "trident")
    log = location.open_log_to_read("wc")
    replica = MemoryReplica(log, location.place("wc", log), "counts", Combine("Count", add, "sum"))
    assert replica.committed() == 1
    first.running.stop()
    second = Fed(checkpointLocation=str(tmp_path))
    second.feed("cat")
    assert replica.committed() == 2
    assert second.running._context.begun.stores["counts"].snapshot() == 2
    assert replica.committed() == 2  # the copy has read that there is one
    second.feed("dog")
    assert replica.committed() == 3
    second.running.stop()
    replica.close()
