"""The options of ``spark.read.format("trident")``: texts, as Spark passes them, that locate and qualify a state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from trident.access.key_filters import distinct_keys
from trident.access.locations import read_location
from trident.access.opened_state import OpenedState
from trident.access.opening import open_unread
from trident.base.errors import StateKeyError, TopologyError
from trident.base.json_values import read_json
from trident.base.names import brief, did_you_mean
from trident.base.redis_address import redacted
from trident.configuration.value_kinds import pairs_of
from trident.log import RedisLog
from trident.log.snapshot_home import NoHome
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.committed_reads import Isolation
from trident.reads.key_tables import key_table
from trident.reads.keys_from_json import key_of_json
from trident_state.delta import DeltaMapState
from trident_state.relational import PostgresMapState, SqliteMapState
from trident_state.state_shape import StateIdentity, StateKind, StateShape, replacing
from trident_state.store import StateFactory

_WHERE = 'spark.read.format("trident")'
_TABLES: Mapping[str, Callable[[StateKind, str, dict[str, str]], StateFactory]] = {
    "sqlite": lambda kind, place, _: SqliteMapState(kind, place),
    "postgresUrl": lambda kind, place, _: PostgresMapState(kind, place),
    "delta": lambda kind, place, storage: DeltaMapState(kind, place, tuple(storage.items())),
}
"""The factories of states whose tables record their kind, by the option that locates them."""
_SECRETS = ("url", "logUrl", "postgresUrl", "filesStorage")
_PATHS = ("checkpoint", "sqlite", "delta")
_LOCATIONS = ("checkpoint", "url", "logUrl", "sqlite", "postgresUrl", "delta")


@dataclass(frozen=True)
class StateOptions:
    """The options of one read, checked. `path` is the argument of ``load``: the name of the state.

    Paths are absolute, because Spark reads the options in another process, whose working directory is that in which
    the session began, and workers have other ones. A relative path is relative to the folder `base`. No option holds a
    password: Spark shows the options of a read in plans, and sends them to its workers.
    """

    path: str = ""
    topology: str | None = None
    checkpoint: str | None = None
    url: str | None = None
    prefix: str = "trident"
    logUrl: str | None = None
    logPrefix: str = "trident"
    filesLocation: str | None = None
    filesStorage: str | None = None
    sqlite: str | None = None
    postgresUrl: str | None = None
    delta: str | None = None
    base: str | None = None
    isolation: Isolation = "committed"
    asOf: AsOfBatch | None = None
    keys: str | None = None
    pushdown: bool = False
    partitions: int | None = None
    txidColumn: str | None = None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self:
        """Return Spark's options, checked. Spark does not distinguish small and capital letters in their names.

        Raises TopologyError for an unknown option, for a password, and if the state or its location is missing.
        """
        given = _by_own_names(options, [field.name for field in fields(cls)])
        for name in _SECRETS:
            _check_no_password(name, given.get(name, ""))
        if not given.get("path"):
            raise TopologyError(f'{_WHERE}: name the state, such as load("counts")')
        if not any(name in given for name in _LOCATIONS):
            raise TopologyError(f"{_WHERE}: give the location of the state by one of {', '.join(_LOCATIONS)}")
        given |= {name: _absolute(name, given[name], given.get("base")) for name in _PATHS if name in given}
        return cls(**{name: _READ[name](name, text) if name in _READ else text for name, text in given.items()})

    def open(self) -> OpenedState:
        """Open the state, without a read of its values. Raises the errors of `openState`."""
        topology = self.topology or self._only_topology()
        factory = self._factory(topology)
        if factory is not None:
            return open_unread(read_location(None, None, None, self.prefix, factory), topology, *self._qualified())
        log = None if self.logUrl is None else RedisLog(self.logUrl, self.logPrefix)
        storage = None if self.filesStorage is None else pairs_of(self.filesStorage)
        location = read_location(self.checkpoint, log, self.url, self.prefix, None, self.filesLocation, storage)
        return open_unread(location, topology, *self._qualified())

    def _qualified(self) -> tuple[str, None, Isolation, AsOfBatch | None]:
        return self.path, None, self.isolation, self.asOf

    def _only_topology(self) -> str:
        """Return the name of the only topology in the checkpoint. Raises TopologyError if it has several, or none."""
        checkpoint = self.checkpoint
        known = [] if checkpoint is None else read_location(checkpoint, None, None, self.prefix).topologies()
        if len(known) == 1:
            return known[0]
        shown = f"; the checkpoint has {', '.join(known)}" if known else ""
        raise TopologyError(f'{_WHERE}: name the topology of state {self.path!r} by option("topology", ...){shown}')

    def keys_of(self, fields: pa.Schema) -> pa.Table | None:
        """Return the keys that the option ``keys`` lists, a JSON list, each once; None without this option.

        Raises StateKeyError if they are not keys of these fields.
        """
        if self.keys is None:
            return None
        try:
            listed = read_json(self.keys)
        except ValueError:
            listed = None
        if not isinstance(listed, list):
            raise StateKeyError(
                f"{_WHERE}: keys={brief(self.keys)}: expected a JSON list of keys, such as " + '["dog"]'
            )
        keys = [key_of_json(key, fields, self.path) for key in listed]
        return distinct_keys(key_table(self.path, fields, keys))

    def _factory(self, topology: str) -> StateFactory | None:
        """Return the factory of a state in tables, with the kind that the tables record; None for other states."""
        storage = pairs_of(self.filesStorage or "")
        for name, factory in _TABLES.items():
            place = getattr(self, name)
            if place is not None:
                kind = self._stored_kind(factory(StateKind.OPAQUE, place, storage), topology)
                return factory(kind, place, storage)
        return None

    def _stored_kind(self, factory: StateFactory, topology: str) -> StateKind:
        nothing = StateShape(pa.schema([]), pa.null(), replacing())
        store = factory.open(StateIdentity(topology, self.path, ""), nothing, NoHome())
        try:
            return store.report().kind or factory.kind
        finally:
            store.close()


def _check_no_password(name: str, value: str) -> None:
    if redacted(value) != value:
        raise TopologyError(
            f"{_WHERE}: {name}={redacted(value)!r} contains a password, which Spark would show in plans and send to "
            f"its workers; write env:NAME or file:path, and let each worker read the variable or file"
        )


def _by_own_names(options: Mapping[str, str], known: list[str]) -> dict[str, Any]:
    """Return options under their names with capital letters. Raises TopologyError for an unknown name."""
    by_small = {name.lower(): name for name in known}
    for name in options:
        if name.lower() not in by_small:
            offered = ", ".join(name for name in known if name != "path")
            raise TopologyError(f"{_WHERE} has no option {name!r}; it takes {offered}{did_you_mean(name, known)}")
    return {by_small[name.lower()]: text for name, text in options.items()}


def _absolute(name: str, text: str, base: str | None) -> str:
    """Return a path or a URL. Raises TopologyError for a relative path without a folder `base`."""
    path = Path(base or "", text)
    if "://" in text or path.is_absolute():
        return text if "://" in text else str(path)
    if base is not None:
        raise TopologyError(f"{_WHERE}: base={base!r}: expected an absolute path")
    raise TopologyError(
        f"{_WHERE}: {name}={text!r} is a relative path, and Spark reads it in another process, in the folder in which "
        f"the session began: give an absolute path, such as os.path.abspath({text!r}), or "
        f'option("base", os.getcwd())'
    )


def _batch(_: str, text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise TopologyError(f"{_WHERE}: {name}={text!r}: expected true or false")
    return text.lower() == "true"


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise TopologyError(f"{_WHERE}: {name}={text!r}: expected a whole number, 1 or more")
    return int(text)


_READ: Mapping[str, Callable[[str, str], Any]] = {
    "asOf": _batch,
    "partitions": _count,
    "pushdown": _flag,
}
"""How to read the texts of some options. The others remain texts."""
