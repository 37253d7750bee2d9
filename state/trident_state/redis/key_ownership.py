"""Inspection of a server's keys under a state's names, before any change: the state's own keys, foreign keys, or none.

A key is ours if this library wrote it for this state, and foreign otherwise.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from trident.base.errors import StateOwnedError, StateShapeError
from trident_state.redis.command_routing import Links, Reply
from trident_state.redis.layout import Layout
from trident_state.redis.meta import FORMAT, Meta, parse_meta, read_meta
from trident_state.redis.wire import bulks, command
from trident_state.state_shape import StateIdentity, StateKind
from trident_state.store_messages import GroupStatus, StoreReport
from trident_state.write_checks import check_unchanged_option

T = TypeVar("T")


class Inspector:
    """The inspection of all keys of one state.

    `layout` is the declared layout; after a `report` it is the layout with which the state was created.
    """

    def __init__(self, links: Links, where: str, identity: StateIdentity, form: str, layout: Layout) -> None:
        self._links, self._where, self._identity, self._form, self.layout = links, where, identity, form, layout

    def report(self) -> StoreReport:
        """Return the server's record of the state.

        Raises StateOwnedError if a key is foreign, StateShapeError if the state was created with other options.
        """
        return _twice_if_foreign(self._report)

    def stored_layouts(self) -> list[Layout]:
        """Return the layouts of everything that the server stores of the state, in order to delete it.

        They may differ from the declared layout. There are several if a part of the state was rewound to a time when
        it had another layout. Raises StateOwnedError if a key is foreign.
        """
        return _twice_if_foreign(self._stored_layouts)

    def _report(self) -> StoreReport:
        layout, names = self.layout, self.layout.all_metas
        # errors are returned as replies: for a key that is not a hash, the reply to TYPE gives the better message
        replies = self._links.exchange(inspection_commands(layout), errors=True)
        kinds, buckets, read = replies[: len(names)], replies[len(names) : -len(names)], replies[-len(names) :]
        metas = self._metas(names, kinds, read)
        present = [meta for meta in metas if meta is not None]
        for meta in present:
            check_unchanged_option(self._where, "values", meta.values, self._form)
            check_unchanged_option(self._where, "groups", meta.groups, str(layout.groups))
        if present:
            self.layout = layout.with_buckets(present[0].bucket_count(self._where))
        if self.layout is not layout:
            buckets = self._links.exchange(_kinds(self.layout.all_buckets))
        filled = self._hashes(self.layout.all_buckets, buckets)
        if not present:
            self._check_empty(filled)
        nothing = GroupStatus(None, None, None)
        groups = tuple(nothing if meta is None else meta.status(self._where) for meta in metas)
        # the state is absent, or a driver died while it created the groups, which it does from the last to the first
        if metas[0] is None and all(map(self._unused, present)):
            return StoreReport(None, None, None, tuple(GroupStatus(group.lease, None, None) for group in groups))
        # if a group belongs to another log, report that group, because the start has to refuse it
        meta = next((meta for meta in present if meta.log != self._identity.log), present[0])
        kind = StateKind(meta.kind) if meta.kind else None
        return StoreReport(meta.identity, meta.fingerprint, kind, groups, meta.began)

    def _unused(self, meta: Meta) -> bool:
        """Return whether a group has had no batch since its creation by a driver of this log, or of an unknown log."""
        ours = self._identity.log in ("", meta.log)
        return ours and meta.keys == "0" and meta.open is None and meta.marker == meta.birth

    def _stored_layouts(self) -> list[Layout]:
        layout = self.layout
        metas = self._present_metas(layout.all_metas) or self._present_metas([layout.other_meta()])
        counts = [(meta.group_count(self._where), meta.bucket_count(self._where)) for meta in metas]
        per_group = max((buckets // groups for groups, buckets in counts), default=layout.per_group)
        group_counts = {groups for groups, _ in counts} or {layout.groups}
        layouts = [replace(layout, groups=groups, buckets=groups * per_group) for groups in sorted(group_counts)]
        for stored in layouts:
            filled = self._hashes(stored.all_buckets, self._links.exchange(_kinds(stored.all_buckets)))
            if not metas:
                self._check_empty(filled)
        return layouts

    def _present_metas(self, names: list[bytes]) -> list[Meta]:
        """Return the meta hashes that exist under the given names."""
        commands = [*_kinds(names), *[read_meta(bulks([name])) for name in names]]
        replies = self._links.exchange(commands, errors=True)
        kinds, read = replies[: len(names)], replies[len(names) :]
        return [meta for meta in self._metas(names, kinds, read) if meta is not None]

    def _metas(self, names: list[bytes], kinds: list[Reply], read: list[Reply]) -> list[Meta | None]:
        """Return the meta hash under each name, from the replies to TYPE and HMGET; None if there is no such hash."""
        present = self._hashes(names, kinds)
        return [self._meta(name, reply) if name in present else None for name, reply in zip(names, read, strict=True)]

    def _hashes(self, names: list[bytes], kinds: list[Reply]) -> set[bytes]:
        """Return which of the keys exist, from the replies to TYPE. Raises StateOwnedError if a key is not a hash."""
        self._links.check_all(kinds)
        present = set[bytes]()
        for name, kind in zip(names, kinds, strict=True):
            if kind == b"hash":
                present.add(name)
            elif kind != b"none":
                raise self._foreign(name, f"is a {kind.decode()}")
        return present

    def _meta(self, name: bytes, read: Reply) -> Meta:
        """Return the meta hash in a reply.

        Raises StateOwnedError if it is foreign, StateShapeError if it has another format.
        """
        self._links.check_all([read])
        meta = parse_meta(read)
        if meta.format is None or meta.identity is None:
            raise self._foreign(name, "is a hash that this library did not write")
        if meta.format != FORMAT:
            raise StateShapeError(
                f"{self._where}: {name.decode()!r} has format {meta.format}, this version reads format {FORMAT}; "
                f"use the version that wrote it, even to reset the topology"
            )
        if (meta.topology, meta.state) != (self._identity.topology, self._identity.name):
            raise self._foreign(name, f"belongs to state {meta.state!r} of topology {meta.topology!r}")
        return meta

    def _check_empty(self, buckets: set[bytes]) -> None:
        """Refuse buckets without a meta hash, and a state that was created with another number of groups.

        Only this check reads the meta hash that such a state has. A cluster keeps it in another hash slot, which may
        be moving or without a server, so no other method should depend on it.
        """
        if buckets:
            raise self._foreign(min(buckets), "exists without the state's meta hash")
        for other in self._present_metas([self.layout.other_meta()]):
            check_unchanged_option(self._where, "groups", other.groups, str(self.layout.groups))

    def _foreign(self, name: bytes, what: str) -> StateOwnedError:
        return StateOwnedError(
            f"{self._where}: the key {name.decode()!r} {what}; nothing was changed. "
            f"Choose another prefix (RedisMapState...(prefix=...)), or remove that key if it is not needed"
        )


def inspection_commands(layout: Layout) -> list[bytes]:
    """Return a TYPE command for each meta hash and each bucket, and then a command that reads each meta hash."""
    return [*_kinds([*layout.all_metas, *layout.all_buckets]), *map(read_meta, layout.packed_metas)]


def _kinds(names: list[bytes]) -> list[bytes]:
    return [command(b"TYPE", name) for name in names]


def _twice_if_foreign(inspect: Callable[[], T]) -> T:
    """Call `inspect` and return its result. If it finds foreign keys, call it a second time.

    Another driver may have created the state between two commands of the first inspection.
    """
    try:
        return inspect()
    except StateOwnedError:
        return inspect()
