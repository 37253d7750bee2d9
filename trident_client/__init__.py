"""Clients of a served topology: ``from trident_client import DRPCClient``. They need only httpx.

The package comes as ``trident-client``, and with ``trident-pyspark``, whose `trident.DRPCClient` gives the same answers
as PySpark's Rows and Arrow tables. ``docs/guide/serving.md`` describes both.

>>> from trident_client import DRPCClient
>>> DRPCClient("http://localhost:8090")
DRPCClient('http://localhost:8090')
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trident_client import errors as errors
    from trident_client.answers import ServedRows as ServedRows
    from trident_client.async_client import AsyncDRPCClient as AsyncDRPCClient
    from trident_client.async_client import AsyncServedChanges as AsyncServedChanges
    from trident_client.changes import Change as Change
    from trident_client.client import DRPCClient as DRPCClient
    from trident_client.client import ServedChanges as ServedChanges
    from trident_client.rows import Row as Row

_HOMES = {
    "AsyncDRPCClient": "async_client",
    "AsyncServedChanges": "async_client",
    "Change": "changes",
    "DRPCClient": "client",
    "Row": "rows",
    "ServedChanges": "client",
    "ServedRows": "answers",
}
"""The module of each name. They are imported when they are first used: `trident` needs only parts of this package."""

__all__ = [*sorted(_HOMES), "errors"]


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("trident_client.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}", name=name)
    return getattr(import_module(f"trident_client.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
