"""What lies in a state's place before anything is touched: ours, nothing, or something foreign."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from trident.base.errors import StateOwnedError, StateShapeError
from trident_state.checks import check_as_created
from trident_state.redis.command_routing import Links, Reply
from trident_state.redis.layout import Layout
from trident_state.redis.meta import FORMAT, Meta, parse_meta, read_meta
from trident_state.redis.wire import bulks, command
from trident_state.store import GroupStatus, StateIdentity, StateKind, StoreReport

T = TypeVar("T")


class Findings:
    """A look at every key of a state's place. `layout`: as it is declared, and after a report as it was created."""

    def __init__(self, links: Links, where: str, identity: StateIdentity, form: str, layout: Layout) -> None:
        self._links, self._where, self._identity, self._form, self.layout = links, where, identity, form, layout

    def report(self) -> StoreReport:
        """What is there. Raises StateOwnedError for what is not ours, StateShapeError for another layout of ours."""
        return _seen_whole(self._report)

    def layouts(self) -> list[Layout]:
        """How what is there was created, for who takes it away: that need not be as it is declared, and where a part
        fell back it is not alike in all of them. Raises StateOwnedError for what is not ours."""
        return _seen_whole(self._layouts)

    def _report(self) -> StoreReport:
        layout, names = self.layout, self.layout.all_metas
        replies = self._links.exchange(looks(layout), errors=True)  # where it is no hash, its kind says it better
        kinds, buckets, read = replies[: len(names)], replies[len(names) : -len(names)], replies[-len(names) :]
        metas = self._metas(names, kinds, read)
        found = [meta for meta in metas if meta is not None]
        for meta in found:
            check_as_created(self._where, "values", meta.values, self._form)
            check_as_created(self._where, "groups", meta.groups, str(layout.groups))
        if found:
            self.layout = layout.with_buckets(found[0].bucket_count(self._where))
        if self.layout is not layout:
            buckets = self._links.exchange(_kinds(self.layout.all_buckets))
        filled = self._hashes(self.layout.all_buckets, buckets)
        if not found:
            self._check_empty(filled)
        nothing = GroupStatus(None, None, None)
        groups = tuple(nothing if meta is None else meta.status(self._where) for meta in metas)
        if metas[0] is None and all(map(self._unused, found)):  # or half-founded, by a driver that died over it
            return StoreReport(None, None, None, tuple(GroupStatus(group.lease, None, None) for group in groups))
        told = next((meta for meta in found if meta.log != self._identity.log), found[0])  # none may be another log's
        return StoreReport(told.identity, told.fingerprint, StateKind(told.kind) if told.kind else None, groups)

    def _unused(self, meta: Meta) -> bool:
        """Whether no batch came to this group since a driver of this log founded it (of any, to who has no log)."""
        ours = self._identity.log in ("", meta.log)
        return ours and meta.keys == "0" and meta.open is None and meta.marker == meta.birth

    def _layouts(self) -> list[Layout]:
        layout = self.layout
        found = self._found(layout.all_metas) or self._found([layout.other_meta()])
        numbers = [(meta.group_count(self._where), meta.bucket_count(self._where)) for meta in found]
        most = max((buckets // groups for groups, buckets in numbers), default=layout.per_group)
        told = {groups for groups, _ in numbers} or {layout.groups}
        layouts = [replace(layout, groups=groups, buckets=groups * most) for groups in sorted(told)]
        for each in layouts:
            filled = self._hashes(each.all_buckets, self._links.exchange(_kinds(each.all_buckets)))
            if not found:
                self._check_empty(filled)
        return layouts

    def _found(self, names: list[bytes]) -> list[Meta]:
        """The meta hashes that are there under these names."""
        asked = [*_kinds(names), *[read_meta(bulks([name])) for name in names]]
        replies = self._links.exchange(asked, errors=True)
        kinds, read = replies[: len(names)], replies[len(names) :]
        return [meta for meta in self._metas(names, kinds, read) if meta is not None]

    def _metas(self, names: list[bytes], kinds: list[Reply], read: list[Reply]) -> list[Meta | None]:
        """Meta hashes by what was answered of each name, None where there is none."""
        there = self._hashes(names, kinds)
        return [self._meta(name, reply) if name in there else None for name, reply in zip(names, read, strict=True)]

    def _hashes(self, names: list[bytes], kinds: list[Reply]) -> set[bytes]:
        """Which of these keys are there, by what TYPE says of them; StateOwnedError if one is no hash."""
        self._links.check_all(kinds)
        there = set[bytes]()
        for name, kind in zip(names, kinds, strict=True):
            if kind == b"hash":
                there.add(name)
            elif kind != b"none":
                raise self._foreign(name, f"is a {kind.decode()}")
        return there

    def _meta(self, name: bytes, read: Reply) -> Meta:
        """A meta hash that is ours."""
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

    def _check_empty(self, there: set[bytes]) -> None:
        """No meta hash: then no bucket either, and none of the same state in another number of groups. Nobody else is
        to ask for that one: a cluster keeps it in another slot, which may be on its way or gone."""
        if there:
            raise self._foreign(min(there), "is there without the state's meta hash")
        for other in self._found([self.layout.other_meta()]):
            check_as_created(self._where, "groups", other.groups, str(self.layout.groups))

    def _foreign(self, name: bytes, what: str) -> StateOwnedError:
        return StateOwnedError(
            f"{self._where}: the key {name.decode()!r} {what}; nothing was touched. "
            f"Choose another prefix (RedisMapState...(prefix=...)), or remove that key if nobody needs it"
        )


def looks(layout: Layout) -> list[bytes]:
    """What asks for the kinds of the meta hashes and of the buckets; then for what the meta hashes hold."""
    return [*_kinds([*layout.all_metas, *layout.all_buckets]), *map(read_meta, layout.packed_metas)]


def _kinds(names: list[bytes]) -> list[bytes]:
    return [command(b"TYPE", name) for name in names]


def _seen_whole(look: Callable[[], T]) -> T:
    """Looks again at what seemed foreign: another driver may have founded the state in between."""
    try:
        return look()
    except StateOwnedError:
        return look()
