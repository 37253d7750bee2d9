"""The parameters by which a request asks for a range of a state's keys."""

from collections.abc import Mapping
from typing import get_args

from trident.base.short_texts import brief
from trident.reads.key_ranges import Inclusive, range_after, range_between, range_of_prefix
from trident.reads.keys_from_json import beginning_of_text
from trident.reads.state_view import StateView
from trident.server.errors import RequestError
from trident_state.key_order import KeyRange

RANGE_PARAMETERS = {"low", "high", "inclusive", "prefix"}


def range_of_query(view: StateView, asked: Mapping[str, str]) -> KeyRange | None:
    """Return the range that a request asks for; None if it asks for no range.

    Raises RequestError for parameters that contradict each other, or that have no such value, and StateKeyError for an
    end that is not the beginning of a key.
    """
    given = RANGE_PARAMETERS & set(asked)
    if not given:
        return None
    if "prefix" in given and len(given) > 1:
        raise RequestError(
            400, "InvalidQuery", "prefix goes with none of low, high and inclusive; give one or the other"
        )
    inclusive = asked.get("inclusive", "left")
    if inclusive not in get_args(Inclusive):
        expected = ", ".join(get_args(Inclusive))
        raise RequestError(400, "InvalidQuery", f"inclusive={brief(inclusive)}: expected {expected}")
    ends = {
        name: beginning_of_text(asked[name], view.keyFields, view.name)
        for name in ("low", "high", "prefix")
        if name in given
    }
    if "prefix" in ends:
        between = range_of_prefix(view.name, view.keyFields, ends["prefix"])
    else:
        between = range_between(view.name, view.keyFields, ends.get("low"), ends.get("high"), inclusive)
    _check_cursor(view, between, asked.get("after"))
    return between


def _check_cursor(view: StateView, between: KeyRange, after: str | None) -> None:
    try:
        if after is not None:
            range_after(view.name, between, after)
    except ValueError as error:
        raise RequestError(400, "InvalidQuery", str(error)) from None
