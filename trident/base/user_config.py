"""The user configuration: values from a file, the environment or a start, for spouts and operations."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, NoReturn

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.secret_references import read_secret

_SECRET = re.compile(r"secret|passw|pwd|token|credential|(access|api|private)[-_. ]?key", re.IGNORECASE)
"""The names of values that are not shown."""


class Table(dict[str, Any]):
    """A table of the user configuration: a dict that refuses changes, because other operations read it too.

    >>> prices = Table(dog=4.5)
    >>> prices["dog"] = 5
    Traceback (most recent call last):
    TypeError: the user configuration cannot be changed; dict(table) is a copy that you can change
    """

    __slots__ = ()

    def _refused(self, *_args: Any, **_keywords: Any) -> NoReturn:
        raise TypeError("the user configuration cannot be changed; dict(table) is a copy that you can change")

    __setitem__ = __delitem__ = __ior__ = _refused
    clear = pop = popitem = setdefault = update = _refused

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (dict(self),)


class UserConfig(Mapping[str, Any]):
    """The user configuration, a mapping that nothing changes: lists in it are tuples. Its text hides secrets.

    A text ``env:NAME`` or ``file:path`` means the content of that variable or file, on the machine of the driver. It is
    read when the object is made. ``file://...`` is a url, and stays as it is.

    >>> config = UserConfig({"region": "eu", "prices": {"dog": 4.5}, "api_key": "abc"})
    >>> config
    UserConfig({'region': 'eu', 'prices': {'dog': 4.5}, 'api_key': '***'})
    >>> config["prices"]["dog"], config.get("currency", "EUR")
    (4.5, 'EUR')
    >>> config["regoin"]
    Traceback (most recent call last):
    KeyError: "the user configuration has no 'regoin'; did you mean 'region'?; its keys are region, prices, api_key"
    """

    __slots__ = ("_given", "_values")

    def __init__(self, given: Mapping[str, Any] = MappingProxyType({})) -> None:
        check_user_values("user", given)
        self._given = deepcopy(dict(given))
        self._values = {key: _read(key, value) for key, value in self._given.items()}

    def __getitem__(self, key: str) -> Any:
        if key not in self._values:
            known = f"its keys are {', '.join(self._values)}" if self._values else "it is empty"
            raise KeyError(f"the user configuration has no {key!r}{did_you_mean(key, self._values)}; {known}")
        return self._values[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key; `default` if the key has none."""
        return self._values.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"UserConfig({ ({key: shown_value(key, value) for key, value in self._given.items()})!r})"


def check_user_values(where: str, values: object) -> None:
    """Raise TopologyError unless `values` is a table of the user's values; `where` begins the message."""
    if not isinstance(values, Mapping):
        raise TopologyError(f"{where}: expected a table of names and values, not a {type(values).__name__}")
    for key, value in values.items():
        if not isinstance(key, str) or not key:
            raise TopologyError(f"{where}: invalid key {key!r}: expected a name, a string that is not empty")
        if not _is_plain(value):
            raise TopologyError(
                f"{where}: {key} has a value of the type {type(value).__name__}; accepted are texts, numbers, "
                f"booleans, and lists and tables of these. Leave out a key without a value"
            )


def shown_value(key: str, value: Any) -> Any:
    """Return a value as it may be shown: stars in place of a secret.

    >>> shown_value("password", "abc"), shown_value("password", "env:MINE"), shown_value("url", "redis://me:x@host")
    ('***', 'env:MINE', 'redis://me:***@host')
    """
    if isinstance(value, Mapping):
        return {name: shown_value(f"{key}.{name}", each) for name, each in value.items()}
    if is_secret(key, value):
        return "***"
    if isinstance(value, list | tuple):
        return [shown_value(key, each) for each in value]
    if isinstance(value, str) and "://" in value:
        from trident.base.redis_address import redacted  # here, because workers need no Redis

        return redacted(value)
    return value


def is_secret(key: str, value: Any) -> bool:
    """Return whether a value is a secret according to its key, and not a reference (``env:`` or ``file:``) to one."""
    return bool(_SECRET.search(key)) and not _is_reference(value) and not isinstance(value, Mapping)


def plain_secrets(values: Mapping[str, Any]) -> list[str]:
    """Return the keys of values that would show a secret if they were stored.

    >>> plain_secrets({"token": "abc", "url": "redis://me:x@host", "of": {"password": "env:MINE"}, "n": 1})
    ['token', 'url']
    """
    return [key for key, value in values.items() if shown_value(key, value) != value]


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    return all(map(_is_plain, value)) if isinstance(value, list | tuple) else isinstance(value, str | int | float)


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("env:", "file:")) and not value.startswith("file://")


def _read(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return Table({name: _read(f"{key}.{name}", each) for name, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_read(key, each) for each in value)
    return read_secret(f"user configuration, {key}", value) if _is_reference(value) else value
