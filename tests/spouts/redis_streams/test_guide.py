"""The page on Redis Streams is a program that runs as it stands, and its tables name what there is."""

import inspect
import re
from pathlib import Path

import pytest

from tests.support.pages import run_page
from tests.support.server import RedisServer
from trident.spouts import RedisStreamSpout
from trident_spouts.redis_streams.server import COMMANDS

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "redis-streams.md"


def test_the_page_runs_and_prints_what_it_says(
    shared_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", shared_redis.url)
    run_page(PAGE)
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", PAGE.read_text(encoding="utf-8"))


def test_the_page_names_every_option_of_the_spout_and_what_a_user_of_the_server_needs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    options = set(inspect.signature(RedisStreamSpout.__init__).parameters) - {"self"}
    assert {name for name in options if name not in text} == {"connectTimeout", "socketTimeout"}
    assert set(re.findall(r"\+(\w+)", text)) == set(re.findall(r"\w+", COMMANDS)) - {"and"}
