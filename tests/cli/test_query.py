"""``trident query``: what it prints, and how it ends."""

import inspect
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trident import Count, MapGet, TridentTopology
from trident.cli.main import main
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

Query = Callable[..., Result]


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    """Run ``trident query`` against a served topology with a text key, and one with two key fields."""
    topology = TridentTopology()
    spout = FixedBatchSpout("word string, page int", [[("dog", 1), ("cat", 2)], [("dog", 1)]])
    words = topology.newStream("words", spout)
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    words.groupBy("word", "page").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="pages")
    topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count")
    topology.newDRPCStream("twice", "word string, times int").each(["times"], lambda n: 2 * n, "double int")
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
    runner = CliRunner(**apart)  # type: ignore[arg-type]
    with topology.start(engine="embedded", name="asked", checkpointLocation=tmp_path) as running:
        running.processAllAvailable()
        with running.serve() as server:
            yield lambda *words: runner.invoke(main, ["query", server.url, *map(str, words)])


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_function(query: Query) -> None:
    assert lines(query("count", "dog")) == [{"word": "dog", "count": 2}]
    assert lines(query("twice", "7", "21")) == [{"word": "7", "times": 21, "double": 42}]
    assert query("count", "dog", "--format", "table").stdout == "word  count\ndog   2\n"


def test_a_state(query: Query) -> None:
    assert lines(query("--state", "counts", "dog", "cat")) == [
        {"key": "dog", "value": 2},
        {"key": "cat", "value": 1},
    ]
    assert lines(query("--state", "pages", '["dog", 1]')) == [{"key": '["dog", 1]', "value": 2}]
    assert lines(query("--state", "counts", "--top", 1)) == [{"word": "dog", "count": 2}]
    missing = query("--state", "counts", "dog", "cow")
    assert missing.exit_code == 3
    assert [json.loads(line)["value"] for line in missing.stdout.splitlines()] == [2, None]


def test_a_range(query: Query) -> None:
    assert lines(query("--state", "counts", "--low", "d")) == [{"word": "dog", "count": 2}]
    assert lines(query("--state", "counts", "--high", "d")) == [{"word": "cat", "count": 1}]
    assert lines(query("--state", "counts", "--prefix", "do")) == [{"word": "dog", "count": 2}]
    assert lines(query("--state", "counts", "--limit", 1)) == [{"word": "cat", "count": 1}]
    cat, dog = {"word": "cat", "page": 2, "count": 1}, {"word": "dog", "page": 1, "count": 2}
    assert lines(query("--state", "pages", "--low", '["cat", 2]', "--high", '["dog", 2]')) == [cat, dog]
    assert lines(query("--state", "pages", "--prefix", '["dog"]')) == [dog]
    assert lines(query("--state", "pages", "--prefix", '"c"')) == [cat]


def test_a_range_longer_than_a_page(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident.cli.query._PAGE_ROWS", 1)
    assert [row["word"] for row in lines(query("--state", "counts", "--limit", 5))] == ["cat", "dog"]


def test_without_an_argument_it_lists(query: Query) -> None:
    assert lines(query()) == [{"function": "count(word string)"}, {"function": "twice(word string, times int)"}]
    (described,) = lines(query("--state", "counts"))
    assert (described["name"], described["keys"]) == ("counts", {"word": "string"})


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["cuont", "dog"], 1, "no DRPC function 'cuont'; did you mean 'count'?; the functions are count, twice"),
        (["count"], 1, "count(word string): expected 1 arguments, got 0"),
        (["twice", "dog", "many"], 1, "'many' is not JSON"),
        (["--state", "cuonts"], 1, "no state 'cuonts'; did you mean 'counts'?"),
        (["--top", "3"], 2, "--top and --by need --state"),
        (["--state", "counts", "--top", "3", "dog"], 2, "--top takes no keys"),
        (["--low", "a"], 2, "--low, --high, --prefix and --limit need --state"),
        (["--state", "counts", "--low", "a", "dog"], 2, "a range takes no keys besides its ends"),
        (["--state", "counts", "--top", "3", "--low", "a"], 2, "--top cannot be combined with --low, --high, --prefix"),
        (["--state", "counts", "--prefix", "a", "--low", "a"], 1, "prefix is given with low, high or inclusive"),
        (["--state", "pages", "--low", "dog"], 1, "invalid key 'dog': expected a JSON list of (word string, page int)"),
        (["--state", "pages", "--low", '"dog"'], 1, "expected a tuple of values of the first key fields (word string,"),
        (["count", "dog", "--token", "a-secret-of-sixteen"], 2, "write env:NAME or file:path"),
    ],
)
def test_mistakes_are_told(query: Query, words: list[str], code: int, message: str) -> None:
    result = query(*words)
    assert result.exit_code == code
    assert message in result.stderr and "Traceback" not in result.stderr
    assert "a-secret" not in result.stderr


def test_a_server_that_is_away_is_told_in_a_line() -> None:
    result = CliRunner().invoke(main, ["query", "http://127.0.0.1:1", "--timeout", "0.2"])
    assert result.exit_code == 1
    assert "ServerUnavailableError: http://127.0.0.1:1 does not answer" in result.output


def test_a_wait_for_a_server_that_is_not_there_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    from trident.demo.ports import free_port

    url = f"http://127.0.0.1:{free_port()}"
    began = time.monotonic()
    result = CliRunner().invoke(main, ["query", url, "count", "dog", "--timeout", "3"])
    assert result.exit_code == 1 and f"ServerUnavailableError: {url} does not answer" in result.output
    (told,) = (record for record in caplog.records if record.name == "trident.client")
    assert told.getMessage().startswith(f"{url} does not answer: ") and "; waiting for an answer, " in told.getMessage()
    assert told.levelname == "WARNING" and time.monotonic() - began < 10
