"""Checks of arguments that many calls share."""

from collections.abc import Callable, Collection

from trident.base.errors import TopologyError
from trident.base.short_texts import brief

_DIGITS = 19
"""The digits of the greatest number of 64 bits."""


def check_whole_number(
    name: str,
    value: object,
    least: int = 1,
    most: int | None = None,
    error: Callable[[str], Exception] = TopologyError,
) -> int:
    """Return `value` if it is a whole number from `least` to `most`. Otherwise raise ``error(message)``.

    >>> check_whole_number("k", 0)
    Traceback (most recent call last):
    trident_client.errors.TopologyError: k=0: expected a whole number of at least 1
    """
    # Python takes a bool for an int, but a bool in place of a number is always a mistake.
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        accepted = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name}={brief(value)}: expected a whole number {accepted}")
    return value


def whole_number_in(text: str) -> int | None:
    """Return the number in an external text of plain digits; None if the text is not a number, or is very long.

    >>> whole_number_in("42"), whole_number_in("²"), whole_number_in("9" * 5000)
    (42, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def check_flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False. Otherwise raise TopologyError: in Python the text "no" counts as true.

    >>> check_flag("header", "no")
    Traceback (most recent call last):
    trident_client.errors.TopologyError: header='no': expected True or False
    """
    if not isinstance(value, bool):
        raise TopologyError(f"{name}={brief(value)}: expected True or False")
    return value


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise TopologyError if `value` is not one of `choices`.

    >>> check_choice("KafkaSpout: kind", "exact", ["transactional", "opaque"])
    Traceback (most recent call last):
    trident_client.errors.TopologyError: KafkaSpout: kind='exact' is not one of 'transactional', 'opaque'
    """
    if value not in choices:
        raise TopologyError(f"{name}={brief(value)} is not one of {', '.join(map(repr, choices))}")
