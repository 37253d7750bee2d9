"""The client of object stores: obstore, opened by URL and options.

And the conversion of a store's errors to one line.
"""

import importlib
import re
from datetime import timedelta
from functools import lru_cache
from typing import Any

from trident.base.errors import TopologyError
from trident.base.forked_child import check_not_inherited
from trident.base.optional_packages import optional_package
from trident.files.object_options import Options

SCHEMES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://")
"""The URLs of objects. Only S3 is tested."""

FEW: dict[str, Any] = {"max_retries": 4}
"""The retries of a request whose caller repeats it anyway: the client gives up after a second or two."""

PATIENT: dict[str, Any] = {
    "max_retries": 8,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=5), "base": 2},
}
"""The retries of a request that must survive an outage of the store of about twenty seconds. After that the request
fails."""


def obstore() -> Any:
    """Return the package obstore. Raises MissingPackageError if it is not installed.

    Also raises the error of `check_not_inherited`.
    """
    check_not_inherited("obstore")
    need = "an object store needs the package obstore, also where Spark's workers run"
    return optional_package("obstore", "objectstore", need)


def failures() -> Any:
    """Return the module of obstore's exceptions."""
    obstore()
    return importlib.import_module("obstore.exceptions")


def bucket_of(url: str) -> tuple[str, str]:
    """Split the URL of an object into the URL of its bucket and the object's key.

    >>> bucket_of("s3a://books/2024/one.txt")
    ('s3://books', '2024/one.txt')
    """
    scheme, _, rest = url.partition("://")
    name, _, key = rest.partition("/")
    return f"{'s3' if scheme == 's3a' else scheme}://{name}", key


def reason(error: Exception) -> str:
    """Return a store's error message as one line.

    Queries of URLs are left out, because some stores put signatures there.
    """
    said = " ".join(str(error).partition("Debug source")[0].split())
    said = re.sub(r"(://[^\s?]*)\?\S*", r"\1?...", said)
    head, _, body = said.partition(" <?xml")
    code = re.search(r"<Code>(.*?)</Code>", body)
    return f"{head} {code[1]}" if code else head


def refused(error: Exception) -> bool:
    """Return whether a store will refuse every repetition of a request: no permission, no such bucket."""
    kinds = failures()
    if isinstance(error, kinds.PermissionDeniedError | kinds.UnauthenticatedError | kinds.NotSupportedError):
        return True
    if isinstance(
        error, ValueError | NotImplementedError | kinds.InvalidPathError | kinds.UnknownConfigurationKeyError
    ):
        return True
    status = re.search(r"status code: (\d+)", str(error))
    return status is not None and status[1].startswith("4") and status[1] not in ("408", "409", "429")


def pauses() -> list[float]:
    """Return the seconds between the attempts of a request that the client itself does not send again."""
    return [min(5.0, 0.2 * 2**number) for number in range(PATIENT["max_retries"])]


@lru_cache(maxsize=16)
def open_bucket(bucket: str, options: Options, client: Options, patient: bool = False) -> Any:
    """Return a client of a bucket, which keeps its connections.

    Clients are cached by URL and options. The options include the credentials, so new credentials get a new client.

    Raises TopologyError if the options do not fit the store.
    """
    obstore()
    from_url = importlib.import_module("obstore.store").from_url
    retries = PATIENT if patient else FEW
    try:
        return from_url(bucket, config=dict(options), client_options=dict(client) or None, retry_config=retries)
    except Exception as error:
        raise TopologyError(f"cannot open {bucket}: {reason(error)}") from None
