"""Every notebook runs from top to bottom, shows what it promises, and is the pair of its text."""

import os
from pathlib import Path
from typing import Any

import jupytext
import pandas as pd
import pytest
from nbclient import NotebookClient

from trident.demo import CORPUS
from trident.demo.words import count_independently

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == [path.stem for path in sorted(FOLDER.glob("*.py"))] != []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_the_pair_of_its_text_and_holds_no_output(path: Path) -> None:
    notebook, text = jupytext.read(path), jupytext.read(path.with_suffix(".py"))
    assert [(c.cell_type, c.source) for c in notebook.cells] == [(c.cell_type, c.source) for c in text.cells]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


def executed(path: Path) -> Any:
    notebook = jupytext.read(path)
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"}  # as a user's kernel has it
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute(env=environment)
    return notebook


def output(notebook: Any, source: str, kind: str = "text/html") -> str:
    """Return the output, in this form, of the only cell that has this line."""
    (cell,) = [c for c in notebook.cells if c.cell_type == "code" and source in c.source.splitlines()]
    found = [o.data[kind] for o in cell.outputs if kind in o.get("data", {})]
    assert found, f"no {kind} under {source!r}, only {cell.outputs}"
    return str(found[-1])


def printed(notebook: Any, source: str) -> str:
    """Return the printed text of the only cell that has this line."""
    (cell,) = [c for c in notebook.cells if c.cell_type == "code" and source in c.source.splitlines()]
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")


def test_ten_cells_each_show_a_thing_that_is_true() -> None:
    notebook = executed(FOLDER / "ten_cells.ipynb")
    truth = count_independently(CORPUS)
    total = sum(truth.values())
    assert sum(cell.cell_type == "code" for cell in notebook.cells) == 10
    assert "<svg" in output(notebook, "topology", "image/svg+xml")
    assert "|ishmael|" in printed(notebook, "split.show(5)")
    assert "did you mean 'word'?" in printed(notebook, '    split.groupBy("wrod")')
    assert "promised: exactly-once" in printed(notebook, 'topology.explain("embedded")')
    killed = 'subprocess.run([sys.executable, "-c", program], cwd=folder, env=crash).returncode  # -9: killed'
    assert output(notebook, killed, "text/plain") == "-9"
    batches, words, the = map(
        int, printed(notebook, '    print(dead.asOfTxid, sum(dead.values()), dead["the"])').split()
    )
    assert batches == 2 and 0 < the < truth["the"] and the < words < total
    line = 'sum(running.state("counts").values()), sum(truth.values())'
    assert output(notebook, line, "text/plain") == repr((total, total))
    whale, absent, prefixed, top = eval(
        output(
            notebook, 'state["whale"], state.get("telephone", 0), state.prefix("whaleb"), state.top(3)', "text/plain"
        )
    )
    assert (whale, absent, top) == (truth["whale"], 0, truth.most_common(3))
    assert prefixed == sorted(entry for entry in truth.items() if entry[0].startswith("whaleb"))
    line = '(before.asOfTxid, before["whale"]), (state.asOfTxid, state["whale"])'
    (former, fewer), (last, all_of_them) = eval(output(notebook, line, "text/plain"))
    assert former == last - 1 and fewer < all_of_them == truth["whale"]
    assert output(notebook, 'answer[0]["count"], answer.asOfTxid', "text/plain") == repr((truth["whale"], last))


@pytest.mark.spark
@pytest.mark.soak
def test_the_counters_by_hand_are_wrong_after_a_crash_and_ours_are_right() -> None:
    notebook = executed(FOLDER / "exactly_once.ipynb")
    truth = sum(count_independently(CORPUS).values())
    line = '{"words": sum(truth.values()), "by hand": sum(by_hand.values()), "with trident": sum(counts.values())}'
    totals = eval(output(notebook, line, "text/plain"))
    assert totals["words"] == totals["with trident"] == truth < totals["by hand"]
    assert output(notebook, "killed.returncode  # -9: killed", "text/plain") == "-9"


def test_late_flights_are_counted_apart_and_joined_with_their_weather() -> None:
    notebook = executed(FOLDER / "flights.ipynb")
    departures, weather = (
        pd.concat([pd.read_csv(file) for file in (FOLDER / "data" / "flights" / name).glob("*.csv")])
        for name in ("departures", "weather")
    )
    line = '{"flights": len(table), "in windows": int(windows.flights.sum()), "too late": sum(tooLate.values())}'
    counts = eval(output(notebook, line, "text/plain"))
    assert counts["flights"] == len(departures) == counts["in windows"] + counts["too late"]
    assert counts["too late"] > 100
    departures["hour"] = departures["scheduled"].str.slice(0, 14) + "00:00Z"
    joined = departures.merge(weather, on=["origin", "hour"])
    shown = output(notebook, 'byVisibility.toPandas().sort_values("averageDelay")')
    joined["delay"] = (pd.to_datetime(joined["departed"]) - pd.to_datetime(joined["scheduled"])).dt.total_seconds() / 60
    classes = pd.cut(joined["visib"], [-1, 1, 5, 100], right=False)
    for flights, delay in joined.groupby(classes, observed=True)["delay"].agg(["size", "mean"]).itertuples(index=False):
        assert f"<td>{flights}</td>" in shown and f"<td>{delay:.6f}</td>" in shown
    assert len(joined) == len(departures)
    assert "100 % of 47.0 kB read" in output(notebook, "progress = running.showProgress()")
    assert "<td>EV</td>" in output(notebook, 'running.showState("delays", 5, by="flights")')


def test_a_spout_and_a_store_of_ones_own_count_exactly_through_a_kill() -> None:
    notebook = executed(FOLDER / "own_spout_and_state.ipynb")
    assert output(notebook, "killed.returncode  # -9: killed", "text/plain") == "-9"
    truth, totals = (eval(output(notebook, line, "text/plain")) for line in ("truth", "totals"))
    assert totals == truth | {"Oslo": 1_000_000} and sum(truth.values()) == sum(range(1000))
    assert "<td>Oslo</td><td>1000000</td>" in output(notebook, 'table = running.showState("totals")')


def test_questions_are_answered_without_spark() -> None:
    notebook = executed(FOLDER / "questions.ipynb")
    truth = count_independently(CORPUS)
    assert "<svg" in output(notebook, "topology", "image/svg+xml")
    ten = output(notebook, 'running.drpc.execute("mostFrequent", "wh").toPandas()')
    best = [entry for entry in truth.most_common() if entry[0].startswith("wh")][:10]
    assert all(f"<td>{word}</td>" in ten and f"<td>{count}</td>" in ten for word, count in best)
    reach = '{link: running.drpc.execute("reach", link)[0].reach for link in ("/sea", "/land", "/air")}'
    assert eval(output(notebook, reach, "text/plain")) == {"/sea": 4, "/land": 2, "/air": 0}
