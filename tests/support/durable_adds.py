"""Entries of Redis streams, added until the server has them."""

import time
from typing import Any

import redis


def add_entry(client: Any, stream: str, entry_id: str, fields: dict[str, str]) -> None:
    """Add an entry, also while the server is away. A reply that got lost does not add it twice."""
    while True:
        try:
            client.xadd(stream, fields, id=entry_id)
        except (redis.ConnectionError, redis.TimeoutError):
            time.sleep(0.02)
            continue
        except redis.ResponseError as error:
            assert "equal or smaller" in str(error), "it was added, and the reply was lost"
        return
