"""The losses over which a stream has continued. Its position names the worst, for those who read its messages again."""

from collections.abc import Collection
from typing import Literal

Passed = Literal["", "lost", "skipped"]
"""The worst loss over which a stream has continued (onDataLoss).

"lost": it has read messages that are not in Kafka any more. "skipped": Kafka may also have messages before the position
that it has not read. Messages that retention removed before they were read do not count.
"""


def worst(passed: Collection[Passed]) -> Passed:
    """Return the worst of several losses.

    >>> worst({"", "skipped", "lost"})
    'skipped'
    """
    levels: tuple[Passed, ...] = ("skipped", "lost")
    return next((each for each in levels if each in passed), "")
