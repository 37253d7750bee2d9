"""All endpoints of the server, each held to each guard: a guard stands around the server, and not in a handler."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.server.conftest import Serving
from tests.server.raw import ask
from trident.server.access_rules import AccessRules, Rights
from trident.server.app import web_app
from trident.server.limits import Limits

TOKEN, SHOP = "0123456789abcdef", "the-token-of-the-shop"
OPEN = {"/", "/page/main.js"}
PROBES = {"/healthz", "/readyz"}

ENDPOINTS = [
    ("GET", "/metrics"),
    ("GET", "/drpc"),
    ("POST", "/drpc/count"),
    ("GET", "/state"),
    ("GET", "/tags"),
    ("POST", "/tags"),
    ("DELETE", "/tags/month-end"),
    ("GET", "/state/counts"),
    ("POST", "/state/counts"),
    ("GET", "/state/counts/changes"),
    ("GET", "/state/counts/dog"),
    ("POST", "/sql"),
    ("GET", "/"),
    ("GET", "/page/main.js"),
    ("GET", "/topology"),
    ("GET", "/status"),
    ("GET", "/events"),
    ("GET", "/dead-letters"),
    ("POST", "/dead-letters/replay"),
    ("GET", "/openapi.json"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
]
HEADS = [("HEAD", path) for method, path in ENDPOINTS if method == "GET"]
NONE = [("GET", "/nowhere"), ("DELETE", "/state/counts"), ("PUT", "/drpc/count"), ("GET", "/state/counts/x/y/z/..")]
ALL = [*ENDPOINTS, *HEADS, *NONE]


def status(url: str, method: str, path: str, *headers: str, host: str | None = None) -> int:
    """Return the status of a request's answer; of an answer without an end, as soon as its head is there."""
    told = {"host": host} if host else {}
    told |= dict(header.split(": ", 1) for header in headers)
    with httpx.stream(method, f"{url}{path}", headers=told, timeout=30) as response:
        return response.status_code


@contextmanager
def guarded(serving: Serving, **options: object) -> Iterator[str]:
    with serving.running.serve(token=TOKEN, tokens={SHOP: Rights(states=["counts"])}, **options) as server:  # type: ignore[arg-type]
        yield server.url


@pytest.mark.parametrize("path", ["/healthz/", "/readyz/", "/drpc/"])
def test_a_slash_at_the_end_does_not_count(serving: Serving, path: str) -> None:
    with serving.running.serve() as server:
        assert status(server.url, "GET", path) == 200
        assert status(server.url, "GET", "/nowhere/") == 404


def test_the_list_has_all_doors(serving: Serving) -> None:
    app = web_app(serving.running, AccessRules(None, ["localhost"]), Limits())
    for endpoint in app.endpoints:
        for method in endpoint.methods:
            scope = [{"type": "http", "method": method, "path": path} for how, path in ENDPOINTS if how == method]
            first = [next(each.path for each in app.endpoints if each.route.matches(at)[0].value == 2) for at in scope]
            assert endpoint.path in first, f"{method} {endpoint.path} is not in the list of this test"


def test_a_token_is_asked_for_at_every_door(serving: Serving) -> None:
    with guarded(serving) as url:
        told = {(method, path): status(url, method, path) for method, path in ALL}
    for (method, path), answer in told.items():
        assert answer == (200 if path in OPEN | PROBES else 401), (method, path)


def test_a_limited_token_opens_what_is_named_and_nothing_else(serving: Serving) -> None:
    with guarded(serving) as url:
        bearer = f"authorization: Bearer {SHOP}"
        told = {(method, path): status(url, method, path, bearer) for method, path in ALL}
    for (method, path), answer in told.items():
        if path.startswith("/state/counts") or path == "/sql":  # tests/server/test_sql.py: the states in a query
            assert answer not in (401, 403), (method, path)
        else:
            assert answer == (200 if path in OPEN | PROBES else 403), (method, path)


def test_another_host_is_refused_at_every_door_but_the_probes(serving: Serving) -> None:
    for method, path in ALL:
        told = status(serving.url, method, path, host="evil.example")
        assert told == (200 if path in PROBES else 421), (method, path)


