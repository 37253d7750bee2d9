"""The client that blocks is the asyncio client, without asyncio."""

from tests.house.blocking_client import SOURCE, TARGET, blocking


def test_the_client_that_blocks_is_written_from_the_other_one() -> None:
    expected = blocking(SOURCE.read_text(encoding="utf-8"))
    assert TARGET.read_text(encoding="utf-8") == expected, "run: python -m tests.house.blocking_client"
