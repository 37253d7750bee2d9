"""``trident explain``: the text and pictures of a program's topology, and the check of its guarantees."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.picture.examples import visits, word_count
from trident.cli.main import main

WORDS, VISITS = "tests.picture.examples:word_count", "tests.picture.examples:visits"


def explained(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["explain", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize("engine", ["spark", "embedded"])
def test_it_prints_what_the_topology_prints(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    word_count().explain(engine)  # type: ignore[arg-type]
    assert explained(WORDS, "--engine", engine) == (0, capsys.readouterr().out)


def test_without_an_engine_it_is_spark() -> None:
    assert explained(WORDS) == explained(WORDS, "--engine", "spark")


def test_it_prints_a_picture() -> None:
    assert explained(VISITS, "--draw", "mermaid") == (0, visits().draw("mermaid") + "\n")


@pytest.mark.parametrize("shape", [[], ["--draw", "dot"]])
def test_a_weaker_promise_ends_with_1(shape: list[str]) -> None:
    assert explained(WORDS, "--require-exactly-once", *shape) == explained(WORDS, *shape)
    code, output = explained(VISITS, "--require-exactly-once", *shape)
    assert code == 1
    assert output.startswith("trident: GuaranteeError: requireExactlyOnce=True, but these states guarantee less")
    assert "people" in output and len(output.splitlines()) == 1, "nothing of the topology is printed"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["tests.picture.examples:word_cuont"], 1, "did you mean 'word_count'?"),
        (["tests.picture.examples"], 2, "expected module:topology"),
        ([WORDS, "--draw", "png"], 2, "'png' is not one of 'svg', 'mermaid', 'dot', 'json'"),
        ([WORDS, "--draw", "svg", "--engine", "spark"], 2, "--engine changes only the text"),
    ],
)
def test_wrong_calls_are_refused(arguments: list[str], code: int, message: str) -> None:
    found, output = explained(*arguments)
    assert (found, message in output) == (code, True), output


BROKEN = """
import json
from trident import TridentTopology, openTopology

words, pages = TridentTopology(), TridentTopology()

def count_of(text):
    return json.loads(text)["n"]

def broken():
    open("no-such-file")

def misspelt():
    words.newStream("a b c")

{line}
"""


@pytest.mark.parametrize(
    ("line", "name", "message"),
    [
        ("n = 1", "topology", "has no 'topology'; its topologies: words, pages"),
        ("n = 1", "word", "has no 'word'; did you mean 'words'?"),
        ("n = 1", "broke", "has no 'broke'; did you mean 'broken'?"),
        (
            "n = count_of('x')",
            "words",
            "module 'broken_program' raised JSONDecodeError: Expecting value: line 1 column 1 (char 0) "
            "(broken_program.py:8)",
        ),
        ("n = 1", "broken", "function 'broken' raised FileNotFoundError: [Errno 2] No such file or directory: "),
        ("n = 1", "broken", "(broken_program.py:11)"),
        ("n = 1", "misspelt", "ArgumentsError: newStream: missing a required argument: 'spout'"),
    ],
)
def test_an_error_of_a_program_names_its_line(
    line: str, name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_program.py").write_text(BROKEN.replace("{line}", line), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_program", raising=False)
    code, output = explained(f"broken_program:{name}")
    assert (code, message in output) == (1, True), output
