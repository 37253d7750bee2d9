"""Parts of a state: its entries divided by key hash, so that several processes can each read a part."""

from typing import NamedTuple

import pyarrow as pa

from trident_state.keys import hash_keys


class Part(NamedTuple):
    """One of `of` parts of a state; `number` counts from 0. Each key is in exactly one of the parts."""

    number: int
    of: int

    def share(self, count: int) -> range:
        """Return this part's share of `count` consecutive items.

        >>> [Part(number, 3).share(8) for number in range(3)]
        [range(0, 2), range(2, 5), range(5, 8)]
        """
        return range(count * self.number // self.of, count * (self.number + 1) // self.of)

    def has(self, encoded: pa.Array) -> pa.Array:
        """Return for each encoded key whether it is in this part.

        >>> keys = pa.array([b"sdog", b"scat", b"semu"], pa.binary())
        >>> [Part(number, 2).has(keys).to_pylist() for number in range(2)]
        [[True, True, False], [False, False, True]]
        """
        return pa.array(hash_keys(encoded) % self.of == self.number)


WHOLE = Part(0, 1)
"""The only part of a state that is not divided."""
