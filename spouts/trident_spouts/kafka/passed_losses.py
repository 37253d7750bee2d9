"""Losses past which a stream has continued. Its position records the worst one, for readers that start over."""

from collections.abc import Collection
from typing import Literal

Passed = Literal["", "lost", "skipped"]
"""The worst loss past which a stream has continued (onDataLoss).

"lost": the stream has read messages that Kafka no longer has. "skipped": Kafka may also have unread messages before
the position. Messages that retention removed before they were read do not count.
"""


def worst(passed: Collection[Passed]) -> Passed:
    """Return the worst of several losses.

    >>> worst({"", "skipped", "lost"})
    'skipped'
    """
    levels: tuple[Passed, ...] = ("skipped", "lost")
    return next((each for each in levels if each in passed), "")
