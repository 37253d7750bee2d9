"""Outputs: their names, their errors, and how they are explained and drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.topologies import stream
from trident import Stream, TridentTopology
from trident.errors import DuplicateNameError, TopologyError


def take(batch: Any, txid: int, attempt: int) -> None: ...


def short(batch: Any) -> None: ...


async def later(batch: Any, txid: int, attempt: int) -> None: ...


def yielding(batch: Any, txid: int, attempt: int) -> Any:
    yield batch


@pytest.fixture
def s() -> Stream:
    return stream("line string, n long")


CALLS: list[tuple[Callable[[Stream], object], str]] = [
    (
        lambda s: s.foreachBatch("take"),  # type: ignore[arg-type]
        "lines/1:foreachBatch: 'take' is not a callable; write foreachBatch(function, name=...)",
    ),
    (
        lambda s: s.foreachBatch(short),  # type: ignore[arg-type]
        "lines/1:foreachBatch(short): short(batch: Any) takes the wrong arguments: it is called as "
        "function(batch, txid, attempt), "
        "with a DataFrame and two numbers [short (test_outputs.py:",
    ),
    (
        lambda s: s.foreachArrow(short),  # type: ignore[arg-type]
        "lines/1:foreachArrow(short): short(batch: Any) takes the wrong arguments: it is called as "
        "function(batch, txid, attempt), "
        "with an Arrow table and two numbers",
    ),
    (
        lambda s: s.foreachBatch(later),
        "lines/1:foreachBatch(later): it is a coroutine or a generator, so calling it runs none of its code:",
    ),
    (
        lambda s: s.foreachArrow(yielding),
        "it is a coroutine or a generator, so calling it runs none of its code: use a plain function",
    ),
    (lambda s: s.foreachBatch(take, name="a/b"), "lines/1:foreachBatch(take): "),
]


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_a_wrong_call_of_an_output(s: Stream, call: Callable[[Stream], object], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(s)
    assert says in str(raised.value)
    assert str(raised.value).endswith(f"called at test_outputs.py:{call.__code__.co_firstlineno}]") or "a/b" in says


def test_two_outputs_need_two_names(s: Stream) -> None:
    s.foreachBatch(take)
    with pytest.raises(DuplicateNameError) as raised:
        s.foreachBatch(take)
    assert "there is already an output 'lines.foreachBatch', lines/1:foreachBatch(take) (test_outputs.py:" in str(
        raised.value
    )
    assert s.foreachBatch(take, name="second") is s, "the stream goes on as it was"


def test_requests_have_no_output() -> None:
    asked = TridentTopology().newDRPCStream("ask")
    with pytest.raises(
        TopologyError, match="DRPC requests cannot have an output: its tuples only become the function's answer"
    ):
        asked.foreachBatch(take)


def test_an_output_is_explained_and_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    lines = stream("line string", topology=topology)
    lines.each("line", len, "n long").foreachBatch(take, name="out")
    topology.explain()
    said = capsys.readouterr().out
    assert "lines/2:foreachBatch(take)" in said and "output out, each batch at least once, always the same" in said
    assert "stage 1: lines/0 -> output out" in said
    assert "foreachBatch(take)" in topology.draw("mermaid") and "output out" in topology.draw("mermaid")


PARQUET: list[tuple[Callable[[Stream], object], str]] = [
    (lambda s: s.writeParquet(""), "lines/1:writeParquet: path='': expected a folder"),
    (
        lambda s: s.writeParquet("ftp://host/words"),
        "path='ftp://host/words': ftp: is not supported: writeParquet needs a local disk, an object store ",
    ),
    (lambda s: s.writeParquet(__file__), "test_outputs.py is a file; name a folder"),
    (lambda s: s.writeParquet("/x", partitionBy="lin"), "no field 'lin'; the fields are (line string, n bigint); did"),
    (lambda s: s.writeParquet("/x", partitionBy="line, n"), "partitionBy names every field; leave at least one"),
    (
        lambda s: s.each("n", float, "half double").writeParquet("/x", partitionBy="half"),
        "partitionBy field 'half' is double: expected string, integer, boolean or date, whose values can name folders",
    ),
    (
        lambda s: s.each("n", float, "TxId double").writeParquet("/x"),
        "field 'TxId' has the name of the batch folders (txid=1, txid=2): rename it",
    ),
    (
        lambda s: s.each("n", lambda n: None, "took void").writeParquet("/x"),
        "field 'took' is void, which Parquet cannot store; remove it with project",
    ),
    (lambda s: (s.writeParquet("/x"), s.writeParquet("/x/", name="two")), "writes to /x already; choose another path"),
    (
        lambda s: (s.writeParquet("/x"), s.writeParquet("/x/y/../z", name="two")),
        "writes to /x, and one of it and /x/y/../z is inside the other; choose another path",
    ),
    (
        lambda s: (s.writeParquet("/x/y"), s.writeParquet("/x", name="two")),
        "writes to /x/y, and one of it and /x is inside the other; choose another path",
    ),
]


@pytest.mark.parametrize(("call", "says"), PARQUET)
def test_a_wrong_call_of_writeparquet(s: Stream, call: Callable[[Stream], object], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(s)
    assert says in str(raised.value) and "called at test_outputs.py:" in str(raised.value)


def test_folders_side_by_side_are_no_fault_and_a_link_hides_none(s: Stream, tmp_path: Path) -> None:
    s.writeParquet(tmp_path / "x", name="one")
    s.writeParquet(tmp_path / "xy", name="two")
    (tmp_path / "link").symlink_to(tmp_path / "xy")
    with pytest.raises(TopologyError, match="is inside the other"):
        s.writeParquet(tmp_path / "link" / "z", name="three")


def test_a_parquet_output_says_where_and_what_is_promised(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    stream("line string", topology=topology).writeParquet("/data/lines", name="archive")
    topology.explain()
    assert "output archive, into /data/lines: exactly-once" in capsys.readouterr().out
    assert "output archive, into /data/lines" in topology.draw("mermaid")
