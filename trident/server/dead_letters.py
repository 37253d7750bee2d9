"""Dead letters over HTTP: list the newest ones of each state, and replay dead letters into their stream."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from trident.base.errors import TridentError
from trident.server.errors import RequestError
from trident.server.served_topology import Served
from trident.server.topology_body import letter_states, replayable_streams


class LettersKept(msgspec.Struct):
    """The newest dead letters of a state."""

    state: str
    count: int
    """The number of dead letters in the state."""
    letters: list[dict[str, Any]]
    """The newest dead letters, each with ``id, stream, step, function, error, message, tuple, txid, attempt``."""


class LettersBody(msgspec.Struct):
    """The body of ``GET /dead-letters``."""

    states: list[LettersKept]
    replayable: list[str]
    """The streams to which dead letters can return."""
    canReplay: bool
    """True if this server can put letters back: the driver runs in this process."""


class ReplayWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /dead-letters/replay``: the stream and the ids of letters.

    Without ids, all letters are meant.
    """

    stream: str
    state: str = "deadLetters"
    ids: list[str] | None = None


class Replayed(msgspec.Struct):
    """The answer to ``POST /dead-letters/replay``."""

    replayed: int


def letters_of(served: Served, entries: Mapping[str, pa.Table], most: int) -> LettersBody:
    """Return the newest `most` dead letters of each state. `entries` has all of them, in the order of their ids."""
    status = served.watched.status()
    can = status.condition == "running"
    kept = [_newest(name, table, most) for name, table in entries.items()]
    return LettersBody(kept, replayable_streams(served.watched.plan), can)


def replay(served: Served, wanted: ReplayWanted) -> Replayed:
    """Put dead letters back into their stream. Raises RequestError if the topology does not allow that."""
    if wanted.state not in letter_states(served.watched.plan):
        raise RequestError(404, "StateNotFound", f"{wanted.state!r} is not a state of dead letters")
    try:
        return Replayed(served.watched.replay(wanted.stream, wanted.state, wanted.ids))
    except TridentError as error:
        raise RequestError(409, type(error).__name__, str(error)) from None


def _newest(state: str, table: pa.Table, most: int) -> LettersKept:
    """Return the newest letters of a state: those with the greatest ids, because ids grow with the txid."""
    newest = table.slice(max(0, table.num_rows - most))
    values = newest.column(newest.num_columns - 1).to_pylist()
    letters = [{"id": id, **value} for id, value in zip(newest.column("id").to_pylist(), values, strict=True)]
    return LettersKept(state, table.num_rows, letters[::-1])
