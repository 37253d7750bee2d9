"""A check that a machine accepts connections: the first check of a server that does not answer."""

import socket

SECONDS = 3.0
"""The seconds after which a server counts as unreachable."""

Endpoint = tuple[str, int]


def unreached(host: str, port: int, seconds: float = SECONDS) -> str | None:
    """Return the reason why no connection to a server can be opened; None if one can.

    >>> unreached("no-such-host.invalid", 80)
    'the name no-such-host.invalid does not resolve'
    """
    try:
        socket.create_connection((host, port), seconds).close()
    except socket.gaierror:
        return f"the name {host} does not resolve"
    except TimeoutError:
        return f"{host}:{port} did not answer within {seconds:g} s"
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return None
