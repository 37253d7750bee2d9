"""States as Delta tables: a table for each state, one version of the table for each batch."""

from trident_state.delta.factory import DeltaMapState

__all__ = ["DeltaMapState"]
