"""What leaves the topology: foreachBatch, foreachArrow."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from trident.base.callsite import site_of
from trident.base.errors import TopologyError
from trident.base.names import brief, check_name
from trident.base.step import Step
from trident.operations.reading import bind, is_coroutine, is_generator
from trident.plan import nodes, rules
from trident.stream.base import StreamBase

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from trident.stream.stream import Stream


class OutputVerbs(StreamBase):
    """Verbs that hand every batch to something outside."""

    __slots__ = ()

    def foreachBatch(self, function: "Callable[[DataFrame, int, int], object]", name: str | None = None) -> "Stream":
        """Call ``function(df, txid, attempt)`` with every batch, as a DataFrame, and give this stream again.

        It is called on the driver, in txid order, after every state of the batch group holds the batch, and before the
        spout hears that the batch is done. At least once for every txid, and for one txid always with the same rows,
        because they are frozen first: a function that replaces what it wrote for this txid makes it exactly once.
        `attempt` is 0 where this txid was certainly never handed over before; any other number means that it may have
        been. An empty batch is a batch. Meaning: ``pyspark.sql.streaming.DataStreamWriter.foreachBatch``.

        Parameters
        ----------
        function : callable
            The DataFrame belongs to a session of the run's own, as in Structured Streaming, and is good until the
            function returns. What it raises fails the commit: an OSError (a connection, a timeout, a full disk) is
            tried again for `commitRetrySecs`, anything else `maxAttempts` times; then the group stops with the cause,
            and the batch stays frozen for the next start.
        name : str, optional
            The output's identity over restarts; ``<stream>.foreachBatch`` if omitted.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog"]]))
        >>> words.foreachBatch(lambda df, txid, attempt: df.write.mode("overwrite").parquet(f"words/{txid}"))
        Stream(words/0:newStream(FixedBatchSpout): word string)
        """
        return self._foreach("foreachBatch", function, name, frame=True)

    def foreachArrow(self, function: "Callable[[pa.Table, int, int], object]", name: str | None = None) -> "Stream":
        """Call ``function(table, txid, attempt)`` with every batch, as one Arrow table on the driver.

        Otherwise as `foreachBatch`. It costs no Spark job and runs without Spark, too; all tuples of a batch come to
        the driver.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.testing.local import start_local
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog"], ["cat", "cow"]]))
        >>> _ = words.foreachArrow(lambda table, txid, attempt: print(txid, table["word"].to_pylist()))
        >>> with start_local(topology) as running:
        ...     running.processAllAvailable()
        1 ['dog']
        2 ['cat', 'cow']
        """
        return self._foreach("foreachArrow", function, name, frame=False)

    def _foreach(self, verb: str, function: Any, name: str | None, frame: bool) -> "Stream":
        step = self._step(verb)
        if not callable(function):
            raise step.error(TopologyError, f"{brief(function)} is no callable; write {verb}(function, name=...)")
        site = site_of(function)
        step = step.with_function(site)
        what = "a DataFrame" if frame else "an Arrow table"
        bind(function, 3, f"it is called as function(batch, txid, attempt), with {what} and two numbers", step)
        if is_coroutine(function) or is_generator(function):
            raise step.error(TopologyError, "it is called, and what it returns means nothing: give a plain function")
        check_output(self, step)
        node = nodes.ForeachBatch(
            self._node,
            output_name(self, verb, name, step),
            function,
            site,
            frame,
            step=step.label,
            site=step.called,
            schema=self.schema,
        )
        self._register.add(self._label, node)
        return cast("Stream", self)


def check_output(stream: StreamBase, step: Step) -> None:
    """Refuse requests: they end in an answer."""
    if rules.is_request(stream._node):
        raise step.error(TopologyError, "DRPC requests leave as the function's answer, and nowhere else")


def output_name(stream: StreamBase, verb: str, name: str | None, step: Step) -> str:
    """The output's name, which no other has."""
    try:
        found = check_name("an output", f"{stream._label}.{verb}" if name is None else name)
    except TopologyError as error:
        raise step.error(TopologyError, f"{error}{'; give it a name=' if name is None else ''}") from None
    stream._register.check_free_sink(found, step)
    return found
