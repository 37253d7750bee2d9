"""The parameters by which a request asks for a range of a state's keys."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from trident.base.json_values import read_json
from trident.base.short_texts import brief
from trident.operations.query_functions import Inclusive
from trident.reads.key_ranges import check_ordered, place_of, range_between, range_of_prefix
from trident.reads.keys_from_json import beginning_of_json, beginning_of_text
from trident.reads.state_view import StateView
from trident.server.errors import RequestError
from trident_state.key_order import KeyRange

_ENDS = ("low", "high", "prefix")
RANGE_PARAMETERS = {*_ENDS, "inclusive", "json"}


def range_of_query(view: StateView, asked: Mapping[str, str]) -> KeyRange | None:
    """Return the range that a request asks for; None if it asks for no range.

    With ``json=true`` all ends are JSON. Raises RequestError for parameters
    that contradict each other, or that have no such value, and StateKeyError for an end that is not the beginning of a
    key.
    """
    given = RANGE_PARAMETERS & set(asked)
    if not given:
        return None
    check_ordered(view.name, view.keyFields)
    if "prefix" in given and given & {"low", "high", "inclusive"}:
        raise RequestError(400, "InvalidQuery", "prefix is given with low, high or inclusive; give one or the other")
    inclusive = _one_of("inclusive", asked.get("inclusive", "left"), get_args(Inclusive))
    isJson = _one_of("json", asked.get("json", "false"), ("true", "false")) == "true"
    ends = {name: _end(view, asked[name], isJson) for name in _ENDS if name in given}
    if "prefix" in ends:
        between = range_of_prefix(view.name, view.keyFields, ends["prefix"])
    else:
        between = range_between(view.name, view.keyFields, ends.get("low"), ends.get("high"), inclusive)
    check_cursor(view.name, asked.get("after"))
    return between


def _one_of(name: str, given: str, words: Sequence[str]) -> str:
    if given not in words:
        raise RequestError(400, "InvalidQuery", f"{name}={brief(given)}: expected {', '.join(words)}")
    return given


def _end(view: StateView, text: str, isJson: bool) -> Any:
    if not isJson:
        return beginning_of_text(text, view.keyFields, view.name)
    try:
        value = read_json(text)
    except ValueError:
        raise RequestError(400, "InvalidQuery", f"json=true, and {brief(text)} is not JSON") from None
    return beginning_of_json(value, view.keyFields, view.name)


def check_cursor(state: str, after: str | None) -> None:
    """Raise RequestError if `after` is not the cursor of a page of the state."""
    try:
        if after is not None:
            place_of(state, after)
    except ValueError as error:
        raise RequestError(400, "InvalidQuery", str(error)) from None
