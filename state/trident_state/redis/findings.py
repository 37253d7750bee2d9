"""What lies in a state's place before anything is touched: ours, nothing, or something foreign."""

from trident.base.errors import StateOwnedError, StateShapeError
from trident_state.redis.layout import Layout
from trident_state.redis.link import Links, Reply
from trident_state.redis.meta import FORMAT, Meta, parse_meta, read_meta
from trident_state.redis.wire import bulks, command
from trident_state.store import GroupStatus, StateIdentity, StateKind, StoreReport


class Findings:
    """A look at every key of a state's place. `layout`: as it is declared, and after a report as it was created."""

    def __init__(self, links: Links, where: str, identity: StateIdentity, form: str, layout: Layout) -> None:
        self._links, self._where, self._identity, self._form, self.layout = links, where, identity, form, layout

    def report(self) -> StoreReport:
        """What is there. Raises StateOwnedError for what is not ours, StateShapeError for another layout of ours."""
        try:
            return self._report()
        except StateOwnedError:
            return self._report()  # seen in parts: another driver may have founded the state in between

    def _report(self) -> StoreReport:
        layout, names = self.layout, self.layout.all_metas
        replies = self._links.exchange(looks(layout), errors=True)  # where it is no hash, its kind says it better
        kinds, buckets, read = replies[: len(names)], replies[len(names) : -len(names)], replies[-len(names) :]
        there = self._hashes(names, kinds)
        metas = [self._meta(name, reply) if name in there else None for name, reply in zip(names, read, strict=True)]
        found = [meta for meta in metas if meta is not None]
        if found:
            self.layout = layout.with_buckets(found[0].bucket_count(self._where))
        if self.layout is not layout:
            buckets = self._links.exchange([command(b"TYPE", name) for name in self.layout.all_buckets])
        filled = self._hashes(self.layout.all_buckets, buckets)
        if not found:
            self._demand_empty(filled)
        if metas[0] is None and all(map(_unused, found)):
            nothing = GroupStatus(None, None, None)  # or half-founded, by a driver that died over it
            return StoreReport(None, None, None, (nothing,) * self.layout.groups)
        told = next((meta for meta in found if meta.log != self._identity.log), found[0])  # none may be another log's
        return StoreReport(
            told.identity,
            told.fingerprint,
            StateKind(told.kind) if told.kind else None,
            tuple(GroupStatus(None, None, None) if meta is None else meta.status(self._where) for meta in metas),
        )

    def _hashes(self, names: list[bytes], kinds: list[Reply]) -> set[bytes]:
        """Which of these keys are there, by what TYPE says of them; StateOwnedError if one is no hash."""
        self._links.demand_all(kinds)
        for name, kind in zip(names, kinds, strict=True):
            if kind not in (b"hash", b"none"):
                raise self._foreign(name, f"is a {kind.decode()}")
        return {name for name, kind in zip(names, kinds, strict=True) if kind == b"hash"}

    def _meta(self, name: bytes, read: Reply) -> Meta:
        """A meta hash that is ours."""
        self._links.demand_all([read])
        meta = parse_meta(read)
        if meta.format is None or meta.identity is None:
            raise self._foreign(name, "is a hash that this library did not write")
        if meta.format != FORMAT:
            raise StateShapeError(
                f"{self._where}: {name.decode()!r} has format {meta.format}, this version reads format {FORMAT}; "
                f"use the version that wrote it, or reset the topology"
            )
        if (meta.topology, meta.state) != (self._identity.topology, self._identity.name):
            raise self._foreign(name, f"belongs to state {meta.state!r} of topology {meta.topology!r}")
        self._demand("values", meta.values, self._form)
        self._demand("groups", meta.groups, str(self.layout.groups))
        return meta

    def _demand(self, option: str, stored: str | None, declared: str) -> None:
        if stored != declared:
            raise StateShapeError(
                f"{self._where} was created with {option}={stored}, and is declared with {option}={declared}; "
                f"declare it as it was, or reset the topology"
            )

    def _demand_empty(self, there: set[bytes]) -> None:
        """No meta hash: then no bucket either, and none of the same state in another number of groups. Nobody else is
        to ask for that one: a cluster keeps it in another slot, which may be on its way or gone."""
        if there:
            raise self._foreign(min(there), "is there without the state's meta hash")
        other = self.layout.other_meta()
        kind, read = self._links.exchange([command(b"TYPE", other), read_meta(bulks([other]))], errors=True)
        if self._hashes([other], [kind]):
            self._links.demand_all([read])
            self._demand("groups", parse_meta(read).groups, str(self.layout.groups))

    def _foreign(self, name: bytes, what: str) -> StateOwnedError:
        return StateOwnedError(
            f"{self._where}: the key {name.decode()!r} {what}; nothing was touched. "
            f"Choose another prefix (RedisMapState...(prefix=...)), or remove that key if nobody needs it"
        )


def looks(layout: Layout) -> list[bytes]:
    """What asks for the kinds of the meta hashes and of the buckets; then for what the meta hashes hold."""
    kinds = [command(b"TYPE", name) for name in (*layout.all_metas, *layout.all_buckets)]
    return [*kinds, *map(read_meta, layout.packed_metas)]


def _unused(meta: Meta) -> bool:
    """Whether no batch came to this group since it was founded."""
    return meta.keys == "0" and meta.open is None and meta.marker == meta.birth
