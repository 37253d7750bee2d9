"""DRPC functions over HTTP: arguments, answers, errors."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from tests.server.conftest import Serving
from trident import TridentTopology
from trident.drpc.request_queue import Audience
from trident.errors import DRPCArgumentError, DRPCNotFoundError, DRPCTimeoutError, UserFunctionError


def test_a_function_answers_rows_and_the_txid(serving: Serving) -> None:
    told = serving.post("/drpc/count", {"args": ["dog"]})
    assert told.status_code == 200
    answer = told.json()
    assert (answer["fields"], answer["rows"], answer["asOfTxid"]) == (["word", "count"], [["dog", 2]], {"words": 1})
    assert serving.post("/drpc/count", {"args": {"word": "cat"}}).json()["rows"] == [["cat", 1]]
    assert serving.post("/drpc/total", {"args": ["dog cat unicorn"]}).json()["rows"] == [[3]]


def test_an_arrow_stream_is_answered_to_those_who_accept_it(serving: Serving) -> None:
    told = serving.post("/drpc/count", {"args": ["dog"]}, headers={"accept": "application/vnd.apache.arrow.stream"})
    table = pa.ipc.open_stream(told.content).read_all()
    assert table.to_pylist() == [{"word": "dog", "count": 2}]
    assert told.headers["trident-as-of-txid"] == '{"words":1}'


def test_the_functions_are_listed(serving: Serving) -> None:
    functions = serving.get("/drpc").json()["functions"]
    assert functions["count"] == "count(word string)"
    assert sorted(functions) == ["count", "fails", "slow", "total"]


@pytest.mark.parametrize(
    ("function", "content", "status", "kind", "message"),
    [
        ("cuont", {"args": ["dog"]}, 404, "DRPCNotFoundError", "did you mean 'count'"),
        ("count", {"args": [7]}, 400, "DRPCArgumentError", "argument 'word' is 7 (int)"),
        ("count", {"args": []}, 400, "DRPCArgumentError", "argument 'word' is missing"),
        ("count", {"args": ["a", "b"]}, 400, "DRPCArgumentError", "the call has 2 arguments"),
        ("count", {"args": {"wrod": "a"}}, 400, "DRPCArgumentError", "did you mean 'word'"),
        ("count", {"arguments": ["a"]}, 400, "InvalidBody", "unknown field `arguments`"),
        ("count", {"args": ["a"], "timeout": 1e9}, 400, "InvalidBody", "at most 30"),
        ("slow", {"args": ["5"], "timeout": 0.2}, 504, "DRPCTimeoutError", "no answer within 0.2 s"),
        ("fails", {"args": ["dog"]}, 500, "UserFunctionError", "no dog here"),
    ],
)
def test_what_cannot_be_answered_is_told(
    serving: Serving, function: str, content: object, status: int, kind: str, message: str
) -> None:
    told = serving.post(f"/drpc/{function}", content)
    error = told.json()["error"]
    assert (told.status_code, error["type"]) == (status, kind)
    assert message in error["message"]
    assert "Traceback" not in told.text


def test_requests_beside_a_slow_one_are_answered(serving: Serving) -> None:
    with serving.client() as client:
        with pytest.raises(DRPCTimeoutError):
            client.execute("slow", "3", timeout=0.1)
        assert client.execute("slow", "0", timeout=2) == [("0", "0", None)]


def test_the_client_raises_the_errors_of_the_library(serving: Serving) -> None:
    with serving.client() as client:
        assert client.execute("count", "dog") == [("dog", 2)]
        assert client.execute("count", word="dog").asOfTxid == 1
        assert client.execute("count", "dog").toPandas().attrs == {"asOfTxid": 1}
        with pytest.raises(DRPCNotFoundError, match="no DRPC function 'nothing'"):
            client.execute("nothing")
        with pytest.raises(DRPCArgumentError, match="is 7"):
            client.execute("count", 7)
        with pytest.raises(UserFunctionError, match="no cow here"):
            client.execute("fails", "cow")


def test_an_answer_shows_what_its_client_has_seen(serving: Serving) -> None:
    with serving.client() as client:
        for n in range(3, 20):
            serving.feed("dog")
            assert client.execute("count", "dog")[0]["count"] == n


def test_a_server_that_is_behind_says_so(serving: Serving) -> None:
    told = serving.post("/drpc/count", {"args": ["dog"], "minTxid": {"words": 5}, "timeout": 0.2})
    assert told.status_code == 409
    assert "words is at txid 1, not 5. If the topology was reset" in told.json()["error"]["message"]


_ENDINGS: dict[str, type[BaseException]] = {
    each.__name__: each
    for each in (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration, BaseException)
}


def _ends(word: str) -> str:
    if word in _ENDINGS:
        raise _ENDINGS[word]("enough")
    return word


def test_whatever_a_function_raises_is_its_error_and_only_its_own(tmp_path: Path) -> None:
    """Requests that arrive together share a batch, and the server goes on."""
    topology = TridentTopology()
    topology.newDRPCStream("ends", "word string").each("word", _ends, "same string")
    with topology.start(engine="embedded", name="t", checkpointLocation=tmp_path) as running, running.serve() as server:

        def ask(word: str) -> httpx.Response:
            return httpx.post(f"{server.url}/drpc/ends", json={"args": [word]}, timeout=30)

        with ThreadPoolExecutor(12) as pool:
            words = [word for ending in _ENDINGS for word in (ending, "dog")]
            told = dict(zip(words, pool.map(ask, words), strict=True))
        assert told.pop("dog").json()["rows"] == [["dog", "dog"]]
        for ending, answer in told.items():
            error = answer.json()["error"]
            assert (answer.status_code, error["type"]) == (500, "UserFunctionError"), ending
            assert f"raised {ending}" in error["message"] and "_ends (test_drpc.py:" in error["message"]


def test_what_a_function_raises_in_the_main_thread_of_its_caller_may_be_an_interrupt(tmp_path: Path) -> None:
    topology = TridentTopology()
    topology.newDRPCStream("ends", "word string").each("word", _ends, "same string")
    with topology.start(engine="embedded", name="t", checkpointLocation=tmp_path) as running:
        with pytest.raises(UserFunctionError, match="raised KeyboardInterrupt"):
            running.drpc.execute("ends", "KeyboardInterrupt")  # a caller with a timeout is answered by another thread
        asked = Audience(1)
        with pytest.raises(KeyboardInterrupt):
            running.drpc.function("ends").answer([["KeyboardInterrupt"]], asked)
        assert running.drpc.execute("ends", "dog") == [("dog", "dog")]
