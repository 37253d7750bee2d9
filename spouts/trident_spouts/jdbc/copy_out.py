"""The rows of a query as CSV, in chunks of whole rows, and the columns of a query that is not run.

It calls libpq through ``psycopg.pq``, because psycopg's ``Cursor.copy`` runs a generator and waits for each row, which
costs more than all other work on a row of moderate size.
"""

import selectors
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from trident_spouts.jdbc.address import postgres_client

_CHUNK_BYTES = 8 << 20
_HEAD_BYTES = 19
"""The signature, the flags and the length of the extension at the beginning of a binary copy."""
_COLUMN_BYTES = 6
"""The number of columns and the length of the first value, before the value of a row."""


def copied(connection: Any, query: str) -> Iterator[bytes]:
    """Yield the rows of a query as CSV, in chunks; a null is empty, an empty text is two quotation marks.

    Raises psycopg's error if the server refuses the query or the connection is lost. If not all rows are read, the
    connection must be closed.
    """
    return _copy(connection, f"copy ({query}) to stdout (format csv)", _chunks)


def copied_values(connection: Any, query: str) -> Iterator[bytes]:
    """Yield the value of each row of a query with one column of type bytea, which is never null.

    Raises psycopg's error as `copied` does. If not all rows are read, the connection must be closed.
    """
    return _copy(connection, f"copy ({query}) to stdout (format binary)", _values)


def described(connection: Any, query: str) -> Any:
    """Return libpq's description of the columns of a query, which is not run.

    The call `describe_prepared` of libpq would stop all threads of the process, and signals, until the server answers.
    """
    libpq, states = connection.pgconn, postgres_client().pq.ExecStatus
    described = None
    with selectors.DefaultSelector() as selector:
        selector.register(libpq.socket, selectors.EVENT_READ)
        for send in (partial(libpq.send_prepare, b"", query.encode()), partial(libpq.send_describe_prepared, b"")):
            send()
            described = _next_result(libpq, selector)
            _next_result(libpq, selector)  # no result: the request has ended, also one that was refused
            _expect(described, states.COMMAND_OK)
    return described


def _copy(
    connection: Any, statement: str, read: Callable[[Any, selectors.BaseSelector], Iterator[bytes]]
) -> Iterator[bytes]:
    libpq, states = connection.pgconn, postgres_client().pq.ExecStatus
    with selectors.DefaultSelector() as selector:
        selector.register(libpq.socket, selectors.EVENT_READ)
        libpq.send_query(statement.encode())
        _expect(_next_result(libpq, selector), states.COPY_OUT)
        yield from read(libpq, selector)
        _expect(_next_result(libpq, selector), states.COMMAND_OK)
        _next_result(libpq, selector)  # no result: the statement has ended


def _values(libpq: Any, selector: selectors.BaseSelector) -> Iterator[bytes]:
    """Yield the values of a binary copy.

    The first row may come together with the header; two bytes alone are the end.
    """
    head = _HEAD_BYTES
    while True:
        size, row = libpq.get_copy_data(1)
        if size > 0:
            if size > head + _COLUMN_BYTES:
                yield bytes(row[head + _COLUMN_BYTES :])
            head = 0
        elif size == 0:
            selector.select()
            libpq.consume_input()
        else:
            return


def _chunks(libpq: Any, selector: selectors.BaseSelector) -> Iterator[bytes]:
    chunk = bytearray()
    while True:
        size, row = libpq.get_copy_data(1)
        if size > 0:
            chunk += row
            if len(chunk) >= _CHUNK_BYTES:
                yield bytes(chunk)
                chunk.clear()
        elif size == 0:
            selector.select()
            libpq.consume_input()
        else:
            if chunk:
                yield bytes(chunk)
            return


def _next_result(libpq: Any, selector: selectors.BaseSelector) -> Any:
    while libpq.flush():
        libpq.consume_input()
    while libpq.is_busy():
        selector.select()
        libpq.consume_input()
    return libpq.get_result()


def _expect(result: Any, status: Any) -> None:
    """Raise the error in a result, unless the result has this status."""
    client = postgres_client()
    if result is None:
        raise client.OperationalError("the connection was lost")
    if result.status != status:
        raise client.errors.error_from_result(result)
