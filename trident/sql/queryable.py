"""The method `sql` of a running topology and of an opened one."""

from trident.base.durations import Duration
from trident.reads.as_of_argument import AsOfBatch
from trident.sql.sql_limits import SqlLimits
from trident.sql.sql_result import Arguments, SqlResult
from trident.sql.state_queries import StateQueries


class Queryable:
    """A topology with states that answer SQL."""

    queries: StateQueries
    """The queries of this topology, for a server, which checks rights and ends queries of clients that leave."""

    def sql(
        self,
        query: str,
        args: Arguments = None,
        *,
        timeout: Duration = "30 seconds",
        maxRows: int = 1_000_000,
        maxBytes: int = 1 << 30,
        asOf: AsOfBatch | None = None,
    ) -> SqlResult:
        """Run a SQL query over the states, by DuckDB, as of one committed txid of each batch group.

        Each state is a table of its name, with the columns of ``state(name).toArrow()``: the key fields, then the
        value, or the fields of several aggregates. A query can only read: it has no access to files, the network,
        settings or variables. Only the states that it names are read. A state whose whole key is compared with
        constants is read by key. Commits wait at most for the read of the states, as for ``toArrow``, and never for
        the query, which runs in a separate process. Meaning: ``pyspark.sql.SparkSession.sql``.

        Parameters
        ----------
        query : str
            One statement in DuckDB's SQL: SELECT, WITH, VALUES, FROM, DESCRIBE or SUMMARIZE.
        args : list or dict, optional
            The values of the parameters: a list for ``?``, a dict for ``$name``.
        timeout : duration
            The most time that the query may take.
        maxRows : int
            The most rows of the result. A result with more of them is an error, and is not cut off.
        maxBytes : int
            The most bytes of the states that are read, and once more the most bytes of memory that the query may use,
            with its result. At least 16 MiB.
        asOf : int, str or datetime, optional
            Read the states as of an earlier batch: a txid, if all states of the query belong to one batch group, or a
            time, as ``state(name).asOf`` takes them. Each state must keep the batch.

        Returns
        -------
        SqlResult
            A sequence of Rows, with ``toArrow()``, ``toPandas()``, ``collect()`` and ``asOfTxid``. Times are in UTC. A
            sum of whole numbers, or an unsigned number, is a bigint, or a decimal(38,0) if it does not fit.

        Raises
        ------
        SqlError
            The query is wrong: its syntax, a column, a value. The message is DuckDB's, ``position`` its place. Or the
            result has an interval, or another type or time that results do not have; the message names a cast.
        SqlNotAllowedError
            The query does anything other than to read states.
        SqlLimitError, SqlTimeoutError
            The query exceeds a limit.
        TxidNotKeptError
            A state does not keep the batch of `asOf`; the message names the txids that it keeps.
        StateNotFoundError
            There is no state of a name in the query; the message lists them.
        MissingPackageError
            The package of the extra ``trident-pyspark[sql]`` is not installed.

        Examples
        --------
        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> from trident.testing.local import start_local
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog", "cow"]]))
        >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        >>> with start_local(topology, name="sql") as running:
        ...     running.processAllAvailable()
        ...     result = running.sql("select n, list(word order by word) as words from counts group by n order by n")
        ...     print(result.collect(), result.asOfTxid)
        ...     print(running.sql("select n from counts where word = ?", ["dog"]).first().n)
        [Row(n=1, words=['cat', 'cow']), Row(n=2, words=['dog'])] 2
        2
        """
        return self.queries.run(query, args, SqlLimits.of(timeout, maxRows, maxBytes), asOf=asOf)
