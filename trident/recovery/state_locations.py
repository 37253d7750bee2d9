"""The locations of states in tables.

The log stores them, so that readers need only the checkpoint to find such a state.

A location has the folder, address or file of the tables, and no options of an object store, which may be secrets.
"""

import msgspec

from trident.base.errors import LogCorruptError
from trident.compiler.program import Program
from trident.log.protocol import LogReading
from trident_state.state_shape import StateKind
from trident_state.store import StateFactory, place_of_factory

OF_PLACE = "place "
"""The beginning of the names of records in the log."""


class _Place(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: StateKind
    delta: str = ""
    sqlite: str = ""
    ttlSecs: float | None = None

    def factory(self) -> StateFactory:
        if self.sqlite:
            from trident_state.relational import SqliteMapState

            return SqliteMapState(self.kind, self.sqlite)
        from trident_state.delta import DeltaMapState

        return DeltaMapState(self.kind, self.delta, ttlSecs=self.ttlSecs)


def places_of(program: Program) -> dict[str, bytes]:
    """Return the record of the location of each state in tables of a program, by the record's name."""
    found = dict[str, bytes]()
    for state in (node.state for group in program.groups for node in group.states):
        if (place := place_of_factory(state.factory)) is not None:
            found[OF_PLACE + state.name] = msgspec.json.encode(_Place(state.factory.kind, **place))
    return found


def factory_at_place(log: LogReading, state: str) -> StateFactory | None:
    """Return a factory of a state in tables as of the last program that started; None if the log has no location.

    Raises LogCorruptError if the record cannot be read.
    """
    record = log.readings().get(OF_PLACE + state)
    if record is None:
        return None
    try:
        return msgspec.json.decode(record, type=_Place).factory()
    except msgspec.DecodeError as error:
        raise LogCorruptError(f"the log is damaged: the place of state {state!r} cannot be read: {error}") from error
