"""Objects that are replaced, shortened, made longer or deleted after they were planned, and after they were read."""

import gzip
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.spouts.objects.conftest import Objects
from tests.spouts.objects.test_contract import parquet_of
from trident.errors import SourceUnreadableError, SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident_spouts.executor import Emission, SpoutExecutor
from trident_spouts.files.file_ranges import PlannedFile
from trident_spouts.files.line_reader import Stretch, read_stretch
from trident_spouts.files.text import TextFormat

LINES = [f"line{at:04}" for at in range(400)]
NAMES = ["log.txt", "log.txt.gz", "facts.parquet"]


def content(name: str, lines: list[str]) -> bytes:
    if name.endswith(".parquet"):
        return parquet_of(pa.table({"line": lines}))
    data = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(data, mtime=0) if name.endswith(".gz") else data


def spout(objects: Objects, name: str, **options: Any) -> FileSpout:
    return objects.spout(f"{name}*", "parquet" if "parquet" in name else "text", "line string", **options)


def planned(executor: SpoutExecutor, txid: int = 1, previous: Any = None) -> Any:
    return executor.plan(TransactionAttempt(txid, 0), previous, 0.0)


def emitted(executor: SpoutExecutor, plan: Any, txid: int = 1) -> Emission:
    return executor.emit(TransactionAttempt(txid, 0), plan)


def lines(emission: Emission) -> list[str]:
    return emission.arrow().column(0).to_pylist()  # type: ignore[no-any-return]


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "replaced": lambda lines: [*lines[:-200], "line9999", *lines[-199:]],  # its beginning, end and size are the same
    "shorter": lambda lines: lines[:-1],
    "longer": lambda lines: [*lines, "more"],
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("when", ["plan", "emit"])
def test_an_object_that_changed_after_it_was_planned_is_not_read(
    objects: Objects, name: str, change: str, when: str
) -> None:
    objects.put(name, content(name, LINES))
    executor = spout(objects, name).open()
    plan = planned(executor)
    emission = emitted(executor, plan) if when == "emit" else None
    objects.put(name, content(name, CHANGES[change](LINES)))
    with pytest.raises(SpoutContractError, match="has since been replaced; an object must not change. This att"):
        lines(emission or emitted(executor, plan))
    objects.put(name, content(name, LINES))  # the way out that the message names
    assert lines(emitted(executor, plan)) == LINES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("when", ["plan", "emit"])
def test_an_object_that_was_deleted_after_it_was_planned_is_not_read(objects: Objects, name: str, when: str) -> None:
    objects.put(name, content(name, LINES))
    executor = spout(objects, name).open()
    plan = planned(executor)
    emission = emitted(executor, plan) if when == "emit" else None
    objects.delete(name)
    with pytest.raises(SourceUnreadableError, match=f"cannot read {objects.url}/{name}: deleted after listing"):
        lines(emission or emitted(executor, plan))
    objects.put(name, content(name, LINES))
    assert lines(emitted(executor, plan)) == LINES


def test_an_object_that_is_replaced_while_it_is_read_is_never_read_in_two_halves(objects: Objects) -> None:
    """The first bytes come from the old object. The next request tells that it is gone."""
    size = 9 << 20  # lines are read in chunks of 4 MB
    objects.put("log.txt", b"old line\n" * (size // 9))
    executor = spout(objects, "log.txt").open()
    emission: Any = emitted(executor, planned(executor))
    (stretch,) = emission.stretches
    assert isinstance(stretch, Stretch) and isinstance(stretch.path, PlannedFile)
    assert isinstance(emission.line_format, TextFormat)
    tables = read_stretch(stretch, emission.line_format)
    assert set(next(tables).column(0).unique().to_pylist()) == {"old line"}
    objects.put("log.txt", b"new line\n" * (size // 9))
    with pytest.raises(SpoutContractError, match="has since been replaced"):
        list(tables)


# --- after it was read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("order", ["name", "time"])
def test_another_object_under_the_name_of_one_that_was_read_stops_the_stream(
    objects: Objects, name: str, change: str, order: str
) -> None:
    objects.put(name, content(name, LINES))
    executor = spout(objects, name, orderBy=order).open()
    plan = planned(executor)
    objects.put(name, content(name, CHANGES[change](LINES)))
    for opened in (executor, spout(objects, name, orderBy=order).open()):
        with pytest.raises(SpoutContractError, match="is now another file, or was rewritten .* must not change after"):
            planned(opened, 2, plan)


def test_an_object_that_was_half_read_is_read_on_only_if_it_is_the_same(objects: Objects) -> None:
    objects.put("log.txt", content("log.txt", LINES))
    executor = spout(objects, "log.txt", maxBytesPerBatch=1_000).open()
    first = planned(executor)
    second = planned(executor, 2, first)
    assert lines(emitted(executor, first)) + lines(emitted(executor, second, 2)) == LINES[:224]
    objects.put("log.txt", content("log.txt", CHANGES["replaced"](LINES)))
    with pytest.raises(SpoutContractError, match="log.txt was read to byte 2016 .* is now another file,"):
        planned(spout(objects, "log.txt", maxBytesPerBatch=1_000).open(), 3, second)


def test_an_object_that_is_written_anew_with_the_same_content_is_the_same(objects: Objects) -> None:
    objects.put("log.txt", content("log.txt", LINES))
    executor = spout(objects, "log.txt").open()
    plan = planned(executor)
    objects.put("log.txt", content("log.txt", LINES))
    assert lines(emitted(executor, plan)) == LINES
    assert planned(spout(objects, "log.txt").open(), 2, plan) is None


def test_an_object_that_was_read_may_be_deleted_and_equal_content_under_another_name_is_new(objects: Objects) -> None:
    objects.put("log.txt", content("log.txt", LINES))
    executor = spout(objects, "log.txt").open()
    plan = planned(executor)
    objects.delete("log.txt")
    objects.put("log.txt.2", content("log.txt", LINES))
    second = planned(spout(objects, "log.txt").open(), 2, plan)
    assert [name for name, *_ in second["files"]] == ["log.txt.2"]


# --- long after it was read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["name", "time"])
@pytest.mark.parametrize("remembered", [2, 4])
def test_an_object_that_was_read_long_ago_and_is_another_one_stops_the_stream(
    objects: Objects, order: str, remembered: int
) -> None:
    names = [f"{at}.txt" for at in range(6)]
    for name in names:
        objects.put(name, content(name, [name]))
    made = spout(objects, "", orderBy=order, watch=Watch(rememberedFiles=remembered))
    plan = planned(made.open())
    executor = made.open()
    assert planned(executor, 2, plan) is None
    objects.put("1.txt", content("1.txt", ["1.txt"]))  # the same again
    objects.put("2-late.txt", content("2-late.txt", ["late"]))
    second = planned(made.open(), 2, plan)
    assert lines(emitted(executor, second, 2)) == ["late"]
    objects.put("1.txt", content("1.txt", ["corrected"]))
    with pytest.raises(SpoutContractError, match=r"1\.txt was read to byte 6 .* is now another file|may have changed"):
        planned(made.open(), 3, second)
