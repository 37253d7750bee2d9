"""A tag: a named txid as of which a state can be read until the tag is dropped."""

import msgspec


class StateTag(msgspec.Struct, frozen=True):
    """A tag as a store records it.

    A topology's tag has a txid for each batch group (`txids`) and names the `states` that keep it; each of these
    states has the tag with the `txid` of its group. `made` is the time of its creation, in milliseconds since 1970.
    """

    name: str
    txid: int
    txids: dict[str, int]
    states: tuple[str, ...]
    made: int
