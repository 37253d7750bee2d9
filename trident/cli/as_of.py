"""The option ``--as-of``: a txid, a time, or a tag."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from trident.reads.tags import tag_name_of
from trident.reads.time_reads import moment_of

_F = TypeVar("_F", bound=Callable[..., Any])


def as_of_option(command: _F) -> _F:
    """Add the option to read as of an earlier batch, passed as `as_of`: an int or a string."""
    text = (
        "Read as of this txid, of the last batch committed at or before this time (UTC) if it is kept, or of this tag."
    )
    return click.option("--as-of", callback=_batch, metavar="TXID|TIME|tag:NAME", help=text)(command)


def _batch(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value.strip().isdecimal():
        return None if value is None else int(value)
    try:
        known = tag_name_of(value) or moment_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    if known is None:
        expected = "expected a txid, a time such as '2026-11-26 09:00', or a tag such as tag:month-end"
        raise click.BadParameter(f"{value!r}: {expected}", ctx, param)
    return value
