"""The filesLocation: an object store or HDFS that answers, and in which the driver may write, read and delete."""

import secrets
from collections.abc import Iterable

from trident.base.errors import FilesError, MissingPackageError, TridentError
from trident.base.finding import Finding
from trident.configuration.places import files_place
from trident.doctor.case import Case
from trident.files.store import FileStore

_PROBE = "trident-doctor-"


def files_location(case: Case) -> Iterable[Finding]:
    """Find a filesLocation that is out of reach, or in which a right is missing."""
    url = case.options.get("filesLocation")
    about = f"filesLocation={url}"
    try:
        place = files_place(url, case.options.get("filesStorage"))
        if place is not None:
            yield from tried(place, about)
    except MissingPackageError:
        raise
    except TridentError as error:
        todo = "Correct the URL and filesStorage= (endpoint, region, credentials as env:NAME or file:path)"
        yield Finding(about, str(error), "a start is refused", todo)


def tried(place: FileStore, about: str) -> Iterable[Finding]:
    """Yield the first thing that cannot be done in a file store: read, create on a condition, list, delete."""
    name, doing, content = f"{_PROBE}{secrets.token_hex(8)}", "ask for a file", b"trident doctor\n"
    try:
        place.size(name)  # first, because it does not wait for a store that is out of reach
        doing = "create a file, unless it exists,"
        place.create(name, content)
        doing = "read a file"
        place.read(name)
        doing = "delete a file"
        place.delete([name])
    except (FilesError, OSError) as error:
        todo = "Start the store, or correct the URL, the endpoint in filesStorage= and the credentials; the user needs "
        todo += "the rights to get, put, list and delete objects below that prefix (s3:GetObject, s3:PutObject, "
        todo += "s3:ListBucket, s3:DeleteObject)"
        yield Finding(about, f"the driver cannot {doing} there: {error}", "a start or a commit fails", todo)
