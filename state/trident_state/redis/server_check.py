"""The check that a server can keep a state: its version, role and settings."""

from trident.base.errors import StateError, StateUnavailableError

OLDEST = (6, 2)


def parse_info(text: bytes) -> dict[str, str]:
    r"""Return the fields of an INFO reply.

    >>> parse_info(b"# Server\r\nredis_version:7.2.4\r\n")["redis_version"]
    '7.2.4'
    """
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").split("\r\n") if line[:1] != "#")
    return {name: value for name, colon, value in lines if colon}


def check_server(info: dict[str, str], where: str, server: str) -> tuple[str, ...]:
    """Refuse a server that cannot keep a state; return warnings about settings that should be changed.

    `info` holds the fields of the server's reply to INFO; `where` begins each message, and `server` names the server
    in it. Raises StateUnavailableError if the server is a replica or still loads its data (wait, or fail over), and
    StateError if it is too old or may evict keys.
    """
    version = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2] if part.isdigit())
    if version < OLDEST:
        raise StateError(
            f"{where}: the server at {server} is version {info.get('redis_version', 'unknown')}; 6.2 or newer is needed"
        )
    if info.get("role", "master") != "master":
        raise StateUnavailableError(
            f"{where}: the server at {server} is a {info['role']}; the url must lead to its master"
        )
    if info.get("loading") == "1":
        raise StateUnavailableError(f"{where}: the server at {server} is still loading its data")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not policy.startswith("volatile-"):
        raise StateError(
            f"{where}: the server at {server} may evict keys (maxmemory-policy {policy}); set it to noeviction, or "
            f"use another server"
        )
    return _warnings(info, where, server)


def _warnings(info: dict[str, str], where: str, server: str) -> tuple[str, ...]:
    if info.get("aof_enabled") == "1":
        return ()
    return (
        f"{where}: appendonly is off at {server}: a crash of the server loses the writes since its last snapshot. The "
        f"driver then restores them from the batches that the log still has; set appendonly yes to keep the writes",
    )
