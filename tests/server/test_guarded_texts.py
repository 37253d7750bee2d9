"""What a client's text, or a user's error, may become: not a line of a log, and not a look into the server."""

import logging
from typing import Any

import pytest

from tests.server.conftest import Serving
from trident.errors import TopologyError
from trident.server.access_rules import Rights

TOKEN, SHOP = "0123456789abcdef", "the-token-of-the-shop"
SECRET = "patient-4711"


def test_no_log_has_arguments_keys_or_values(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = serving.post("/drpc/fails", {"args": [SECRET]})
    assert told.status_code == 500 and SECRET in told.json()["error"]["message"]
    serving.get(f"/state/counts/{SECRET}")
    serving.get(f"/state/counts?after={SECRET}&limit={SECRET}")
    serving.post("/state/counts", {"keys": [[SECRET]]})
    serving.post("/drpc/count", {"args": [1, SECRET]})
    serving.post(f"/drpc/{SECRET}/{SECRET}", {"args": []})
    ours = [record for record in caplog.records if record.name.startswith(("trident", "uvicorn"))]
    assert [record for record in ours if record.levelno == logging.ERROR], "the failure of the function is logged"
    for record in ours:
        assert SECRET not in logging.Formatter().format(record) or f"/drpc/{SECRET}/..." in record.getMessage()


def test_an_error_is_found_in_the_log_by_its_place_and_number(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    with serving.running.serve(token=TOKEN, tokens={SHOP: Rights(functions=["fails"])}) as server:
        serving.url = server.url
        told = serving.post("/drpc/fails", {"args": ["dog"]}, headers={"authorization": f"Bearer {SHOP}"}).json()
    message = told["error"]["message"]
    assert told["error"]["type"] == "UserFunctionError"
    assert message.startswith("the server could not answer; the server's log has the reason, under the number ")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "trident.server.guards"]
    assert message.rpartition(" ")[2] in line and "counting.py:" in line and "in fails" in line and "dog" not in line


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ({SHOP: Rights(states=["cuonts"])}, "the topology has no state 'cuonts'; did you mean 'counts'"),
        (
            {SHOP: Rights(functions=["nothing"])},
            "the topology has no function 'nothing'.*the functions are: count, fails",
        ),
        ({"env:ONE": Rights(), "env:TWO": Rights()}, "env:ONE and env:TWO are the same token"),
        ({TOKEN: Rights(states=["counts"])}, "one of them is also the server's token"),
    ],
)
def test_rights_are_checked_where_they_are_given(
    serving: Serving, tokens: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE", SHOP)
    monkeypatch.setenv("TWO", SHOP)
    with pytest.raises(TopologyError, match=said) as refused:
        serving.running.serve(token=TOKEN, tokens=tokens)
    assert SHOP not in str(refused.value) and TOKEN not in str(refused.value)
    serving.running.serve(token=TOKEN, tokens={SHOP: Rights(states=["counts"])}).stop()
