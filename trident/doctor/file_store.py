"""The test of a file store: read, create, list and delete a file. It runs in the driver and in Spark's workers."""

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

from trident.base.errors import FilesError
from trident.base.finding import Finding, Now
from trident.files.store import FileStore


@dataclass(frozen=True, slots=True)
class StoreTrial:
    """A file store to be tested. `about` names it, `matters` is the effect of a fault."""

    place: FileStore
    about: str
    matters: str = "a start or a commit fails"

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the first operation that fails in the file store."""
        name, doing, content = f"trident-doctor-{secrets.token_hex(8)}", "ask for a file", b"trident doctor\n"
        try:
            self.place.size(name)  # first, because it does not wait for a store that is out of reach
            doing = "create a file, unless it exists,"
            self.place.create(name, content)
            doing = "read a file"
            self.place.read(name)
            doing = "delete a file"
            self.place.delete([name])
        except (FilesError, OSError) as error:
            todo = "Start the store, or correct the URL, the endpoint in filesStorage= and the credentials; the user "
            todo += (
                "needs the rights to get, put, list and delete objects below that prefix (s3:GetObject, s3:PutObject, "
            )
            todo += "s3:ListBucket, s3:DeleteObject)"
            yield Finding(self.about, f"one cannot {doing} there: {error}", self.matters, todo)
