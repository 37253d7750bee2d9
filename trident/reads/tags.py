"""Tags: names of txids as of which states can be read until the tag is dropped.

In ``asOf=`` a text that begins with ``tag:`` is a tag; no time begins like that. So everything that accepts a time
accepts a tag.
"""

from dataclasses import dataclass

from trident.base.errors import StateError, TagNotFoundError
from trident.base.names import did_you_mean
from trident.reads.committed_reads import ReadSource
from trident_state.store import tags_of

PREFIX = "tag:"


@dataclass(frozen=True)
class TagName:
    """The name of a tag, as of which to read."""

    name: str


def tag_name_of(value: object) -> TagName | None:
    """Return the name of the tag in a text; None for any other value.

    >>> tag_name_of("tag:month-end"), tag_name_of("2026-11-26 09:00"), tag_name_of(41)
    (TagName(name='month-end'), None, None)
    """
    return TagName(value[len(PREFIX) :]) if isinstance(value, str) and value.startswith(PREFIX) else None


def txid_of_tag(source: ReadSource, state: str, tag: TagName) -> int:
    """Return the txid of a state's tag.

    Raises TagNotFoundError if it has none of this name, StateError if its store keeps no tags.
    """
    source.check()
    tags = tags_of(source.store(state))
    if tags is None:
        raise keeps_no_tags([state])
    for each in tags:
        if each.name == tag.name:
            return each.txid
    names = [each.name for each in tags]
    raise TagNotFoundError(
        f"state {state!r} has no tag {tag.name!r}{did_you_mean(tag.name, names)}; its tags are "
        f"{', '.join(sorted(names)) or 'none'}"
    )


def keeps_no_tags(states: list[str]) -> StateError:
    """Return the error of states whose stores keep no tags."""
    named = ", ".join(map(repr, states))
    return StateError(
        f"{'state' if len(states) == 1 else 'states'} {named}: only a DeltaMapState keeps tags. Keep a batch of "
        f"another state by an export (trident state export) or a savepoint"
    )
