"""A tag: a named txid as of which a state can be read until the tag is dropped."""

import msgspec


class StateTag(msgspec.Struct, frozen=True):
    """A tag as a store keeps it.

    A tag of a topology names a txid of each batch group (`txids`) and the `states` that keep it; each of these states
    has it, with its own `txid`. `made`: when it was made, in milliseconds since 1970.
    """

    name: str
    txid: int
    txids: dict[str, int]
    states: tuple[str, ...]
    made: int
