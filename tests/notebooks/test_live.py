"""A running topology in a real kernel: a button that stops it, a bar, and a table of a state that stays up to date."""

import re
from collections.abc import Iterator

import pytest

from tests.support.notebook_kernel import Kernel

SETUP = """
import threading, time
from trident import Count, First, TridentTopology
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
def start(spout, **options):
    topology = TridentTopology()
    words = topology.newStream("words", spout)
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology.start(name="live", engine="embedded", replace=True, **options)
feeder = FeederBatchSpout("word string")
def threads():
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("trident"))
"""
FED = "running = start(feeder)\n"


@pytest.fixture(scope="module")
def process() -> Iterator[Kernel]:
    kernel = Kernel()
    try:
        yield kernel
    finally:
        kernel.stop()


@pytest.fixture
def kernel(process: Kernel) -> Iterator[Kernel]:
    process.forget()
    assert process.run(SETUP) == ""
    yield process
    process.run("running.stop()")


def test_the_button_stops_the_topology_and_goes_away(kernel: Kernel) -> None:
    kernel.run(FED + "running")
    kernel.until(lambda: "<b>live</b> running" in kernel.shown)
    assert "<svg" in str(kernel.displays), "and the picture is there"
    kernel.press()
    kernel.until(lambda: "<b>live</b> stopped" in kernel.shown)
    kernel.until(lambda: "widget-view" not in str(kernel.displays))
    assert kernel.run("running.isActive, running.exception()") == "(False, None)"
    assert kernel.run("time.sleep(0.5); threads()") == "[]"


def test_the_button_stops_the_topology_while_a_cell_waits_for_its_end(kernel: Kernel) -> None:
    kernel.run(FED + "running")
    kernel.until(lambda: "<b>live</b> running" in kernel.shown)
    kernel.begin("running.awaitTermination(60)")
    kernel.press()
    kernel.until(lambda: "<b>live</b> stopped" in kernel.shown)


def test_a_table_of_a_state_shows_each_commit_and_ends_with_the_run(kernel: Kernel) -> None:
    kernel.run(FED + 'live = running.showState("counts", 2, every=0.05)')
    table = "<table><tr><th>word</th><th>count</th></tr>"
    kernel.until(lambda: f"<b>counts</b> as of txid 0{table}</table>" in kernel.shown)
    assert kernel.run('feeder.feed(["dog", "cat", "dog", "emu"]); running.processAllAvailable()') == ""
    kernel.until(lambda: f"as of txid 1{table}<tr><td>dog</td><td>2</td></tr><tr><td>cat</td>" in kernel.shown)
    assert kernel.run('feeder.feed(["cat", "cat", "cat"]); running.processAllAvailable(); running.stop()') == ""
    kernel.until(lambda: f"as of txid 2{table}<tr><td>cat</td><td>4</td></tr><tr><td>dog</td>" in kernel.shown)
    assert kernel.run("time.sleep(0.5); threads()") == "[]"


def test_a_table_of_values_without_an_order_shows_any_entries(kernel: Kernel) -> None:
    kernel.run(
        "topology = TridentTopology()\n"
        'words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "dog", "cat"]])).groupBy("word")\n'
        'several = {"first": First("word"), "n": Count()}\n'
        'words.persistentAggregate(MemoryMapState.opaque(), several, name="counts")\n'
        'running = topology.start(name="live", engine="embedded", replace=True)\n'
        'live = running.showState("counts")'
    )
    kernel.until(lambda: "<td>dog</td><td>dog</td><td>2</td>" in kernel.shown)
    assert "StateError: state 'counts': top" in kernel.run('running.showState("counts", by="m")')


def test_a_bar_moves_with_the_batches(kernel: Kernel) -> None:
    kernel.run('running = start(FixedBatchSpout("word string", [["dog"]] * 12), processingTime=0.2)')
    kernel.run("running.showProgress(0.02)")
    kernel.until(lambda: 'value="12" max="12"' in kernel.shown and "100 % of 12 batches" in kernel.shown)
    values = [int(value) for html in kernel.seen for value in re.findall(r'<progress value="(\d+)" max="12"', html)]
    assert values == sorted(values) and len(set(values)) > 3, values


def test_without_ipywidgets_it_says_how_to_stop(kernel: Kernel) -> None:
    kernel.run("import sys; kept = sys.modules.pop('ipywidgets', None); sys.modules['ipywidgets'] = None")
    kernel.run(FED + "running")
    kernel.until(lambda: "<b>live</b> running" in kernel.shown)
    assert "no Stop button without ipywidgets" in kernel.shown and "running.stop() stops the run" in kernel.shown
    assert "widget-view" not in str(kernel.displays)
    kernel.run("running.stop()\ndel sys.modules['ipywidgets']")
    kernel.until(lambda: "<b>live</b> stopped" in kernel.shown and "no Stop button" not in kernel.shown)


def test_a_run_that_fails_says_so_and_takes_its_button_away(kernel: Kernel) -> None:
    kernel.run(FED + "running")
    kernel.run(
        "from trident.batches import coordinator_events\n"
        "for r in running._runs.values(): r.post(coordinator_events.Broken(ValueError('no disk')))"
    )
    kernel.until(lambda: "failed: ValueError: no disk" in kernel.shown)
    kernel.until(lambda: "widget-view" not in str(kernel.displays))
