"""Pages of a state in a fixed order of its keys, so that a client can continue where the last page ended."""

import base64
import binascii

import pyarrow as pa
import pyarrow.compute as pc

from trident.reads.state_view import StateView
from trident.server.errors import RequestError
from trident_state.keys import encode_keys


def page_of(view: StateView, rows: int, after: str | None) -> tuple[pa.Table, str | None]:
    """Return the entries that follow the cursor `after`, and the next cursor, which is None after the last page.

    Each page is as of the batch that is committed when it is read. A key that exists all the time comes exactly once.
    """
    table = view.toArrow()
    keys = encode_keys(table.select(view.keyFields.names))
    if after is not None:
        following = pc.greater(keys, pa.scalar(_read_cursor(after), keys.type))
        table, keys = table.filter(following), keys.filter(following)
    page = pc.sort_indices(keys).slice(0, rows)
    more = len(keys) > rows
    return table.take(page), _cursor(keys[page[-1].as_py()].as_py()) if more else None


def value_fields(view: StateView) -> list[str]:
    """Return the names of the fields of a state's values; no names unless the values are structs."""
    kind = view.valueType
    return [kind.field(at).name for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []


def _cursor(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


def _read_cursor(text: str) -> bytes:
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(400, "InvalidQuery", f"after={text!r} is no cursor that a page ended with") from None
