"""The verbs take, show and explainSpark, which preview a stream over its spout's first batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import Row

from trident.base.errors import TopologyError
from trident.base.run_facts import RunFacts
from trident.plan import step_checks
from trident.plan.nodes import CommittedQuery, StateStep, walk
from trident.stream.base import StreamBase, StreamT
from trident.stream.text_table import text_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PreviewVerbs(StreamBase[StreamT]):
    """Verbs that preview the first batch. They start no run and change no state."""

    __slots__ = ()

    def take(self, n: int, spark: "SparkSession | None" = None) -> list[Row]:
        """Return the first `n` tuples of this stream's result for the spout's first batch.

        The call uses no txid, and changes no state and no position. Spark computes the tuples if a session is given or
        active, or if an operation has no Python form; otherwise this process computes them.

        Raises
        ------
        TopologyError
            If a step of the stream reads or updates a state, which `take` does not run; if the stream consists of
            DRPC requests, which have no first batch; or if the source returns each row once (an iterator, messages
            that are not tracked), because the run would then lack these rows.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> lines = TridentTopology().newStream("lines", FixedBatchSpout("line string", [[("a dog",), ("a cat",)]]))
        >>> lines.flatMap("line", str.split, "word string").take(2)
        [Row(word='a'), Row(word='dog')]
        """
        if not isinstance(n, int) or n < 0:
            raise TopologyError(f"{self._node.step}: take(n) needs a number of tuples, not {n!r}")
        self._check_visible("take")
        from trident.compiler import preview

        with self._looked_at():
            return list(preview.take(self._node, n, spark, _facts()))

    def show(self, n: int = 20, truncate: bool | int = True, spark: "SparkSession | None" = None) -> None:
        """Print the first `n` tuples of this stream's result for the spout's first batch, as `DataFrame.show` does.

        `truncate` limits the length of values: True to 20 characters, a number to that many, False not at all.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.show()
        +----+-+
        |word|n|
        +----+-+
        | dog|2|
        +----+-+
        """
        width = 20 if truncate is True else int(truncate)
        self._check_visible("show")
        print(text_table(self.fields, self.take(n, spark=spark), width))

    def explainSpark(self, mode: str = "simple", spark: "SparkSession | None" = None) -> None:
        """Print Spark's plan for this stream over the spout's first batch, without running it.

        `mode` means the same as in ``DataFrame.explain``: "simple", "extended", "codegen", "cost" or "formatted". If no
        session is given or active, a local one is started.
        """
        self._check_visible("explainSpark")
        from trident.compiler import preview

        with self._looked_at():
            preview.explain(self._node, mode, spark, _facts())

    @contextmanager
    def _looked_at(self) -> Iterator[None]:
        """Remove from the topology, when the block ends, the steps that exist only for this preview."""
        try:
            yield
        finally:
            self._register.looked_at(self._node)

    def _check_visible(self, verb: str) -> None:
        if step_checks.is_request(self._node):
            raise TopologyError(
                f"{self._node.step}: {verb} reads a spout's first batch, but this stream has DRPC requests; start "
                f"the topology and call running.drpc.execute(...)"
            )
        for node in walk(self._node):
            if isinstance(node, StateStep | CommittedQuery):
                raise TopologyError(
                    f"{self._node.step}: {verb} cannot run {node.step} ({node.site.location}), which has a state; "
                    f"{verb} the stream before it, or start the topology"
                )


def _facts() -> RunFacts:
    from trident.configuration.layers import user_config

    return RunFacts("", user_config("topology"))
