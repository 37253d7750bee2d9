"""DRPCClient: a client for the DRPC functions and states of a topology that a server answers over HTTP.

`python -m tests.house.blocking_client` writes this file from `async_client.py`. Change that one.
"""

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self
from weakref import WeakSet

from trident_client.answers import AnswerForm, JsonAnswers, RowsT, ServedRows
from trident_client.changes import Change, ChangesReader, EventReader
from trident_client.conversation import TIMEOUT, Conversation, Patience, Request
from trident_client.durations import Duration
from trident_client.forked_child import in_child
from trident_client.names import FieldsLike, field_names


class ServedChanges(Iterator[Change[RowsT]], Generic[RowsT]):
    """The iterator that `DRPCClient.changes` returns. One thread at a time may use it."""

    def __init__(self, http: Any, conversation: Conversation[RowsT], reader: ChangesReader[RowsT]) -> None:
        self._reader = reader
        self._changes = _changes(http, conversation, reader)  # no reference cycle: dropping it closes it
        self._conversation = conversation
        in_child(self, ServedChanges._begin_again)

    def _begin_again(self) -> None:
        """Continue after the last change over another connection, in a forked child."""
        http = self._conversation.httpx.Client(**self._conversation.options)
        self._changes = _changes(http, self._conversation, self._reader)

    @property
    def position(self) -> str | None:
        """The position after the last change that was read, from which another iterator can continue.

        Batches without changes also advance it.
        """
        return self._reader.position

    def __next__(self) -> Change[RowsT]:
        return next(self._changes)

    def close(self) -> None:
        """End the connection. The position stays valid."""
        self._changes.close()


def _changes(
    http: Any,
    conversation: Conversation[RowsT],
    reader: ChangesReader[RowsT],
) -> Generator[Change[RowsT]]:
    """Yield the changes of a state. The feed closes its client `http` at its end."""
    patience = conversation.patience()
    with http:
        while True:
            error: Exception | None = None
            connected = False
            try:
                with http.stream(**conversation.stream(reader)) as response:
                    if response.status_code != 200:
                        response.read()
                    if (error := conversation.outcome(response, {})) is None:
                        connected, events = True, EventReader()
                        for piece in response.iter_bytes():
                            for event in events.take(piece):
                                if (change := reader.take(event)) is not None:
                                    conversation.note_change(response, change)
                                    yield change
            except conversation.unreachable as unreachable:
                error = conversation.no_answer(unreachable)
            if connected:  # from here on the client waits for a server to answer
                patience = conversation.patience()
            # A stream ends without an error if its server ends, or if the server disconnects a slow reader.
            error = error or conversation.no_answer(EOFError("the server ended the stream of changes"))
            time.sleep(patience.next(error))


