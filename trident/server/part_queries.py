"""The part of a state that a request reads: a range of its keys, or the entries that an index finds."""

from collections.abc import Mapping

from trident.base.errors import TridentError
from trident.base.json_values import read_json
from trident.base.names import field_names
from trident.base.short_texts import brief
from trident.reads.keys_from_json import key_of_json, key_of_text
from trident.reads.state_view import StateView
from trident.server.errors import RequestError
from trident.server.range_queries import RANGE_PARAMETERS, check_cursor, range_of_query
from trident.server.state_pages import ReadPart

_INDEX = {"index", "value"}
PART_PARAMETERS = RANGE_PARAMETERS | _INDEX


def part_of_query(view: StateView, asked: Mapping[str, str], limit: int) -> ReadPart | None:
    """Return the read that a request asks for; None for the whole state. Raises the errors of `range_of_query`."""
    after = asked.get("after")
    if _INDEX & set(asked):
        return _by_index(view, asked, limit, after)
    between = range_of_query(view, asked)
    return None if between is None else lambda: view.ranged(between, limit, after)


def _by_index(view: StateView, asked: Mapping[str, str], limit: int, after: str | None) -> ReadPart:
    if not set(asked) >= _INDEX:
        raise RequestError(
            400,
            "InvalidQuery",
            "index (a field of an index) and value (the value of that field) must be given together",
        )
    if others := (RANGE_PARAMETERS - {"json"}) & set(asked):
        raise RequestError(
            400, "InvalidQuery", f"index is given with {', '.join(sorted(others))}; give one or the other"
        )
    try:
        fields = field_names(asked["index"])
    except TridentError as error:
        raise RequestError(400, "InvalidQuery", f"index={brief(asked['index'])}: {error}") from None
    index, text = view.index(fields), asked["value"]
    if asked.get("json") != "true":
        value = key_of_text(text, index.fields, view.name)
    else:
        try:
            value = key_of_json(read_json(text), index.fields, view.name)
        except ValueError:
            raise RequestError(400, "InvalidQuery", f"json=true, and {brief(text)} is not JSON") from None
    check_cursor(index.name, after)
    return lambda: view.found(fields, value, limit, after)
