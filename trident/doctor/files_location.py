"""The filesLocation: whether the object store or HDFS answers, and the driver may write, read and delete there."""

from collections.abc import Iterable

from trident.base.errors import MissingPackageError, TridentError
from trident.base.finding import Finding
from trident.configuration.file_locations import files_place
from trident.doctor.examined_setup import ExaminedSetup
from trident.doctor.file_store import StoreTrial


def files_location(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for a filesLocation that cannot be reached, or in which a right is missing."""
    url = setup.options.get("filesLocation")
    about = f"filesLocation={url}"
    try:
        place = files_place(url, setup.options.get("filesStorage"))
        if place is not None:
            yield from StoreTrial(place, about).examine(setup.now)
    except MissingPackageError:
        raise
    except TridentError as error:
        todo = "Correct the URL and filesStorage= (endpoint, region, credentials as env:NAME or file:path)"
        yield Finding(about, str(error), "a start is refused", todo)
