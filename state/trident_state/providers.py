"""stateProvider: a state selected by the name of its provider and a JSON configuration, as in Storm."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import quote

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.short_texts import brief, typed_brief
from trident_state.memory import MemoryMapState
from trident_state.redis import RedisMapState
from trident_state.relational import PostgresMapState, SqliteMapState
from trident_state.store import StateFactory

_SERIALIZERS = {
    "keyClass": "the type of the key is set by keyFields of statefulEach",
    "valueClass": "the type of the value is set by valueType of statefulEach",
    "keySerializerClass": "keys are encoded by their types, so that other programs can read them",
    "valueSerializerClass": "values are encoded by their types; to use another serializer declare "
    "valueType='binary', and put and get its bytes",
}
"""Keys of Storm's configuration that have no effect here, each with the reason."""


def stateProvider(provider: str | None = None, config: str | Mapping[str, Any] | None = None) -> StateFactory:
    """Return the opaque state of a provider, for `statefulEach`, `persistentAggregate` and the like.

    Meaning: Storm's ``topology.state.provider`` and ``topology.state.provider.config``.

    Parameters
    ----------
    provider : str, optional
        ``"memory"`` (omitted: this), ``"redis"``, ``"sqlite"`` or ``"postgres"``; or the name of Storm's class,
        ``"org.apache.storm.redis.state.RedisKeyValueStateProvider"``; or the dotted name of a callable,
        ``"shop.states.provider"``, which gets the configuration as a dict and returns a state factory. A state in
        memory survives its run only in a checkpoint; a start without one logs a warning.
    config : str or dict, optional
        JSON, or the dict that it describes. For Redis as in Storm: ``{"jedisPoolConfig": {"host": "localhost", "port":
        6379, "timeout": 2000, "database": 0, "password": "..."}}``, with these defaults and no password; `timeout` is
        in milliseconds. For SQLite ``{"path": ...}``, for PostgreSQL ``{"url": ...}``, for memory nothing.

    Raises
    ------
    TopologyError
        The provider is unknown, or its configuration has an unknown key, a missing one or a value of another type. A
        password is never shown.

    Examples
    --------
    >>> stateProvider("redis", '{"jedisPoolConfig": {"database": 3, "password": "secret"}}')
    RedisMapState.opaque('redis://:***@localhost:6379/3', connectTimeout=2.0, socketTimeout=2.0)
    >>> stateProvider()
    MemoryMapState.opaque()
    """
    name = "memory" if provider is None else provider
    if not isinstance(name, str):
        raise TopologyError(f"provider {typed_brief(name)}: expected a name, such as 'redis'")
    settings = _read(name, config)
    make = _PROVIDERS.get(name) or _imported(name)
    factory = make(settings)
    if not all(hasattr(factory, attribute) for attribute in ("kind", "survives", "open")):
        raise TopologyError(f"state provider {name!r} returned {typed_brief(factory)}: expected a state factory")
    return factory


def _read(name: str, config: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the configuration as a dict. Errors do not show its content, because it may hold a password."""
    expected = 'expected a JSON object, such as {"jedisPoolConfig": {"host": "localhost"}}'
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except json.JSONDecodeError as error:
            at = f"line {error.lineno}, column {error.colno}: {error.msg}"
            raise TopologyError(f"config of state provider {name!r} is not JSON ({at}): {expected}") from None
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise TopologyError(f"config of state provider {name!r} is of type {type(config).__name__}: {expected}")
    return dict(config)


def _imported(name: str) -> Callable[[dict[str, Any]], Any]:
    """Return the callable of a dotted name."""
    module, _, attribute = name.rpartition(".")
    known = f"the providers are {', '.join(name for name in _PROVIDERS if '.' not in name)}"
    if not module:
        raise TopologyError(f"unknown state provider {name!r}{did_you_mean(name, _PROVIDERS)}; {known}")
    try:
        make = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise TopologyError(
            f"state provider {name!r} cannot be imported ({error}); {known}, or 'package.module.callable'"
        ) from error
    if not callable(make):
        raise TopologyError(
            f"state provider {name!r} is {brief(make)}: expected a callable that takes the configuration"
        )
    return make  # type: ignore[no-any-return]


def _checked(where: str, settings: Mapping[str, Any], types: Mapping[str, type], must: str = "") -> None:
    """Raise TopologyError for an unknown key, a value of another type, or a configuration without the key `must`."""
    for key, value in settings.items():
        if key not in types:
            known = f"the keys are {', '.join(types)}" if types else "it has no keys"
            raise TopologyError(f"{where} has no key {key!r}{did_you_mean(key, types)}; {known}")
        if type(value) is not types[key]:
            raise TopologyError(f"{where}: {key} is of type {type(value).__name__}: expected {types[key].__name__}")
    if must and must not in settings:
        raise TopologyError(f"{where} lacks {must!r}")


def _memory(settings: dict[str, Any]) -> StateFactory:
    _checked("config of state provider 'memory'", settings, {})
    return MemoryMapState.opaque()


def _redis(settings: dict[str, Any]) -> StateFactory:
    where = "config of state provider 'redis'"
    for key, why in _SERIALIZERS.items():
        if settings.get(key) is not None:
            raise TopologyError(f"{where}: {key} has no effect here: {why}. Remove it")
    pool = settings.get("jedisPoolConfig", {})
    _checked(
        where,
        {**settings, "jedisPoolConfig": pool},
        {"jedisPoolConfig": dict, **dict.fromkeys(_SERIALIZERS, type(None))},
    )
    types = {"host": str, "port": int, "timeout": int, "database": int, "password": str}
    _checked(f"{where}, jedisPoolConfig", pool, types)
    pool = {"host": "localhost", "port": 6379, "timeout": 2000, "database": 0, "password": ""} | pool
    user = f":{quote(pool['password'], safe='')}@" if pool["password"] else ""
    seconds = pool["timeout"] / 1000
    try:
        return RedisMapState.opaque(
            f"redis://{user}{pool['host']}:{pool['port']}/{pool['database']}",
            connectTimeout=seconds,
            socketTimeout=seconds,
        )
    except (TypeError, ValueError) as error:
        raise TopologyError(f"{where}, jedisPoolConfig: {error}") from None


def _relational(name: str, key: str, make: Callable[[str], StateFactory], settings: dict[str, Any]) -> StateFactory:
    where = f"config of state provider {name!r}"
    _checked(where, settings, {key: str}, must=key)
    try:
        return make(settings[key])
    except (TypeError, ValueError) as error:
        raise TopologyError(f"{where}: {error}") from None


_PROVIDERS: dict[str, Callable[[dict[str, Any]], StateFactory]] = {
    "memory": _memory,
    "redis": _redis,
    "sqlite": partial(_relational, "sqlite", "path", SqliteMapState.opaque),
    "postgres": partial(_relational, "postgres", "url", PostgresMapState.opaque),
    "org.apache.storm.state.InMemoryKeyValueStateProvider": _memory,
    "org.apache.storm.redis.state.RedisKeyValueStateProvider": _redis,
}
