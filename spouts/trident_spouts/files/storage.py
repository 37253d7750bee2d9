"""The options of an object store: its address and its credentials, which are named and never held."""

from collections.abc import Mapping
from dataclasses import dataclass

from trident.base.errors import SourceUnreadableError, TopologyError
from trident.base.secrets import SOURCES, read_secret

_OPEN = frozenset(
    {
        "access_key_id",
        "account_name",
        "allow_http",
        "application_credentials",
        "connect_timeout",
        "endpoint",
        "region",
        "request_payer",
        "service_account",
        "skip_signature",
        "timeout",
        "unsigned_payload",
        "virtual_hosted_style_request",
    }
)
"""The options that may be written down: none of them is a secret."""

_OF_CLIENT = ("allow_http", "connect_timeout", "timeout")


@dataclass(frozen=True, slots=True)
class Storage:
    """The options of an object store, by name. It is picklable, because it is sent to workers.

    A value is a text, or ``env:NAME`` or ``file:path``: then the environment variable or the file holds the text, on
    the driver and on every worker, and is read again for each file. A value that may be a secret must be given in this
    way, so that neither the program, nor a plan, nor a message holds it.
    """

    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str] | None) -> "Storage":
        """Return the options as given by a user. Raises TopologyError if one is not text, or holds a secret.

        >>> Storage.of({"region": "eu-central-1", "secret_access_key": "env:MY_SECRET"}).shown()
        {'region': 'eu-central-1', 'secret_access_key': 'env:MY_SECRET'}
        """
        if not isinstance(options or {}, Mapping):
            raise TopologyError(f"FileSpout: storage={type(options).__name__}: expected options by name, as a dict")
        for name, value in (options or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TopologyError(
                    f"FileSpout: storage[{name!r}] is of type {type(value).__name__}; names and values are texts, "
                    f'such as "true"'
                )
            if value in SOURCES or (name not in _OPEN and not value.startswith(SOURCES)):
                raise TopologyError(
                    f'FileSpout: storage[{name!r}] may be a secret: write "env:NAME" or "file:path", and let the '
                    f"environment variable or the file hold it, on the driver and on every worker. Only these options "
                    f"are written down: {', '.join(sorted(_OPEN))}"
                )
            if name == "endpoint" and "@" in value:
                raise TopologyError("FileSpout: storage['endpoint'] holds a user or password; give them as own options")
        return cls(tuple(sorted((options or {}).items())))

    def shown(self) -> dict[str, str]:
        """Return the options as they were given, without secrets."""
        return dict(self.options)

    def read(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the options of the store and those of its HTTP client, with their values read.

        Raises SourceUnreadableError if a variable or file is missing; the message never shows a content.
        """
        values = {name: _value(name, value) for name, value in self.options}
        client = {name: values.pop(name) for name in _OF_CLIENT if name in values}
        if values.get("endpoint", "").startswith("http://"):
            client.setdefault("allow_http", "true")
        return values, client


def _value(name: str, value: str) -> str:
    return read_secret(
        f"storage[{name!r}]",
        value,
        lambda problem: SourceUnreadableError(
            f"FileSpout: {problem}; it must be there for the driver and for every worker"
        ),
    )
