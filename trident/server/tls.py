"""TLS of a server: its certificate, and the certificates that clients must present."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trident.base.errors import TopologyError


@dataclass(frozen=True, slots=True)
class TLS:
    """The certificate of a server, and the authority that signs its clients' certificates. Files are in PEM format.

    Parameters
    ----------
    cert : path
        The server's certificate, followed by the certificates that lead to a known authority.
    key : path
        The key of the certificate, without a password.
    clientCA : path, optional
        The authority that signs the certificates of clients. If it is given, every client must present a certificate,
        also for ``/healthz``; a client without a certificate gets no connection.

    Examples
    --------
    >>> TLS("server.pem", "server.key", clientCA="clients.pem").provesClients
    True
    """

    cert: str | Path
    key: str | Path
    clientCA: str | Path | None = None

    @property
    def provesClients(self) -> bool:
        """Return whether every client must present a certificate."""
        return self.clientCA is not None

    def check(self) -> None:
        """Raise TopologyError if a file is missing or holds no certificate, or if the key does not match it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # An empty password, because otherwise Python would ask for a password on the terminal.
            context.load_cert_chain(self.cert, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            raise TopologyError(
                f"TLS: cert={str(self.cert)!r} and key={str(self.key)!r}: {_why(error)}; expected a certificate and "
                f"its key without a password, as PEM files"
            ) from None
        if self.clientCA is not None:
            try:
                context.load_verify_locations(self.clientCA)
            except (OSError, ssl.SSLError) as error:
                raise TopologyError(
                    f"TLS: clientCA={str(self.clientCA)!r}: {_why(error)}; expected certificates as a PEM file"
                ) from None

    def uvicorn_options(self) -> dict[str, Any]:
        """Return these files as the options of uvicorn's configuration."""
        options: dict[str, Any] = {"ssl_certfile": str(self.cert), "ssl_keyfile": str(self.key)}
        if self.clientCA is not None:
            options |= {"ssl_ca_certs": str(self.clientCA), "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return options


def _why(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(reason).replace("_", " ").lower()
