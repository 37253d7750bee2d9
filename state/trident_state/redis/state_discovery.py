"""States on a server, found by name and without a topology: a state's meta hashes describe it completely."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count

from trident.base.discard_advice import RESTORE
from trident.base.errors import StateCorruptError, StateOwnedError, StateShapeError, StateUnavailableError
from trident.base.redis_address import Address
from trident_state.fingerprint import read_fingerprint
from trident_state.incarnation import Incarnation
from trident_state.records.forms import ValueForm
from trident_state.redis.cluster import Servers
from trident_state.redis.command_routing import Links
from trident_state.redis.connection import Connection
from trident_state.redis.failures import check
from trident_state.redis.layout import Layout
from trident_state.redis.meta import FORMAT, Meta, parse_meta, read_meta
from trident_state.redis.store import RedisStore
from trident_state.redis.wire import bulks, command
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape

_SCAN_COUNT = 1000


@dataclass(frozen=True)
class FoundState:
    """A state that was found on a server, as one of its meta hashes describes it."""

    address: Address
    prefix: str
    identity: StateIdentity
    fingerprint: str
    kind: StateKind
    form: ValueForm
    buckets: int
    groups: int
    marker: int | None
    epoch: int
    birth: int | None

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.identity, self.birth, self.fingerprint, self.kind, self.epoch)

    def open(self, combine: Combine) -> RedisStore:
        """Return the store of the state. Only a writer uses `combine`; a reader may pass any Combine."""
        fingerprint = read_fingerprint(self.fingerprint)
        layout = Layout(self.prefix, self.identity, self.buckets, self.groups)
        shape = StateShape(fingerprint.keys, fingerprint.value, combine)
        return RedisStore(self.identity, shape, self.kind, self.address, layout, self.form)


def find_state(address: Address, prefix: str, topology: str, state: str) -> FoundState | None:
    """Return the state with the given name; None if it does not exist. Raises StateError or a subclass on failure."""
    where = f"state {state!r}"
    servers = Servers(address, where)
    failed: StateUnavailableError | None = None
    with closing(Links(servers, address.socket_timeout)) as links:
        # the first meta hash has one name in a state of one group, and another in a state of several groups; a cluster
        # may keep the two names on two servers, and only one of them is needed: so one failure is not fatal
        for groups in (1, 2):
            name = Layout(prefix, StateIdentity(topology, state, ""), 2, groups).meta(0)
            try:
                meta = parse_meta(links.exchange([read_meta(bulks([name]))])[0])
            except StateUnavailableError as error:
                if not servers.cluster:
                    raise
                failed = failed or error
                continue
            if not meta.absent:
                return _found_state(address, prefix, name, meta)
    if failed is not None:
        raise failed
    return None


def find_rest(address: Address, prefix: str, topology: str, state: str) -> FoundState | None:
    """Return the state with the given name, found by the meta hash of any group, because the first group may be lost.

    The user of the server needs the right to SCAN. Errors are those of `find_state`.
    """
    where = f"state {state!r}"
    with closing(Links(Servers(address, where), address.socket_timeout)) as links:
        for name in _scan(Servers(address, where), where, f"{prefix}:{{{topology}/{state}/*}}:m"):
            meta = parse_meta(links.exchange([read_meta(bulks([name]))])[0])
            if not meta.absent:
                return _found_state(address, prefix, name, meta)
    return None


def find_states(address: Address, prefix: str, topology: str | None = None) -> Iterator[FoundState]:
    """Yield all states under a prefix, of one topology if it is given. The server's user needs the right to SCAN."""
    where = f"the states under {prefix!r}"
    Layout(prefix, StateIdentity(topology or "any", "any", ""), 1, 1)  # refuses an invalid prefix
    with closing(Links(Servers(address, where), address.socket_timeout)) as links:
        names = sorted(_scan(Servers(address, where), where, f"{prefix}:{{{topology or '*'}/*}}:m"))
        replies = links.exchange([read_meta(bulks([name])) for name in names])
    for name, meta in zip(names, map(parse_meta, replies), strict=True):
        first = name.endswith((b"/0}:m",)) or meta.groups == "1"
        if not meta.absent and meta.identity is not None and first:
            yield _found_state(address, prefix, name, meta)


def _scan(servers: Servers, where: str, pattern: str) -> Iterator[bytes]:
    """Yield the names that match, each once.

    A key may move from a server that is read later to a server that was read before. So the servers of a cluster are
    read again until they have no other name.
    """
    found = set[bytes]()
    for readings in count(1):
        slots, known = servers.slots(), len(found)
        for name in chain.from_iterable(_scan_server(server, where, pattern) for server in slots.servers):
            if name not in found:
                found.add(name)
                yield name
        if not slots.cluster or (readings > 1 and len(found) == known):
            return
        servers.forget(slots)


def _scan_server(server: Address, where: str, pattern: str) -> Iterator[bytes]:
    """Yield the names on one server. The cursor is of this server's process, and so is the one connection."""
    with closing(Connection(server, where)) as connection:
        cursor = b"0"
        while True:
            scan = command(b"SCAN", cursor, b"MATCH", pattern.encode(), b"COUNT", b"%d" % _SCAN_COUNT)
            cursor, names = check(connection.ask(scan)[0], where, server)
            yield from names
            if cursor == b"0":
                break


def _found_state(address: Address, prefix: str, name: bytes, meta: Meta) -> FoundState:
    shown = repr(name.decode())
    if meta.format is None or meta.identity is None:
        raise StateOwnedError(f"the key {shown} is a hash that this library did not write")
    where = f"state {meta.state!r}"
    if meta.format != FORMAT:
        raise StateShapeError(
            f"{where}: {shown} has format {meta.format}, this version reads format {FORMAT}; use the version that "
            f"wrote it"
        )
    try:
        kind, status = StateKind(meta.kind), meta.status(where)
        if meta.fingerprint is None or meta.values not in ("packed", "json") or status.lease is None:
            raise ValueError
    except ValueError:
        raise StateCorruptError(
            f"{where}: its meta hash {shown} lacks a field, or holds an invalid one. {RESTORE}"
        ) from None
    form: ValueForm = "json" if meta.values == "json" else "packed"
    groups, buckets = meta.group_count(where), meta.bucket_count(where)
    at = status.marker, status.lease.epoch, meta.began
    return FoundState(address, prefix, meta.identity, meta.fingerprint, kind, form, buckets, groups, *at)
