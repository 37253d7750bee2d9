"""The examination of one part of a program, by the part itself. It runs in the driver and in Spark's workers."""

from collections.abc import Iterator

from trident.base.errors import MissingPackageError, TridentError
from trident.base.finding import Examined, Finding, Now
from trident.doctor.missing_package import missing


def examined(about: str, part: Examined, now: Now) -> Iterator[Finding]:
    """Yield the findings of a part, or the finding that it cannot be examined. `about`: the part's name."""
    try:
        yield from part.examine(now)
    except MissingPackageError as error:
        yield missing(about, error)
    except TridentError as error:
        todo = "Correct what the message names: an address, a name or a right"
        yield Finding(about, str(error), "the topology does not start, or fails with its first batch", todo)