def test_a_page_of_another_origin_opens_no_door(serving: Serving) -> None:
    """A browser sends requests of these types for any page; for others it asks first, and it hides each answer."""
    page = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    asks_first = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    with httpx.Client(base_url=serving.url, headers=page, timeout=30) as browser:
        for method, path in ALL:
            with browser.stream(method, path) as answer:
                assert not [name for name in answer.headers if name.startswith("access-control-")], (method, path)
            told = browser.options(path, headers=asks_first)
            assert told.status_code in (404, 405), path
            assert not [name for name in told.headers if name.startswith("access-control-")], path
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"):
                if method == "POST":
                    told = browser.post(path, content=b"{}", headers={"content-type": kind})
                    assert told.status_code == 415, (path, kind)


def test_every_door_counts_for_the_rate_of_its_address(serving: Serving) -> None:
    for method, path in ALL:
        with serving.running.serve(limits=Limits(requestsPerSec=0.01)) as server:
            answers = [status(server.url, method, path) for _ in range(2)]
            assert answers[0] != 429 and answers[1] == 429, (method, path)
    with serving.running.serve(limits=Limits(requestsPerSec=0.01)) as server:
        assert status(server.url, "GET", "/state") == 200
        assert status(server.url, "GET", "/healthz") == 200, "a probe is not refused because others ask"


def test_every_door_is_refused_if_too_many_requests_are_in_flight(serving: Serving) -> None:
    with serving.running.serve(limits=Limits(inFlight=0)) as server:
        for method, path in ALL:
            told = status(server.url, method, path)
            assert told == (200 if path in PROBES else 503), (method, path)


def test_every_request_has_one_line_and_one_count(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trident.audit")
    asked = [*ALL, *ALL]
    with guarded(serving) as url:
        for at, (method, path) in enumerate(asked):
            status(url, method, path, *([f"authorization: Bearer {TOKEN}"] if at >= len(ALL) else []))
        counted = httpx.get(f"{url}/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
    lines = [record.getMessage() for record in caplog.records if record.name == "trident.audit"][: len(asked)]
    assert [line.split()[1] for line in lines] == [method for method, _ in asked]
    assert all(re.fullmatch(r"127\.0\.0\.1 [A-Z]+ /\S*: \d{3} in [\d.]+ ms", line) for line in lines)
    samples = [line for line in counted.splitlines() if line.startswith("trident_http_requests_total{")]
    assert sum(float(line.rsplit(" ", 1)[1]) for line in samples) == len(asked)
    assert any('path="other",status="404"' in line for line in samples)
    assert any('method="DELETE",path="other",status="405"' in line for line in samples)


def test_the_text_of_a_client_stays_in_its_line(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trident.audit")
    for path in (
        "/state/x%0AERROR%20forged%0Ay/k",
        "/x%1B%5B2J%0D",
        "/state/%E2%80%A8",
        "/a/b/secret",
        "/" + "a" * 5000,
    ):
        ask(serving.url, path)
    ask(serving.url, "/state", "BREW\x1b")
    lines = [record for record in caplog.records if record.name == "trident.audit"]
    assert len(lines) == 6
    for record in lines:
        line = record.getMessage()
        assert line.isascii() and line.isprintable() and len(line) < 300 and "secret" not in line
    metrics = serving.get("/metrics").text
    assert "forged" not in metrics and "BREW" not in metrics and "aaaa" not in metrics


def test_an_address_is_believed_from_a_proxy_that_is_named(
    serving: Serving, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "trident.audit")
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    forwarded = {"x-forwarded-for": "203.0.113.7"}
    assert serving.get("/state", headers=forwarded).status_code == 200
    with serving.running.serve(limits=Limits(proxies=["127.0.0.1"])) as server:
        httpx.get(f"{server.url}/state", headers=forwarded)
    with serving.running.serve(limits=Limits(proxies=["198.51.100.1"])) as server:
        httpx.get(f"{server.url}/state", headers=forwarded)
    told = [record.getMessage().split()[0] for record in caplog.records]
    assert told == ["127.0.0.1", "203.0.113.7", "127.0.0.1"]


def test_readyz_says_more_to_those_who_may_ask_everything(serving: Serving) -> None:
    with guarded(serving) as url:
        for headers, more in (
            ((), False),
            ((f"authorization: Bearer {SHOP}",), False),
            ((f"authorization: Bearer {TOKEN}",), True),
        ):
            assert (b"words" in ask(url, "/readyz", "GET", *headers).body) == more
    assert b"words" in ask(serving.url, "/readyz").body
    assert b"words" not in ask(serving.url, "/readyz", host="evil.example").body
