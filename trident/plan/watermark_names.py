"""The names of watermarks. A watermark is a state. It belongs to the state that uses it, which is its owner."""

from collections.abc import Collection

from trident.operations.interval_joins import Side
from trident.operations.windows import timestamp_field
from trident.plan.nodes import SIDES, StateWriter, Watermark

_ENDING = ".watermark"

WATERMARK = "Watermark"
"""The name of the function that computes a watermark. Owner and field follow it: ``Watermark(seen, at)``."""


def watermark_name(owner: str, side: str | None = None) -> str:
    """Return the name of a state's watermark; `side` names one of the two streams of a join by time.

    >>> watermark_name("seen"), watermark_name("pairs", "left")
    ('seen.watermark', 'pairs.left.watermark')
    """
    return f"{owner}{'' if side is None else f'.{side}'}{_ENDING}"


def watermark_names(owner: str) -> tuple[str, ...]:
    """Return the names that watermarks of this state can have.

    >>> watermark_names("seen")
    ('seen.watermark', 'seen.left.watermark', 'seen.right.watermark')
    """
    return tuple(watermark_name(owner, side) for side in (None, *SIDES))


def possible_owners(state: str) -> tuple[str, ...]:
    """Return the names of the states whose watermark may be called `state`; no names if no watermark has such a name.

    >>> possible_owners("pairs.left.watermark"), possible_owners("counts")
    (('pairs.left', 'pairs'), ())
    """
    if not state.endswith(_ENDING):
        return ()
    owner = state.removesuffix(_ENDING)
    joined, _, side = owner.rpartition(".")
    return (owner, joined) if joined and side in SIDES else (owner,)


def owner_of(watermark: Watermark) -> str:
    """Return the name of the state that uses this watermark."""
    name = watermark.state.name
    return possible_owners(name)[-1 if isinstance(watermark.windowing, Side) else 0]


def watermark_meaning(watermark: Watermark) -> str:
    """Return the name that stores keep with a watermark: the state that uses it, and the field of the times."""
    field = None if watermark.windowing.config is None else timestamp_field(watermark.windowing.config)
    return f"{WATERMARK}({', '.join(filter(None, (owner_of(watermark), field)))})"


def dropped_by(writer: StateWriter) -> str:
    """Return the name to pass to `dropState` to drop this state. For a watermark it is the name of its owner."""
    return owner_of(writer) if isinstance(writer, Watermark) else writer.state.name


def without_watermarks(states: Collection[str]) -> list[str]:
    """Return the states, sorted, without those that are watermarks of others among them.

    >>> without_watermarks(["seen.watermark", "seen", "counts"])
    ['counts', 'seen']
    """
    return sorted(state for state in states if not {*possible_owners(state)} & {*states})
