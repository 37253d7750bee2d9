"""The option ``--as-of``: a txid, or a time."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from trident.reads.moments import moment_of

_F = TypeVar("_F", bound=Callable[..., Any])


def as_of_option(command: _F) -> _F:
    """Add the option by which a command reads as of an earlier batch, in `as_of`: an int, or the text of a time."""
    text = "Read as of this batch, or of the last one committed until this time (UTC), if it is kept."
    return click.option("--as-of", callback=_batch, metavar="TXID|TIME", help=text)(command)


def _batch(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value.strip().isdecimal():
        return None if value is None else int(value)
    try:
        known = moment_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    if known is None:
        raise click.BadParameter(f"{value!r} is neither a txid nor a time such as '2026-11-26 09:00'", ctx, param)
    return value
