"""Events of advertisements as JSON lines, the campaign of each advertisement in Redis, and the right counts."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import redis

SEED = 11
CAMPAIGNS, ADS = 100, 10
"""Each campaign has ten advertisements."""
WINDOW = 10_000
"""Milliseconds."""
STEP = 4
"""The event time between two events, in milliseconds."""
DISORDER = 500
"""An event comes at most so many milliseconds later than one with a later time."""
BEGIN = int(datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp() * 1_000)
KINDS = ("view", "click", "purchase")
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
SCHEMA = (
    "user_id string, page_id string, ad_id string, ad_type string, event_type string, event_time long, "
    "ip_address string"
)

Counts = Mapping[tuple[str, int], int]
"""The views of each campaign and beginning of ten seconds."""


@dataclass(frozen=True)
class Advertising:
    """A file of events for each batch; `campaigns` has the campaign of each advertisement."""

    folder: str
    campaigns: Mapping[str, str]
    expected: Counts
    events: int

    @property
    def files(self) -> str:
        return f"{self.folder}/*.json"

    def put_campaigns(self, client: redis.Redis) -> None:
        """Write the campaign of each advertisement as a plain key, as the benchmark's own preparation does."""
        client.mset(dict(self.campaigns))


def make_advertising(folder: Path, events: int, batches: int) -> Advertising:
    """Write this many events into as many files as there are batches, in the order of their arrival."""
    random = np.random.default_rng(SEED)
    names = [f"campaign-{number}" for number in range(CAMPAIGNS)]
    campaigns = {f"ad-{number}": names[number % CAMPAIGNS] for number in range(CAMPAIGNS * ADS)}
    times = BEGIN + np.arange(events) * STEP
    arrived = np.argsort(times + random.integers(0, DISORDER, events), kind="stable")
    drawn = {name: random.integers(0, size, events).tolist() for name, size in _SIZES.items()}
    expected: Counter[tuple[str, int]] = Counter()
    folder.mkdir(parents=True)
    for batch, part in enumerate(np.array_split(arrived, batches)):
        with (folder / f"{batch:04d}.json").open("w") as file:
            for at in part.tolist():
                event = _event({name: values[at] for name, values in drawn.items()}, int(times[at]))
                file.write(json.dumps(event) + "\n")
                if event["event_type"] == "view":
                    expected[campaigns[str(event["ad_id"])], int(times[at]) // WINDOW * WINDOW] += 1
    return Advertising(str(folder), campaigns, expected, events)


_SIZES = {"user": 1_000, "page": 1_000, "ad": CAMPAIGNS * ADS, "ad_type": len(AD_TYPES), "kind": len(KINDS)}


def _event(drawn: Mapping[str, int], time: int) -> dict[str, str | int]:
    return {
        "user_id": f"user-{drawn['user']}",
        "page_id": f"page-{drawn['page']}",
        "ad_id": f"ad-{drawn['ad']}",
        "ad_type": AD_TYPES[drawn["ad_type"]],
        "event_type": KINDS[drawn["kind"]],
        "event_time": time,
        "ip_address": "1.2.3.4",
    }
