"""The checks of a state's Redis servers for `trident doctor`: connection, permissions, settings."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import redis

from trident.base.errors import StateError, StateUnavailableError
from trident.base.finding import Finding, Now, clocks_apart
from trident.base.reachability import SECONDS
from trident.base.redis_address import Address
from trident_state.redis.cluster import Servers
from trident_state.redis.connection import Connection
from trident_state.redis.failures import Reply
from trident_state.redis.server_check import check_server, parse_info
from trident_state.redis.wire import command

COMMANDS = b"HSET HGET HMGET HDEL HSCAN HGETALL DEL EXISTS TYPE PEXPIRE ZADD ZREM ZRANGEBYSCORE".split()
"""One command of each kind that a driver sends; the user needs permission for all of them."""

_ASK = b"""
if not redis.acl_check_cmd then return {} end
local refused = {}
for _, name in ipairs(ARGV) do
  if not redis.acl_check_cmd(name, KEYS[1], 'a', 'b') then table.insert(refused, name) end
end
return refused
"""

_STOPS = "a start is refused, or stops with the first batch"
_RULES = "Give the user the rights in the guide, State, Redis, Rights: ACL SETUSER ... (prefix {prefix!r})"


def examine_servers(about: str, address: Address, prefix: str, now: Now) -> Iterator[Finding]:
    """Yield the faults of the servers at an address that would keep a state under names with `prefix`."""
    quick = replace(address, connect_timeout=min(SECONDS, address.connect_timeout))
    servers = Servers(quick, about)
    try:
        for server in servers.slots().servers:
            with closing(Connection(server, about)) as connection:
                yield from _examine(about, server, connection, prefix, now)
    except StateUnavailableError as error:
        todo = "Start the server, or correct host and port of the url; look at firewalls between this machine and it"
        yield Finding(about, str(error), _STOPS, todo)
    except StateError as error:
        todo = f"Correct the url, its user and its password. {_RULES.format(prefix=prefix)}"
        yield Finding(about, str(error), _STOPS, todo)


def _examine(about: str, server: Address, connection: Connection, prefix: str, now: Now) -> Iterator[Finding]:
    answer, clock = connection.ask(command(b"INFO"), command(b"TIME"))
    if isinstance(answer, redis.ResponseError):
        yield Finding(about, f"{server.shown} refuses INFO ({answer})", _STOPS, _RULES.format(prefix=prefix))
        return
    info = parse_info(answer)
    yield from _settings(about, server, info)
    yield from _memory(about, server, info)
    yield from _saved(about, server, info)
    if not isinstance(clock, redis.ResponseError):
        yield from clocks_apart(f"{about}: {server.shown}", int(clock[0]) + int(clock[1]) / 1e6, now)
    yield from _rights(about, server, connection.ask(_rights_of(prefix))[0], prefix)


def _settings(about: str, server: Address, info: dict[str, str]) -> Iterator[Finding]:
    """Apply the checks of a start (`check_server`)."""
    try:
        warnings = check_server(info, about, server.shown)
    except StateUnavailableError as error:
        todo = "Use the address of the master (for a cluster, of any server); wait while a server loads its data"
        yield Finding(about, str(error), "a start waits, and is then refused: only a master takes writes", todo)
        return
    except StateError as error:
        todo = "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; or another server"
        todo += " for the states. An old server needs an update to 6.2 or newer"
        yield Finding(about, str(error), "a start is refused: values would vanish without an error", todo)
        return
    for warning in warnings:
        todo = "redis-cli CONFIG SET appendonly yes, CONFIG SET appendfsync everysec, and the same in redis.conf"
        matters = "until the driver has written the lost values again, reads raise StateRecoveringError"
        yield Finding(about, warning, matters, todo, grave=False)


def _memory(about: str, server: Address, info: dict[str, str]) -> Iterator[Finding]:
    limit, used = int(info.get("maxmemory", "0")), int(info.get("used_memory", "0"))
    if limit and used > 0.9 * limit:
        found = f"{server.shown} uses {used / limit:.0%} of its maxmemory ({limit:,} bytes)"
        todo = "Raise it (redis-cli CONFIG SET maxmemory 4gb, and in redis.conf), or give the states ttlSecs="
        yield Finding(about, found, "a full server refuses writes: the topology then waits", todo)


def _saved(about: str, server: Address, info: dict[str, str]) -> Iterator[Finding]:
    for field, kind in (("rdb_last_bgsave_status", "snapshot"), ("aof_last_write_status", "write of the AOF")):
        if info.get(field, "ok") != "ok":
            found = f"the last {kind} of {server.shown} failed ({field}:{info[field]})"
            todo = (
                "Read the server's log, which names the file. Usually the disk is full, or its folder lacks permissions"
            )
            yield Finding(about, found, "the server refuses writes (MISCONF), or loses them with its next crash", todo)


def _rights_of(prefix: str) -> bytes:
    return command(b"EVAL", _ASK, b"1", f"{prefix}:{{trident-doctor}}:b0".encode(), *COMMANDS)


def _rights(about: str, server: Address, reply: Reply, prefix: str) -> Iterator[Finding]:
    if isinstance(reply, redis.exceptions.MovedError):  # another server of the cluster has this key, and answers
        return
    if isinstance(reply, redis.ResponseError):
        found = f"{server.shown} refuses the user a script ({reply})"
    elif reply:
        found = f"{server.shown} refuses the user {', '.join(name.decode() for name in reply)} on {prefix}:*"
    else:
        return
    yield Finding(about, found, _STOPS, _RULES.format(prefix=prefix))
