"""AsyncDRPCClient: a client of a served topology for asyncio programs, whose answers are PySpark's Rows.

`python -m tests.house.blocking_client` writes `drpc_client.py` from this file. Change this file, and run that command.
"""

from trident.client.answers import ArrowAnswers, ServedRows
from trident_client.async_client import AsyncClient


class AsyncDRPCClient(AsyncClient[ServedRows]):
    """A client that calls the DRPC functions and reads the states of a topology over HTTP.

    Many tasks of one event loop may use it at once.

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
        The package httpx is not installed (extra ``trident-pyspark[client]``).

    Examples
    --------
    >>> import asyncio
    >>> from trident import AsyncDRPCClient, Count, MapGet, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> _ = topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count")
    >>> async def ask(url):
    ...     async with AsyncDRPCClient(url) as client:
    ...         return await client.execute("count", "dog"), await client.get("counts", "cat")
    >>> with topology.start(engine="embedded", name="served") as running, running.serve() as server:
    ...     running.processAllAvailable()
    ...     print(asyncio.run(ask(server.url)))
    ([Row(word='dog', count=2)], 1)
    """

    def _form(self) -> ArrowAnswers:
        return ArrowAnswers()
