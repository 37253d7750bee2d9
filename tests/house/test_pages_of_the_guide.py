"""Pages of the guide that are programs: run as they stand, in a folder of their own."""

from pathlib import Path

import pytest

from tests.support.pages import run_page
from tests.support.server import RedisServer

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


@pytest.mark.parametrize(
    "name",
    [
        "delta-state",
        "lifecycle",
        "output",
        "poison",
        "from-foreachbatch",
        "from-storm-trident",
        "from-structured-streaming",
        "stateful",
        "timers",
    ],
)
def test_a_page_of_the_guide_runs_as_it_stands(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(GUIDE / f"{name}.md")


@pytest.mark.filterwarnings("ignore:state .* appendonly is off", "ignore:topology 'wc' has no checkpointLocation")
def test_the_page_of_states_runs_over_a_log_in_redis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_redis: RedisServer
) -> None:
    monkeypatch.chdir(tmp_path)
    log = {'"env:REDIS_URL"': f'"{shared_redis.url}", requireDurable=False'}
    run_page(GUIDE / "state.md", **log)