class Client(Generic[RowsT]):
    """The requests of `DRPCClient`, for any form of the answers."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: Duration = TIMEOUT,
        ca: str | None = None,
        cert: tuple[str, str] | None = None,
    ) -> None:
        self._conversation = Conversation(self._form(), url, token, timeout, ca, cert)
        self._http = self._connections()
        self._feeds = WeakSet[Any]()
        """The HTTP clients of feeds. Each feed has a separate client, because the garbage collector may end a feed
        within any request, and a request holds the lock of its client's connections."""
        self.url = url
        in_child(self, Client._begin_again)

    def _begin_again(self) -> None:
        """Drop the connections in a forked child. Its next request opens others."""
        self._http, self._feeds = None, WeakSet()

    def execute(self, function: str, /, *args: Any, timeout: Duration | None = None, **named: Any) -> RowsT:
        """Ask a DRPC function, and return its rows; see `LocalDRPC.execute` for arguments and errors.

        Raises
        ------
        ServerUnavailableError
            The server does not answer within the timeout.
        """
        return self._rows(self._conversation.execute(function, args, named, timeout))

    def get(self, state: str, key: Any, default: Any = None, *, asOf: int | str | datetime | None = None) -> Any:
        """Return the value of one key of a state; the default if nothing is stored.

        `asOf` is an earlier batch, a txid, a time or a tag, as ``StateView.asOf`` takes it.
        """
        values = self.multiGet(state, [key], asOf=asOf)
        return default if values[0] is None else values[0]

    def multiGet(self, state: str, keys: Iterable[Any], *, asOf: int | str | datetime | None = None) -> list[Any]:
        """Return one value for each key, all as of one batch; None if nothing is stored.

        A key is a value, or a tuple of several key fields' values. `asOf` is an earlier batch; see ``StateView.asOf``.
        """
        return [row.value for row in self._rows(self._conversation.keys(state, keys, asOf))]

    def sql(
        self,
        query: str,
        args: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        timeout: Duration | None = None,
        maxRows: int | None = None,
        asOf: int | str | datetime | None = None,
    ) -> RowsT:
        """Run a SQL query over the states, as of one committed txid of each batch group.

        Arguments and errors are those of ``running.sql``. The server's limits are the greatest that a query may have,
        and its defaults. Arguments are sent as JSON: a date is a text there, so write ``cast(? as date)``.
        """
        return self._rows(self._conversation.sql(query, args, timeout, maxRows, asOf))

    def top(
        self,
        state: str,
        n: int,
        by: str | None = None,
        *,
        asOf: int | str | datetime | None = None,
    ) -> RowsT:
        """Return the `n` entries with the greatest values, as of one batch.

        `by` is the field of the values to rank by. `asOf` is an earlier batch; see ``StateView.asOf``.
        """
        return self._rows(self._conversation.top(state, n, by, asOf))

    def range(
        self,
        state: str,
        low: Any = None,
        high: Any = None,
        *,
        prefix: Any = None,
        inclusive: str = "left",
        limit: int = 100,
        after: str | None = None,
        asOf: int | str | datetime | None = None,
    ) -> RowsT:
        """Return the entries with keys from `low` up to but not including `high`, in order; see `StateView.range`.

        `prefix`, in place of `low` and `high`, is the beginning of a text key, or a tuple of values of the first key
        fields. The result's `after` is the cursor of the next page, None after the last one. `asOf` is an earlier
        batch; see ``StateView.asOf``.
        """
        ends = {"low": low, "high": high, "prefix": prefix}
        return self._rows(self._conversation.range(state, ends, inclusive, limit, after, asOf))

    def by(
        self,
        state: str,
        fields: FieldsLike,
        value: Any,
        *,
        limit: int = 100,
        after: str | None = None,
        asOf: int | str | datetime | None = None,
    ) -> RowsT:
        """Return the entries with a value in the fields of an index, a page; see `StateView.by`.

        For several fields the value is a tuple. The result's `after` is the cursor of the next page, None after the
        last one. `asOf` is an earlier batch; see ``StateView.asOf``.
        """
        return self._rows(self._conversation.by(state, ",".join(field_names(fields)), value, limit, after, asOf))

    def functions(self) -> dict[str, str]:
        """Return the DRPC functions by name, each with its call: ``{"count": "count(word string)"}``."""
        answer = self._ask(self._conversation.functions())
        return dict(answer.json()["functions"])

    def states(self) -> list[dict[str, Any]]:
        """Return the states, each with its name, its kind, and the types of its key fields and value."""
        answer = self._ask(self._conversation.states())
        return list(answer.json()["states"])

    def tags(self) -> list[dict[str, Any]]:
        """Return the tags of the states, each with its name, txids and states; see ``RunningTopology.tag``."""
        answer = self._ask(self._conversation.tags())
        return list(answer.json()["tags"])

    def tag(
        self, name: str, asOf: int | str | datetime | None = None, *, states: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Keep the last committed batch, or an earlier one, under a name until it is dropped, and return the tag.

        The last batch is no older than those that this client has seen, and later answers are no older. Arguments and
        errors are those of ``RunningTopology.tag``. A token with few rights needs ``Rights(tags=True)``, and names the
        `states`.

        Raises
        ------
        ServerUnavailableError
            The server did not answer. If the tag may have been made nevertheless, the message says so: look at `tags`.
        """
        return self._conversation.made_tag(self._ask(self._conversation.tag(name, asOf, states)))

    def dropTag(self, name: str) -> None:
        """Drop a tag. Raises TagNotFoundError if there is no tag of this name, and the errors of `tag`."""
        self._ask(self._conversation.drop_tag(name))

    def scan(
        self,
        state: str,
        pageRows: int = 1000,
        *,
        asOf: int | str | datetime | None = None,
    ) -> Iterator[RowsT]:
        """Yield all entries of a state in pages. Each page is as of the batch that it names.

        With an earlier batch in `asOf`, all pages are as of it; see ``StateView.asOf``.
        """
        page = self._rows(self._conversation.page(state, pageRows, None, asOf))
        yield page
        batch = None if asOf is None else page.asOfTxid
        while page.after is not None:
            page = self._rows(self._conversation.page(state, pageRows, page.after, batch))
            yield page

    def changes(self, state: str, after: int | str | None = None, snapshot: bool = False) -> ServedChanges[RowsT]:
        """Return an iterator over the changes of a state, from now on or after the batch `after`.

        Each change has the keys that changed, with their new values, as of the batch `txid`. It usually covers one
        batch, or several if the reader was late. Applied in their order, the changes give the state as of each `txid`:
        no change is left out, and none comes twice. The iterator waits for the next change. If the connection breaks,
        it connects again and continues after the last change. Another iterator can continue at its `position`, which
        advances even if a batch changes nothing.

        Parameters
        ----------
        state : str
            The state's name; an opaque or transactional state, without ttlSecs.
        after : int or str, optional
            The `position` of a change, or a txid. After a drop or a reset of the state, an old position is refused,
            whereas an old txid would be mistaken for a txid of the new state.
        snapshot : bool
            Begin with the whole state as one change (its `snapshot` is true). If the log no longer keeps the changes
            that this reader missed, send the whole state again.

        Raises
        ------
        StateEndedError
            The state was dropped or reset, perhaps while the iterator waited; a copy made from the changes is no longer
            valid.
        ChangesMissedError
            The log no longer keeps the batches that this reader lacks, and `snapshot` is false.
        StateError
            The state is nonTransactional or has ttlSecs, or the server has no log.
        ServerUnavailableError
            No server has answered for the client's timeout. The `position` stays valid.

        Examples
        --------
        >>> from trident import DRPCClient, Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"]]))
        >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        >>> def first(url):
        ...     with DRPCClient(url) as client:
        ...         for change in client.changes("counts", snapshot=True):
        ...             return change.txid, sorted(change.rows), change.snapshot
        >>> with topology.start(engine="embedded", name="changes") as running, running.serve() as server:
        ...     running.processAllAvailable()
        ...     print(first(server.url))
        (1, [Row(word='cat', count=1), Row(word='dog', count=1)], True)
        """
        http = self._connections()
        self._feeds.add(http)
        reader = ChangesReader(self._conversation.form, state, after, snapshot)
        return ServedChanges(http, self._conversation, reader)

    def _form(self) -> AnswerForm[RowsT]:
        """Return the form of the answers."""
        raise NotImplementedError

    def _connections(self) -> Any:
        return self._conversation.httpx.Client(**self._conversation.options)

    def _rows(self, request: Request) -> RowsT:
        return self._conversation.rows(self._ask(request))

    def _ask(self, request: Request) -> Any:
        """Return the answer to a request.

        While the server cannot answer, send the request again, within its time limit, unless it may have had an effect.
        """
        conversation, patience = self._conversation, Patience(request.limit)
        error: Exception | None
        while True:
            try:
                if self._http is None:
                    self._http = self._connections()
                response = self._http.request(**request.sent(conversation.form.accept))
            except conversation.unreachable as unreachable:
                error = conversation.no_answer(unreachable, request)
            else:
                if (error := conversation.outcome(response, request.shown)) is None:
                    return response
            time.sleep(patience.next(error))

    def close(self) -> None:
        """Close the connections."""
        for http in (self._http, *self._feeds):
            if http is not None:
                http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


class DRPCClient(Client[ServedRows]):
    """A client that calls the DRPC functions and reads the states of a topology over HTTP.

    Any thread may use it.

    Its answers never go back: each shows at least the batches that earlier answers to this client showed. A request is
    repeated while the server says that it cannot answer yet, which is safe because requests only read.

    Source of the meaning: ``org.apache.storm.utils.DRPCClient``.

    Parameters
    ----------
    url : str
        The server's address, ``"http://host:port"``.
    token : str, optional
        The server's token, or ``env:NAME`` or ``file:path`` that holds it.
    timeout : duration
        The time limit of requests without a timeout. After it the server stops working on the request.
    ca : str, optional
        A PEM file with the authority that signed the certificate of an ``https`` server; the system's authorities if
        omitted.
    cert : tuple of two str, optional
        PEM files with this client's certificate and its key, for a server that requires a certificate.

    Raises
    ------
    TopologyError
        The files of `ca` or `cert` cannot be used.
    MissingPackageError
        The package httpx is not installed.

    Examples
    --------
    >>> from trident_client import DRPCClient
    >>> from trident import Count, MapGet, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> _ = topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count")
    >>> def ask(url):
    ...     with DRPCClient(url) as client:
    ...         return client.execute("count", "dog"), client.get("counts", "cat")
    >>> with topology.start(engine="embedded", name="served") as running, running.serve() as server:
    ...     running.processAllAvailable()
    ...     print(ask(server.url))
    ([Row(word='dog', count=2)], 1)
    """

    def _form(self) -> JsonAnswers:
        return JsonAnswers()
