"""The states of one topology at a location, for a drop: a state's store, its watermarks, and a watermark's owner."""

import contextlib
from dataclasses import dataclass

import pyarrow as pa

from trident.access.locations import StateLocation
from trident.base.errors import StateError
from trident.compiler.states.shapes import is_watermark
from trident.log.protocol import LogReading
from trident.log.snapshot_home import NoHome
from trident.plan.watermark_names import possible_owners, watermark_names
from trident_state.memory.segments import read_manifest
from trident_state.redis.state_discovery import find_rest, find_state
from trident_state.state_shape import StateIdentity, StateShape, replacing
from trident_state.store import Store


@dataclass(frozen=True, slots=True)
class StoredStates:
    """The states of a topology in its log or in the store of the location. `log` is None if the caller gave none."""

    location: StateLocation
    topology: str
    log: LogReading | None

    def watermarks_of(self, state: str) -> list[str]:
        """Return the watermarks that belong to a state, whether or not the state itself exists."""
        return [name for name in watermark_names(state) if self._is_watermark(name)]

    def owner_of(self, state: str) -> str | None:
        """Return the owner of a watermark; None if `state` is not a watermark, or its owner is gone."""
        owners = possible_owners(state)
        if not owners or not self._is_watermark(state):
            return None
        return next((owner for owner in owners if self._known(owner) or self._fingerprint(owner) is not None), None)

    def _is_watermark(self, name: str) -> bool:
        """Return whether a state of this name exists and is a watermark.

        If the log knows a state with a missing or incomplete store, only the name decides. A state that is neither in
        memory nor in the store of the location cannot be a watermark of a state in them.
        """
        fingerprint = self._fingerprint(name)
        if fingerprint is not None:
            return is_watermark(fingerprint)
        return self._known(name) and (self.location.url is not None or self.location.factory is not None)

    def _known(self, name: str) -> bool:
        return self.log is not None and name in self.log.births()

    def _fingerprint(self, name: str) -> str | None:
        """Return the stored fingerprint of a state; None if the state does not exist, or its store is incomplete."""
        manifest = None if self.log is None else self.log.manifest(name)
        if manifest:
            return read_manifest(manifest, f"state {name!r}").fingerprint
        if self.location.url is not None:
            found = find_state(self.location.address, self.location.prefix, self.topology, name)
            return None if found is None else found.fingerprint
        if self.location.factory is None:
            return None
        with contextlib.suppress(StateError):  # the store of another state, or an incomplete store
            store = open_to_drop(self.location, self.topology, name)
            assert store is not None
            with contextlib.closing(store):
                return store.report().fingerprint
        return None


def open_to_drop(location: StateLocation, topology: str, state: str) -> Store | None:
    """Open the state's store only to drop the state. Return None if the server has no part of the state.

    Raises StateError if the store of a user's factory holds another state.
    """
    any_shape = StateShape(pa.schema([]), pa.null(), replacing())
    if location.factory is not None:
        store = location.factory.open(StateIdentity(topology, state, ""), any_shape, NoHome())
        identity = store.report().identity
        if identity is not None and (identity.topology, identity.name) != (topology, state):
            store.close()
            raise StateError(
                f"{location.factory!r} holds another state, {identity.name!r} of topology {identity.topology!r}; give "
                f"the factory of this state. Nothing was changed"
            )
        return store
    name = (location.address, location.prefix, topology, state)
    stored = find_state(*name) or find_rest(*name)
    return None if stored is None else stored.open(replacing())
