"""The OpenAPI description: what it says, and that a server keeps to it whatever it is sent (Schemathesis)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.conftest import Serving
from tests.support.soak import Soak

# 500 and 504 are answers too: a function of the topology may fail, and an answer may take longer than a client waits.
# What the types allow may still be refused, such as a cursor that no page ended with.
CHECKED = [
    "--exclude-checks",
    "not_a_server_error,positive_data_acceptance",
    "--exclude-path",
    "/drpc/slow",
    "--exclude-path-regex",
    "/changes$",  # an answer without an end
    "--suppress-health-check",
    "all",
]


def keeps_to_it(url: str, examples: int, seed: int, folder: Path) -> str:
    """Send what the description allows and what it does not; return what Schemathesis says if an answer is wrong."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", *CHECKED]
    limits = ["--max-examples", str(examples), "--seed", str(seed)]
    ran = subprocess.run([*command, *limits], cwd=folder, capture_output=True, text=True, timeout=3000)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def test_functions_and_states_are_described_with_their_types(serving: Serving) -> None:
    told = serving.get("/openapi.json").json()
    assert told["openapi"] == "3.1.0" and told["info"]["title"] == "topology wc" and "security" not in told
    described = {f"/drpc/{name}" for name in ("count", "fails", "slow", "total")}
    assert described | {
        "/drpc",
        "/state",
        "/tags",
        "/tags/{tag}",
        "/state/counts",
        "/state/counts/{key}",
        "/state/counts/changes",
        "/sql",
        "/healthz",
        "/readyz",
    } == {*told["paths"]}
    body = told["paths"]["/drpc/count"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    listed, named = body["properties"]["args"]["anyOf"]
    assert listed["prefixItems"] == [{"type": ["string", "null"]}] and named["required"] == ["word"]
    answer = told["paths"]["/state/counts/{key}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    most = (1 << 63) - 1
    value = {"type": ["integer", "null"], "minimum": -most - 1, "maximum": most}
    assert answer["properties"]["value"] == value


def test_a_token_is_described(serving: Serving) -> None:
    with serving.running.serve(token="0123456789abcdef") as server:
        headers = {"authorization": "Bearer 0123456789abcdef"}
        here = Serving(serving.running, serving.feeder, server.url, serving.checkpoint)
        assert here.get("/openapi.json").status_code == 401
        told = here.get("/openapi.json", headers=headers).json()
    assert told["security"] == [{"token": []}]
    assert told["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing", 404, "NotFound"),
        ("PUT", "/state/counts", 405, "MethodNotAllowed"),
        ("GET", "/drpc/count", 405, "MethodNotAllowed"),
    ],
)
def test_a_path_or_method_that_there_is_not(serving: Serving, method: str, path: str, status: int, kind: str) -> None:
    import httpx

    told = httpx.request(method, serving.url + path)
    assert (told.status_code, told.json()["error"]["type"]) == (status, kind)
    assert "GET /openapi.json describes the API" in told.json()["error"]["message"]
    if path == "/state/counts":
        assert {each.strip() for each in told.headers["allow"].split(",")} == {"GET", "HEAD", "POST"}


def test_ranking_by_a_field_that_there_is_not(serving: Serving) -> None:
    told = serving.get("/state/counts?top=3&by=size")
    assert (told.status_code, told.json()["error"]["type"]) == (400, "InvalidQuery")
    assert told.json()["error"]["message"] == "by='size': the fields of the value are none, since it is not a struct"


def test_a_parameter_that_came_twice(serving: Serving) -> None:
    told = serving.get("/state/counts?top=3&limit=1&limit=2")
    assert (told.status_code, told.json()["error"]["message"]) == (400, "limit is given 2 times; give it once")
    assert serving.get("/state/counts?top=3&limit=many").status_code == 400


def test_a_server_keeps_to_its_description(serving: Serving, tmp_path: Path) -> None:
    assert keeps_to_it(serving.url, 25, 7, tmp_path) == ""


@pytest.mark.soak
def test_a_server_keeps_to_its_description_for_long(serving: Serving, tmp_path: Path, soak: Soak) -> None:
    assert keeps_to_it(serving.url, 400, soak.seed, tmp_path) == ""
