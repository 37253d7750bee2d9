"""The meta hash of a group, read: whose it is, how it is laid out, and where it stands."""

import msgspec

from trident.base.attempt import Lease
from trident.base.errors import StateCorruptError
from trident_state.expiry import Expiry
from trident_state.redis.wire import bulks
from trident_state.store import GroupStatus, StateIdentity, StateKind

FORMAT = "1"
NOTHING_FORGOTTEN = Expiry()


class Meta(msgspec.Struct, frozen=True):
    """What stands in a meta hash. Every field is None where the hash is not there."""

    format: str | None
    topology: str | None
    state: str | None
    log: str | None
    fingerprint: str | None
    kind: str | None
    values: str | None
    buckets: str | None
    groups: str | None
    batchGroup: str | None
    token: str | None
    epoch: str | None
    birth: str | None
    marker: str | None
    open: str | None
    keys: str | None
    moving: str | None
    moved: str | None
    expiry: str | None

    @property
    def absent(self) -> bool:
        return self.format is None and self.epoch is None and self.marker is None

    @property
    def identity(self) -> StateIdentity | None:
        if self.topology is None or self.state is None or self.log is None:
            return None
        return StateIdentity(self.topology, self.state, self.log, self.batchGroup or "")

    def bucket_count(self, where: str) -> int:
        """How many buckets the state was created with."""
        return _count(self.buckets, where, "buckets")

    def group_count(self, where: str) -> int:
        """In how many groups."""
        return _count(self.groups, where, "groups")

    def forgotten(self, where: str) -> Expiry:
        """What has passed away."""
        if self.expiry is None:
            return NOTHING_FORGOTTEN
        try:
            return msgspec.json.decode(self.expiry, type=Expiry)
        except msgspec.DecodeError:
            raise StateCorruptError(f"{where}: its meta hash does not tell what has passed away") from None

    @property
    def _begun(self) -> int | None:
        """The txid that is open, or that keys were moved to before its open record was erased."""
        return _number(self.moving if self.open is None and self.moved not in (None, "0") else self.open)

    def status(self, where: str) -> GroupStatus:
        """Fence, marker and open record."""
        try:
            lease = None if self.epoch is None or self.token is None else Lease(int(self.epoch), self.token)
            return GroupStatus(lease, _number(self.marker), self._begun)
        except ValueError:
            raise StateCorruptError(f"{where}: its meta hash holds no numbers where txids belong") from None


_FIELDS = Meta.__struct_fields__
_REQUEST = b"*%d\r\n$5\r\nHMGET\r\n" % (2 + len(_FIELDS))
_NAMES = bulks([field.encode() for field in _FIELDS])


def read_meta(packed_name: bytes) -> bytes:
    """The command that reads a meta hash (its name packed as an argument)."""
    return b"".join([_REQUEST, packed_name, _NAMES])


def parse_meta(reply: list[bytes | None]) -> Meta:
    """Its reply."""
    return Meta(*[None if value is None else value.decode("utf-8", "replace") for value in reply])


def identity_fields(
    identity: StateIdentity, fingerprint: str, kind: StateKind, values: str, buckets: int, groups: int
) -> list[bytes]:
    """The fields of a new meta hash that never change, and their values by turns."""
    owner = (FORMAT, identity.topology, identity.name, identity.log)
    fields = (*owner, fingerprint, kind.value, values, buckets, groups, identity.batchGroup)
    return [part.encode() for name, value in zip(_FIELDS, fields, strict=False) for part in (name, str(value))]


def _count(text: str | None, where: str, what: str) -> int:
    if text is None or not text.isdigit() or not 0 < int(text) <= 2**20:
        raise StateCorruptError(f"{where}: its meta hash holds no number of {what}")
    return int(text)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
