"""Names of time zones."""

import re
from zoneinfo import ZoneInfo


def is_zone(name: object) -> bool:
    """Return whether a name is that of a time zone, such as Europe/Berlin, or UTC.

    Short names such as EST are refused, because Java and Python interpret some of them as different zones.

    >>> is_zone("Europe/Berlin"), is_zone("EST"), is_zone("Berlin")
    (True, False, False)
    """
    if not isinstance(name, str) or not re.fullmatch(r"UTC|[A-Z][A-Za-z]+(/[A-Za-z0-9_+-]+){1,2}", name):
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True
