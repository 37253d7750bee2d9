"""The meta hash of a group: its state, the state's layout, the group's fence, marker and open record."""

import msgspec

from trident.base.attempt import Lease
from trident.base.discard_advice import RESTORE
from trident.base.errors import StateCorruptError
from trident_state.expiry import Expiry
from trident_state.incarnation import Incarnation
from trident_state.redis.wire import bulks
from trident_state.state_shape import StateIdentity, StateKind
from trident_state.store_messages import GroupStatus

FORMAT = "2"
NOTHING_FORGOTTEN = Expiry()


class Meta(msgspec.Struct, frozen=True):
    """The fields of a meta hash, as text. A field is None if the hash does not have it, or if there is no hash."""

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
    due: str | None
    dues: str | None
    """The number of entries of the index of due times; None if a version that did not count them wrote it."""

    @property
    def absent(self) -> bool:
        return self.format is None and self.epoch is None and self.marker is None

    @property
    def indexed(self) -> bool:
        """True if the index of due times is complete as of the marker."""
        return self.due == self.marker

    @property
    def identity(self) -> StateIdentity | None:
        if self.topology is None or self.state is None or self.log is None:
            return None
        return StateIdentity(self.topology, self.state, self.log, self.batchGroup or "")

    @property
    def began(self) -> int | None:
        """The txid after which the state began; None if the field `birth` is absent or not a number."""
        return int(self.birth) if self.birth is not None and self.birth.isdigit() else None

    def bucket_count(self, where: str) -> int:
        """Return the number of buckets with which the state was created. Raises StateCorruptError if there is none."""
        return _count(self.buckets, where, "buckets")

    def group_count(self, where: str) -> int:
        """Return the number of groups with which the state was created. Raises StateCorruptError if there is none."""
        return _count(self.groups, where, "groups")

    def parsed_expiry(self, where: str) -> Expiry:
        """Return the expiry of the state as of the group's marker.

        Raises StateCorruptError if the field cannot be read.
        """
        if self.expiry is None:
            return NOTHING_FORGOTTEN
        try:
            return msgspec.json.decode(self.expiry, type=Expiry)
        except msgspec.DecodeError:
            raise StateCorruptError(f"{where}: the expiry in its meta hash cannot be read. {RESTORE}") from None

    @property
    def _begun(self) -> int | None:
        """The txid of the open record; otherwise the txid of a batch that has moved keys but not the marker."""
        return _number(self.moving if self.open is None and self.moved not in (None, "0") else self.open)

    def status(self, where: str) -> GroupStatus:
        """Return the lease, marker and open record of the group. Raises StateCorruptError if a field cannot be read."""
        try:
            lease = None if self.epoch is None or self.token is None else Lease(int(self.epoch), self.token)
            return GroupStatus(lease, _number(self.marker), self._begun)
        except ValueError:
            raise StateCorruptError(
                f"{where}: the txid or the epoch in its meta hash is not a number. {RESTORE}"
            ) from None

    def incarnation(self, where: str) -> Incarnation | None:
        """Return the incarnation of the state to which the group belongs; None if the group is gone.

        Raises StateCorruptError if a field cannot be read.
        """
        identity, lease = self.identity, self.status(where).lease
        if identity is None or lease is None:
            return None
        try:
            kind = StateKind(self.kind)
        except ValueError:
            raise StateCorruptError(f"{where}: the kind in its meta hash is not valid. {RESTORE}") from None
        return Incarnation(identity, self.began, self.fingerprint or "", kind, lease.epoch)


_FIELDS = Meta.__struct_fields__
_REQUEST = b"*%d\r\n$5\r\nHMGET\r\n" % (2 + len(_FIELDS))
_NAMES = bulks([field.encode() for field in _FIELDS])


def read_meta(packed_name: bytes) -> bytes:
    """Return the command that reads a meta hash. `packed_name` is its name, packed as an argument."""
    return b"".join([_REQUEST, packed_name, _NAMES])


def parse_meta(reply: list[bytes | None]) -> Meta:
    """Return the meta hash in the reply to the command `read_meta`."""
    return Meta(*[None if value is None else value.decode("utf-8", "replace") for value in reply])


def identity_fields(
    identity: StateIdentity, fingerprint: str, kind: StateKind, values: str, buckets: int, groups: int
) -> list[bytes]:
    """Return the constant fields of a new meta hash as a flat list: name, value, name, value."""
    owner = (FORMAT, identity.topology, identity.name, identity.log)
    fields = (*owner, fingerprint, kind.value, values, buckets, groups, identity.batchGroup)
    return [part.encode() for name, value in zip(_FIELDS, fields, strict=False) for part in (name, str(value))]


def _count(text: str | None, where: str, what: str) -> int:
    if text is None or not text.isdigit() or not 0 < int(text) <= 2**20:
        raise StateCorruptError(f"{where}: the number of {what} in its meta hash is not valid. {RESTORE}")
    return int(text)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
