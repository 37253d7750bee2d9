"""TLS of a server: its certificate, and the certificates that clients must bring."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trident.base.errors import TopologyError


@dataclass(frozen=True, slots=True)
class TLS:
    """The certificate of a server, and who signs those of its clients. Files are in the PEM format.

    Parameters
    ----------
    cert : path
        The server's certificate, and behind it those that lead to a known authority.
    key : path
        The key of the certificate, without a password.
    clientCA : path, optional
        The authority that signs the certificates of clients. If it is given, every client must bring one, also for
        ``/healthz``; who has none gets no connection.

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
        """Whether every client proves who it is."""
        return self.clientCA is not None

    def check(self) -> None:
        """Raise TopologyError if the files are missing, or hold no certificates and no key that fits."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # The empty password: without one, Python would ask for it on the terminal.
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
        """Return what uvicorn's configuration calls these files."""
        options: dict[str, Any] = {"ssl_certfile": str(self.cert), "ssl_keyfile": str(self.key)}
        if self.clientCA is not None:
            options |= {"ssl_ca_certs": str(self.clientCA), "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return options


def _why(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(reason).replace("_", " ").lower()
