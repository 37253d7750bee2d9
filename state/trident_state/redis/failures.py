"""Translation of a server's errors, and of missing answers, into the errors of a state."""

from collections.abc import Iterable, Sequence
from typing import Any

import redis

from trident.base.errors import StateError, StateFullError, StateOwnedError, StateUnavailableError
from trident.base.redis_address import Address

Reply = Any

_MOVING = frozenset({redis.exceptions.MovedError, redis.exceptions.AskError, redis.exceptions.TryAgainError})
_DEPOSED = (redis.exceptions.ReadOnlyError, redis.exceptions.ClusterDownError)
_UNAVAILABLE = {"READONLY", "LOADING", "MASTERDOWN", "BUSY", "NOREPLICAS"}
_FULL = {"OOM", "MISCONF"}
_REFUSED = {"NOAUTH", "WRONGPASS"}
_FORBIDDEN = {"NOPERM", "ACL"}  # in a script: "ACL failure in script: ..."


def check(reply: Reply, where: str, address: Address) -> Reply:
    """Return a reply, or raise the state's error for it if the reply is an error."""
    if isinstance(reply, redis.RedisError):
        raise failure(where, address, reply)
    return reply


def check_all(replies: Iterable[Reply], where: str, address: Address) -> None:
    """Raise the state's error for the first reply that is an error."""
    for reply in replies:
        check(reply, where, address)


def unavailable(where: str, address: Address, reason: object) -> StateUnavailableError:
    """Return the error for a server that cannot be reached or did not answer. `reason` says why."""
    return StateUnavailableError(
        f"{where}: the server at {address.shown} does not answer ({reason}). A start fails without it, and commits "
        f"wait for it. Check the address, and that the server runs"
    )


def are_moving(replies: Sequence[Reply], inside: bool) -> bool:
    """Return whether a reply says that its command's keys are on another server of the cluster, or moving there.

    With `inside`, the elements of list replies are checked, too (the reply to EXEC, the values of many keys). A command
    with such an answer has had no effect.
    """
    kinds = set(map(type, replies))
    if not _MOVING.isdisjoint(kinds):
        return True
    if not inside or list not in kinds:
        return False
    return any(not _MOVING.isdisjoint(map(type, reply)) for reply in replies if type(reply) is list)


def are_elsewhere(replies: Sequence[Reply], inside: bool) -> bool:
    """Return whether a reply shows that requests must be sent to other servers from now on.

    It does if keys are moving, if the server is not a master (any more), or if the server was cut off from its cluster.
    """
    return are_moving(replies, inside) or any(
        isinstance(reply, _DEPOSED) or "READONLY" in _words(reply)
        for reply in replies
        if isinstance(reply, redis.ResponseError)
    )


def lack_scripts(replies: Iterable[Reply]) -> bool:
    """Return whether a reply says that the server does not have the called script. Such a call has had no effect."""
    return redis.exceptions.NoScriptError in map(type, replies)


def _words(error: redis.RedisError) -> set[str]:
    """Return all words of an error's message. The error's code is among them, usually as the first.

    The code is the first word, but if the error came from a script, Redis 6.2 puts its code into the middle:
    ``ERR Error running script (...): @user_script: 50: -READONLY You can't ...``.
    """
    return {word.lstrip("-") for word in str(error).replace(":", " ").split()}


def failure(where: str, address: Address, error: redis.RedisError) -> StateError:
    """Return the state's error for an error that the server at `address` answered."""
    said, words = str(error), _words(error)
    if type(error) in _MOVING:
        return StateUnavailableError(
            f"{where}: the cluster at {address.shown} is moving keys of the state from one server to another ({said}); "
            f"commits wait until that is done"
        )
    if isinstance(error, _DEPOSED) or words & _UNAVAILABLE:
        return StateUnavailableError(
            f"{where}: the server at {address.shown} is unavailable now ({said}); commits wait until it is "
            f"available, or until another master replaces it"
        )
    if isinstance(error, redis.exceptions.OutOfMemoryError) or words & _FULL:
        return StateFullError(
            f"{where}: the server at {address.shown} is full ({said}). It accepted no part of the write, and commits "
            f"wait. Raise its maxmemory, or free memory or disk"
        )
    if "WRONGTYPE" in words:
        return StateOwnedError(
            f"{where}: another program wrote a key under this state's name at {address.shown} ({said}). Choose "
            f"another prefix, or move that key away"
        )
    if words & _FORBIDDEN or isinstance(error, redis.exceptions.NoPermissionError):
        return StateError(
            f"{where}: the server at {address.shown} denies permission ({said}). Grant it to the user; the guide to "
            f"state lists the permissions that a topology, a reader and listStates need"
        )
    if words & _REFUSED or isinstance(error, redis.AuthenticationError):
        return StateError(
            f"{where}: the server at {address.shown} rejects the login ({said}). Check user and password in the url"
        )
    return StateError(f"{where}: the server at {address.shown} answered {said}")
