"""The carrier of each state, and the reason for which "auto" leaves it to the driver."""

import re
from typing import Any

import pytest

from trident import Count, Sum, TridentTopology
from trident.compiler.carriers import Carriers
from trident.compiler.stages import cut
from trident.operations.windows import TumblingCountWindow
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState


def shared(writers: str = "auto") -> Any:
    return RedisMapState.opaque("redis://127.0.0.1:1", writers=writers)


def words(topology: TridentTopology) -> Any:
    return topology.newStream("words", FixedBatchSpout("word string, n long", [[("a", 1)]])).groupBy("word")


def counted(topology: TridentTopology) -> Any:
    words(topology).persistentAggregate(shared(), Count(), "count", name="s")


def read_later(topology: TridentTopology) -> Any:
    counts = words(topology).persistentAggregate(shared(), Count(), "count", name="s")
    counts.newValuesStream().foreachArrow(lambda table, txid, attempt: None, name="out")


def totalled(topology: TridentTopology) -> Any:
    stream = topology.newStream("words", FixedBatchSpout("word string, n long", [[("a", 1)]]))
    stream.persistentAggregate(shared(), "n", Sum(), "sum", name="s")


def window(topology: TridentTopology) -> Any:
    words(topology).window(TumblingCountWindow(3), shared(), Count(), "count", name="s")


def in_memory(topology: TridentTopology) -> Any:
    words(topology).persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="s")


CASES = {
    counted: ("auto", None),
    read_later: ("driver", r"later steps read its new values \(words/1:persistentAggregate\(Count\)\)"),
    totalled: ("auto", None),
    window: ("auto", None),
    in_memory: ("driver", None),
}


@pytest.mark.parametrize("make", CASES)
def test_a_state_has_one_carrier_and_a_reason(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    writers, why = CASES[make]
    topology = TridentTopology()
    make(topology)
    (group,) = cut(topology).groups
    choice = Carriers(group).by_state["s"]
    assert choice.writers == writers
    assert (choice.why_driver is None) == (why is None)
    topology.explain()
    shown = [line for line in capsys.readouterr().out.splitlines() if "written by:" in line]
    if why is None:
        assert all("the driver (" not in line for line in shown)
    else:
        (line,) = shown
        assert re.search(rf"written by: the driver \({why}", line)
