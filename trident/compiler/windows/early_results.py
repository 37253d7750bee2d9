"""Early results: the changes of the results of windows that a batch touches, from before the batch to after it.

The row before a change is computed again, from the window's state as of the previous batch. So the state holds no
results, and its entries are the same with and without early results.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from trident.compiler.states.row_changes import NumberedRows, row_changes
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys


def changed_results(before: pa.Table, after: pa.Table, keys: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return the changes between two sets of results. The fields `keys` identify whose result a row is.

    A window and group may have several results. They are compared in their order.
    """
    both = pa.concat_tables([after.select(keys), before.select(keys)]).combine_chunks()
    numbers = one_chunk(encode_keys(both)).dictionary_encode().indices.to_numpy().astype(np.int64)
    new, old = np.split(numbers, [after.num_rows])
    return row_changes(NumberedRows(before, old), NumberedRows(after, new), schema)
