"""Inspection of a state's keys before anything is touched: they are ours, absent, or foreign."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from trident.base.errors import StateOwnedError, StateShapeError
from trident_state.checks import check_unchanged_option
from trident_state.messages import GroupStatus, StoreReport
from trident_state.redis.command_routing import Links, Reply
from trident_state.redis.layout import Layout
from trident_state.redis.meta import FORMAT, Meta, parse_meta, read_meta
from trident_state.redis.wire import bulks, command
from trident_state.state_shape import StateIdentity, StateKind

T = TypeVar("T")


class Inspector:
    """Inspects every key of one state. `layout` is the declared one, and after a report the one it was created with."""

    def __init__(self, links: Links, where: str, identity: StateIdentity, form: str, layout: Layout) -> None:
        self._links, self._where, self._identity, self._form, self.layout = links, where, identity, form, layout

    def report(self) -> StoreReport:
        """Return what is there.

        Raises StateOwnedError for keys that are not ours, StateShapeError for another layout of ours.
        """
        return _twice_if_foreign(self._report)

    def stored_layouts(self) -> list[Layout]:
        """Return the layouts that are actually stored, for deletion.

        They may differ from the declared one, and between groups where a part of the state fell back. Raises
        StateOwnedError for keys that are not ours.
        """
        return _twice_if_foreign(self._stored_layouts)

    def _report(self) -> StoreReport:
        layout, names = self.layout, self.layout.all_metas
        # errors as replies: for a key that is not a hash, its TYPE gives the better message
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
        # absent, or created in part by a driver that died: groups are created from the last to the first
        if metas[0] is None and all(map(self._unused, present)):
            return StoreReport(None, None, None, tuple(GroupStatus(group.lease, None, None) for group in groups))
        # a group of another log comes first: the start has to refuse it
        meta = next((meta for meta in present if meta.log != self._identity.log), present[0])
        return StoreReport(meta.identity, meta.fingerprint, StateKind(meta.kind) if meta.kind else None, groups)

    def _unused(self, meta: Meta) -> bool:
        """Return whether no batch came to this group since a driver of this log created it; without a log, of any."""
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
        """Return the meta hashes that exist under these names."""
        commands = [*_kinds(names), *[read_meta(bulks([name])) for name in names]]
        replies = self._links.exchange(commands, errors=True)
        kinds, read = replies[: len(names)], replies[len(names) :]
        return [meta for meta in self._metas(names, kinds, read) if meta is not None]

    def _metas(self, names: list[bytes], kinds: list[Reply], read: list[Reply]) -> list[Meta | None]:
        """Return the meta hash of each name by the replies of TYPE and HMGET, None where it does not exist."""
        present = self._hashes(names, kinds)
        return [self._meta(name, reply) if name in present else None for name, reply in zip(names, read, strict=True)]

    def _hashes(self, names: list[bytes], kinds: list[Reply]) -> set[bytes]:
        """Return which of these keys exist, by the replies of TYPE; raises StateOwnedError if one is not a hash."""
        self._links.check_all(kinds)
        present = set[bytes]()
        for name, kind in zip(names, kinds, strict=True):
            if kind == b"hash":
                present.add(name)
            elif kind != b"none":
                raise self._foreign(name, f"is a {kind.decode()}")
        return present

    def _meta(self, name: bytes, read: Reply) -> Meta:
        """Return a meta hash, after a check that it is ours."""
        self._links.check_all([read])
        meta = parse_meta(read)
        if meta.format is None or meta.identity is None:
            raise self._foreign(name, "is a hash that this library did not write")
        if meta.format != FORMAT:
            raise StateShapeError(
                f"{self._where}: {name.decode()!r} has format {meta.format}, this version reads format {FORMAT}; "
                f"use the version that wrote it, also to reset the topology"
            )
        if (meta.topology, meta.state) != (self._identity.topology, self._identity.name):
            raise self._foreign(name, f"belongs to state {meta.state!r} of topology {meta.topology!r}")
        return meta

    def _check_empty(self, buckets: set[bytes]) -> None:
        """Refuse buckets without a meta hash, and the same state in another number of groups.

        Only this check asks for the meta hash of another number of groups: a cluster keeps it in another slot, which
        may be moving or without a server.
        """
        if buckets:
            raise self._foreign(min(buckets), "is there without the state's meta hash")
        for other in self._present_metas([self.layout.other_meta()]):
            check_unchanged_option(self._where, "groups", other.groups, str(self.layout.groups))

    def _foreign(self, name: bytes, what: str) -> StateOwnedError:
        return StateOwnedError(
            f"{self._where}: the key {name.decode()!r} {what}; nothing was touched. "
            f"Choose another prefix (RedisMapState...(prefix=...)), or remove that key if it is not needed"
        )


def inspection_commands(layout: Layout) -> list[bytes]:
    """Return the commands for the types of meta hashes and buckets, followed by those that read the meta hashes."""
    return [*_kinds([*layout.all_metas, *layout.all_buckets]), *map(read_meta, layout.packed_metas)]


def _kinds(names: list[bytes]) -> list[bytes]:
    return [command(b"TYPE", name) for name in names]


def _twice_if_foreign(inspect: Callable[[], T]) -> T:
    """Inspect again where keys seem foreign: another driver may have created the state meanwhile."""
    try:
        return inspect()
    except StateOwnedError:
        return inspect()
