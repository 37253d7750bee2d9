"""The batch as of which a caller reads a state: the words ``asOf=`` and the values that it accepts."""

import datetime

from trident.base.errors import StateError
from trident.reads.tags import TagName, tag_name_of
from trident.reads.time_reads import Moment, moment_of
from trident_state.state_shape import StateKind

AsOfBatch = int | str | datetime.datetime
"""``previous``: reads are as of the batch before the last committed one. A number: as of the batch with this txid.
A time (a text in ISO 8601, in UTC without an offset; or a datetime with a time zone): as of the last batch that was
committed until then.
``tag:month-end``: as of the batch that has this tag."""


def read_as_of_batch(
    state: str, kind: StateKind, asOf: AsOfBatch | None, isolation: str
) -> int | str | Moment | TagName | None:
    """Return the batch that `asOf` names for the reads of a state.

    Raises ValueError if it names none, and StateError if a state of this kind keeps no previous values.
    """
    named = None if asOf == "previous" else tag_name_of(asOf) or moment_of(asOf)
    if not (asOf is None or asOf == "previous" or named is not None or (type(asOf) is int and asOf >= 0)):
        raise ValueError(
            f"asOf={asOf!r}: expected 'previous', the batch before the last committed one; or a txid that is "
            f"kept, a whole number; or a time, such as '2026-11-26 09:00'; or a tag, such as 'tag:month-end'; or "
            f"None for the last committed one"
        )
    if asOf is not None and kind is StateKind.NON_TRANSACTIONAL:
        raise StateError(
            f"state {state!r} is nonTransactional and keeps no previous values: asOf={asOf!r} needs an opaque "
            f"or a transactional state"
        )
    if asOf is not None and isolation == "latest":
        raise ValueError(
            f"asOf={asOf!r} and isolation='latest' contradict each other: the latest values do not belong to one batch"
        )
    return named or asOf  # type: ignore[return-value]
