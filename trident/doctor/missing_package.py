"""The finding for a package that is not installed. Spark's workers import this module."""

import re

from trident.base.errors import MissingPackageError
from trident.base.finding import Finding


def missing(about: str, error: MissingPackageError) -> Finding:
    """Return the finding for a package of an extra that a part of the program needs."""
    command = re.search(r"pip install '[^']+'", str(error))
    todo = f"{command[0] if command else 'Install it'}, for the driver and where Spark's workers run"
    return Finding(about, str(error), "the topology does not start", todo)
