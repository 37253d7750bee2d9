"""``trident query``: call a DRPC function of a server, or read entries of a state."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import pyarrow as pa

from trident.base.errors import DRPCArgumentError, DRPCNotFoundError, StateError
from trident.base.json_values import read_json
from trident.base.names import did_you_mean
from trident.base.short_texts import short_repr
from trident.base.spark_types import arrow_schema, parse_schema
from trident.cli.output import format_option, show
from trident.cli.server_options import ServerArguments, server_options
from trident.client.drpc_client import DRPCClient
from trident.reads.keys_from_json import beginning_of_text, is_written_plainly, key_of_text

NOT_FOUND = 3
_PAGE_ROWS = 1_000


@click.command()
@click.argument("url")
@click.argument("words", metavar="FUNCTION [ARGUMENT]... | [KEY]...", nargs=-1)
@click.option("--state", help="Read the values of keys in this state, instead of calling a function.")
@click.option("--top", type=click.IntRange(min=1), help="With --state: the entries with the greatest values.")
@click.option("--by", help="With --top: the field of the value to rank by.")
@click.option("--low", help="With --state: the first key of a range.")
@click.option("--high", help="With --state: the first key after a range.")
@click.option("--prefix", help="With --state: the beginning of the keys of a range.")
@click.option("--limit", type=click.IntRange(min=1), help="The most entries of a range. [default: 100]")
@server_options
@format_option
def query(
    url: str,
    words: tuple[str, ...],
    state: str | None,
    top: int | None,
    by: str | None,
    low: str | None,
    high: str | None,
    prefix: str | None,
    limit: int | None,
    server: ServerArguments,
    form: str | None,
) -> None:
    """Call a DRPC function of the server at URL, or read keys of a state.

    Write strings, dates, times and binary values (base64) without quotes, all others as JSON. Without an argument it
    lists the functions; with only --state, the states.
    """
    ends = {"low": low, "high": high, "prefix": prefix}
    ranged = any(end is not None for end in ends.values())
    _check_options(state, words, top is not None or by is not None, ranged or limit is not None)
    with server.client(url) as client:
        if state is None:
            _call(client, words, form)
        elif top is not None:
            rows = client.top(state, top, by)
            show([row.asDict() for row in rows], rows.fields, form)
        elif ranged or limit is not None:
            _range(client, state, ends, limit or 100, form)
        else:
            _keys(client, state, words, form)


def _check_options(state: str | None, words: Sequence[str], isTop: bool, isRange: bool) -> None:
    if state is None and isTop:
        raise click.UsageError("--top and --by need --state")
    if state is None and isRange:
        raise click.UsageError("--low, --high, --prefix and --limit need --state")
    if isTop and isRange:
        raise click.UsageError("--top cannot be combined with --low, --high, --prefix or --limit")
    if words and (isTop or isRange):
        raise click.UsageError("--top takes no keys" if isTop else "a range takes no keys besides its ends")


def _range(client: DRPCClient, state: str, ends: Mapping[str, Any], limit: int, form: str | None) -> None:
    """Print the first entries of a range, which come in pages."""
    fields = _key_fields(_described(client, state))
    ends = {name: None if text is None else beginning_of_text(text, fields, state) for name, text in ends.items()}
    page = client.range(state, **ends, limit=min(limit, _PAGE_ROWS))
    rows = list(page)
    while page.after is not None and len(rows) < limit:
        page = client.range(state, **ends, limit=min(limit - len(rows), _PAGE_ROWS), after=page.after)
        rows += page
    show([row.asDict() for row in rows], page.fields, form)


def _call(client: DRPCClient, words: Sequence[str], form: str | None) -> None:
    functions = client.functions()
    if not words:
        show([{"function": called} for called in functions.values()], ["function"], form)
        return
    function, *texts = words
    if function not in functions:
        raise DRPCNotFoundError(
            f"no DRPC function {function!r}{did_you_mean(function, functions)}; the functions are "
            f"{', '.join(functions)}"
        )
    rows = client.execute(function, *_arguments(functions[function], texts))
    show([row.asDict() for row in rows], rows.fields, form)


def _arguments(called: str, texts: Sequence[str]) -> list[Any]:
    """Return a function's arguments, read from texts. `called`: its declaration, such as ``count(word string)``."""
    declared = arrow_schema(parse_schema(called.partition("(")[2].removesuffix(")")))
    if len(texts) != len(declared):
        raise DRPCArgumentError(f"{called}: expected {len(declared)} arguments, got {len(texts)}")
    return [
        text if is_written_plainly(field.type) else _parsed(called, text)
        for field, text in zip(declared, texts, strict=True)
    ]


def _parsed(called: str, text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        raise DRPCArgumentError(f"{called}: {short_repr(text)} is not JSON") from None


def _keys(client: DRPCClient, state: str, texts: Sequence[str], form: str | None) -> None:
    described = _described(client, state)
    if not texts:
        show([described], list(described), form)
        return
    fields = _key_fields(described)
    values = client.multiGet(state, [key_of_text(text, fields, state) for text in texts])
    found = [{"key": text, "value": value} for text, value in zip(texts, values, strict=True)]
    show(found, ["key", "value"], form)
    if None in values:
        click.get_current_context().exit(NOT_FOUND)


def _described(client: DRPCClient, state: str) -> Mapping[str, Any]:
    """Return the server's description of a state. Raises StateError if there is no such state."""
    states: Mapping[str, Mapping[str, Any]] = {each["name"]: each for each in client.states()}
    if state not in states:
        raise StateError(f"no state {state!r}{did_you_mean(state, states)}; the states are {', '.join(states)}")
    return states[state]


def _key_fields(described: Mapping[str, Any]) -> pa.Schema:
    return arrow_schema(parse_schema(_ddl(described["keys"].items())))


def _ddl(fields: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in fields)
