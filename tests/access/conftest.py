import pytest

from tests.support.postgres_fixtures import postgres as postgres


@pytest.fixture(autouse=True)
def stop_what_still_runs(nothing_left_running: None) -> None:
    """Stop what each test left running."""
