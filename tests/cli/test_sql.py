"""``trident sql``: asked of a server, and of the states without their driver."""

import inspect
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trident.cli.main import main
from trident.testing.local import start_local

PROGRAM = """
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

topology = TridentTopology()
words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",), ("cat",)], [("dog",)]]))
words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
"""

Ask = Callable[..., Result]


@pytest.fixture(params=["server", "program"])
def sql(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Run ``trident sql`` against a server, and against the program with its checkpoint."""
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
    runner = CliRunner(**apart)  # type: ignore[arg-type]
    module = f"counted_by_{request.param}"
    (tmp_path / f"{module}.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(PROGRAM, names)  # noqa: S102
    with start_local(names["topology"], name="wc", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable()
        with running.serve() as server:
            place = [f"{module}:topology", "--name", "wc", "--checkpoint", str(tmp_path / "checkpoint")]
            source = [server.url] if request.param == "server" else place
            yield lambda *words, **more: runner.invoke(main, ["sql", *source, *words], **more)


def test_rows(sql: Ask) -> None:
    result = sql("select word, n from counts order by n desc")
    assert result.exit_code == 0, result.output
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"word": "dog", "n": 2},
        {"word": "cat", "n": 1},
    ]
    assert "as of txid 2 of words" in result.stderr


def test_a_table(sql: Ask) -> None:
    result = sql("select sum(n) as s, max(n), 'x' as s from counts", "--format", "table")
    assert result.stdout == "s  max(n)  s_2\n3  2       x\n"


def test_from_the_standard_input(sql: Ask) -> None:
    result = sql("-", input="select count(*) as c\nfrom counts")
    assert json.loads(result.stdout) == {"c": 2}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("selec",), 'trident: SqlError: syntax error at or near "selec"'),
        (("select * from cuonts",), "trident: StateNotFoundError: no state 'cuonts'; did you mean 'counts'?"),
        (("copy counts to 'x.csv'",), "trident: SqlNotAllowedError: this statement does more than read"),
        (("from range(11)", "--max-rows", "10"), "trident: SqlLimitError: the result has more than 10 rows"),
        (
            ("select count(*) from range(1000000) a, range(1000000) b where a.range < hash(b.range)", "--timeout", "1"),
            "",
        ),
    ],
)
def test_errors(sql: Ask, words: tuple[str, ...], error: str) -> None:
    result = sql(*words)
    assert result.exit_code == 1
    assert error in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_half_a_certificate() -> None:
    result = CliRunner().invoke(main, ["sql", "http://127.0.0.1:1", "select 1", "--cert", "x.pem"])
    assert (result.exit_code, "a certificate needs both --cert and --key" in result.output) == (2, True)


def test_an_earlier_batch(sql: Ask) -> None:
    for as_of, expected in (("1", 1), ("2", 2), (datetime.now(UTC).isoformat(), 2)):
        result = sql("select n from counts where word = 'dog'", "--as-of", as_of)
        assert json.loads(result.stdout) == {"n": expected}, result.output
        assert f"as of txid {expected} of words" in result.stderr
    assert "txid 9 has not been committed yet" in sql("from counts", "--as-of", "9").stderr
