"""The options of an object store: its address, and references to its credentials.

The objects here never hold a secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trident.base.errors import TopologyError
from trident.base.secret_references import SOURCES, read_secret

_OPEN = frozenset(
    {
        "access_key_id",
        "account_name",
        "allow_http",
        "application_credentials",
        "conditional_put",
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
"""The options whose values may be written into a program: none of them is a secret."""

_OF_CLIENT = ("allow_http", "connect_timeout", "timeout")

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Storage:
    """The options of an object store, by name. It is picklable, because it is sent to workers.

    A value is a text, or ``env:NAME`` or ``file:path``: then the environment variable or the file holds the text, on
    the driver and on every worker, and is read again for each file. A value that may be a secret must be given in this
    way, so that neither the program, nor a plan, nor a message holds it.
    """

    options: Options = ()
    argument: str = field(default="storage", repr=False, compare=False)
    """The name of the user's argument that gave the options, for messages."""

    @classmethod
    def of(cls, options: Mapping[str, str] | None, argument: str = "storage") -> "Storage":
        """Return the options that a user gave. Raises TopologyError if a value is not a text, or could be a secret.

        >>> Storage.of({"region": "eu-central-1", "secret_access_key": "env:MY_SECRET"}).shown()
        {'region': 'eu-central-1', 'secret_access_key': 'env:MY_SECRET'}
        """
        if not isinstance(options or {}, Mapping):
            raise TopologyError(f"{argument}={type(options).__name__}: expected options by name, as a dict")
        for name, value in (options or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TopologyError(
                    f"{argument}[{name!r}] is of type {type(value).__name__}; names and values are strings, such as "
                    f'"true"'
                )
            if value in SOURCES or (name not in _OPEN and not value.startswith(SOURCES)):
                raise TopologyError(
                    f'{argument}[{name!r}] may be a secret: write "env:NAME" or "file:path", and let the '
                    f"environment variable or the file hold it, on the driver and on every worker. Only these "
                    f"options are stored: {', '.join(sorted(_OPEN))}"
                )
            if name == "endpoint" and "@" in value:
                raise TopologyError(
                    f"{argument}['endpoint'] contains a user or password; give these as separate options"
                )
        return cls(tuple(sorted((options or {}).items())), argument)

    def shown(self) -> dict[str, str]:
        """Return the options as they were given, without secrets."""
        return dict(self.options)

    def read(self, error: Callable[[str], Exception]) -> tuple[Options, Options]:
        """Return the options of the store and the options of its HTTP client, sorted.

        Values such as ``env:NAME`` are read from the variable or file.

        Raises `error` with a message if a variable or file is missing. No message shows its content.
        """

        def unread(problem: str) -> Exception:
            return error(f"{problem}; the driver and every worker need it")

        values = {name: read_secret(f"{self.argument}[{name!r}]", value, unread) for name, value in self.options}
        client = {name: values.pop(name) for name in _OF_CLIENT if name in values}
        if values.get("endpoint", "").startswith("http://"):
            client.setdefault("allow_http", "true")
        return tuple(sorted(values.items())), tuple(sorted(client.items()))
