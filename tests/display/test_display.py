"""How a running topology looks as text, as HTML, and in a cell that keeps itself up to date."""

import itertools
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.telemetry.test_progress import batch, failure
from trident.display.display import Condition, html_of, lines_of, text_of
from trident.display.live_output import LiveOutput
from trident.display.live_progress import show_progress
from trident.telemetry.progress import Progress
from trident_spouts.executor import ReadSoFar


class Watched:
    """The parts of a running topology that showing looks at, moved by the test."""

    name = "word<count>"

    def __init__(self) -> None:
        self.progress = Progress()
        self.isActive = True
        self.debugOutput: list[str] = []
        self.readSoFar: dict[str, ReadSoFar] = {}
        self.error: BaseException | None = None

    def stop_soon(self) -> None:
        self.isActive = False

    @property
    def condition(self) -> Condition:
        return "ACTIVE" if self.isActive else "STOPPED"

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        return self.progress.recent

    def exception(self) -> BaseException | None:
        return self.error


def test_before_the_first_batch() -> None:
    assert text_of(Watched()) == "word<count> (running): no batch yet"
    assert "</b> running <i>no batch yet</i>" in html_of(Watched())


def test_a_line_a_group_with_rates_states_and_failures() -> None:
    watched = Watched()
    for event in (batch(1, 0), batch(2, 2, 3000), failure(3), batch(8, 1, None, "users")):
        watched.progress.tell(event)
    assert text_of(watched).splitlines() == [
        "word<count> (running) sentences: txid 2, 3,000 rows, 1,500 rows/s, 30 ms, counts 7 keys, 1 failed attempts",
        "word<count> (running) users: txid 8, 30 ms, counts 7 keys",
    ]
    shown = html_of(watched, "<svg/>")
    assert "word&lt;count&gt;" in shown and "<count>" not in shown
    assert "<td>sentences</td><td>2</td><td>3,000</td><td>1,500</td><td>30</td><td>counts 7</td><td>1</td>" in shown
    assert shown.endswith("<svg/></div>")


def test_what_went_wrong_and_the_newest_debug_lines() -> None:
    watched = Watched()
    watched.error = ValueError("<bad>")
    watched.debugOutput = [f"DEBUG(x) 1:0: [{n}, '<b>']" for n in range(30)]
    assert text_of(watched) == "word<count> (failed: ValueError: <bad>): no batch yet"
    shown = html_of(watched)
    assert "failed: ValueError: &lt;bad&gt;" in shown
    assert "[29, &#x27;&lt;b&gt;&#x27;]" in shown and "[10, " in shown and "[9, " not in shown
    watched.error, watched.isActive = None, False
    assert text_of(watched) == "word<count> (stopped): no batch yet"


def test_a_source_that_is_behind_says_so_and_where_that_goes() -> None:
    watched = Watched()
    watched.readSoFar = {"clicks": ReadSoFar(1_000_000, 4_000_000, "bytes"), "users": ReadSoFar(5, 5, "rows")}
    for growth in (5.0, 250_000.4):
        source = {"unit": "bytes", "read": 1, "known": 2, "lag": 1, "lagGrowthPerSecond": growth}
        watched.progress.tell(batch(1) | {"sources": {"clicks": source, "users": {"lag": 0}}})
    watched.progress.tell(failure(2))
    behind = "25 % of 4.0 MB read, 3.0 MB behind, growing by 250.0 kB/s"
    assert text_of(watched).splitlines()[:2] == [
        f"word<count> (running) clicks: {behind}",
        "word<count> (running) users: 100 % of 5 rows read",
    ]
    assert f"<span>{behind}</span>" in html_of(watched)
    watched.progress.tell(batch(3) | {"sources": {"clicks": {"lagGrowthPerSecond": -20.0}}})
    assert "3.0 MB behind, shrinking by 20 bytes/s" in text_of(watched)


def test_without_a_notebook_a_line_is_printed_where_something_changed(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched()
    live = show_progress(watched, every=0.01)
    time.sleep(0.1)
    watched.progress.tell(batch(1))
    deadline = time.monotonic() + 5
    printed = ""
    while "txid 1" not in printed and time.monotonic() < deadline:
        time.sleep(0.01)
        printed += capsys.readouterr().out
    watched.progress.tell(batch(2))
    live.stop()
    printed += capsys.readouterr().out
    assert [line.partition(": ")[2].partition(",")[0] for line in printed.splitlines()] == [
        "no batch yet",
        "txid 1",
        "txid 2",
    ]


def test_it_ends_with_the_topology_and_shows_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched()
    live = show_progress(watched, every=0.01)
    watched.isActive = False
    live._thread.join(5)
    assert not live._thread.is_alive()
    assert capsys.readouterr().out.splitlines()[-1] == "word<count> (stopped): no batch yet"


def test_showing_needs_no_ipython() -> None:
    code = "import sys; from trident.display.live_output import *; assert not in_notebook()"
    code += "; assert 'IPython' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_watermarks_of_windows_and_joins_are_no_states_of_their_own_in_the_table() -> None:
    event = batch(1) | {
        "states": {name: {"keys": 1, "written": 1} for name in ("w", "w.left.watermark", "w.watermark")}
    }
    assert lines_of([event])[0].states == {"w": 1}


def refreshes(costs: list[float], seconds: float) -> int:
    """Return how often a display that always has something new is refreshed, if its refreshes take these seconds."""
    counter, left = itertools.count(), iter(costs)
    shown = []

    def bundle() -> dict[str, str]:
        time.sleep(next(left, costs[-1]))
        shown.append("")
        return {"text/plain": "shown"}

    live = LiveOutput(lambda: True, lambda: next(counter), bundle, every=0.01)
    time.sleep(seconds)
    live._stopped.set()
    live._thread.join(20)
    return len(shown)


def test_a_refresh_takes_at_most_a_twentieth_of_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    # The first look, two refreshes that are not yet judged, one for each 21 x 0.05 s of the rest, and the last look.
    assert refreshes([0.05], 2.5) <= 3 + 3 + 1


def test_a_single_slow_refresh_does_not_still_the_display(capsys: pytest.CaptureFixture[str]) -> None:
    assert refreshes([0.2, 0.2, 0.0, 0.2, 0.0], 1.5) > 10
