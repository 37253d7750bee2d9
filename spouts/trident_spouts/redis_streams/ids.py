"""Ids of entries: texts of the form ``<milliseconds>-<sequence>``, which a stream assigns in growing order."""

import datetime
import re

ZERO = "0-0"
"""The id before the first id. No entry has it."""

_ID = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")
_GREATEST = (1 << 64) - 1
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def order(entry_id: str) -> tuple[int, int]:
    """Return the key by which ids are compared. Their texts do not sort in this order.

    >>> order("9-1") < order("10-0")
    True
    """
    time, _, sequence = entry_id.partition("-")
    return int(time), int(sequence)


def read_id(text: str) -> str | None:
    """Return an id that a user wrote, in full form; None if it is not an id. A missing sequence is 0, as for XREAD.

    >>> read_id("1526985054069"), read_id("7-3"), read_id("$")
    ('1526985054069-0', '7-3', None)
    """
    match = _ID.fullmatch(text)
    if match is None:
        return None
    time, sequence = int(match[1]), int(match[2] or 0)
    return f"{time}-{sequence}" if max(time, sequence) <= _GREATEST else None


def before(time: datetime.datetime) -> str:
    """Return the greatest id that is less than the ids of all entries that were added at `time` or later.

    >>> before(datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC))
    '999-18446744073709551615'
    """
    milliseconds = -((_EPOCH - time) // datetime.timedelta(milliseconds=1))
    return f"{milliseconds - 1}-{_GREATEST}" if milliseconds > 0 else ZERO
