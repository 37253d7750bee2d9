"""The verbs min, minBy, max and maxBy."""

from typing import Any

from trident.base.callsite import CallSite, site_of
from trident.base.names import FieldsLike
from trident.base.verb_call import Step
from trident.operations.selections import Comparator, Extreme, First, Picking, check_comparator, check_ordered
from trident.plan import nodes
from trident.stream.base import StreamBase, StreamT


class ExtremeVerbs(StreamBase[StreamT]):
    """Verbs that keep some tuples whole and drop the others."""

    __slots__ = ()

    def min(self, comparator: Comparator, *, scope: nodes.Scope = "partition") -> StreamT:
        """Keep the least tuple of every partition, or of the batch, by a comparator. See `max`.

        Meaning: ``org.apache.storm.trident.Stream.min``.
        """
        return self._compared("min", comparator, scope)

    def max(self, comparator: Comparator, *, scope: nodes.Scope = "partition") -> StreamT:
        """Keep the greatest tuple of every partition, or of the batch, by a comparator.

        Among equal tuples the last one stays. An empty partition or batch stays empty.

        Meaning: ``org.apache.storm.trident.Stream.max``, which also keeps one tuple of every partition.

        Parameters
        ----------
        comparator : callable
            A function of two TridentTuples that returns a number below 0, 0 or above 0, as the first is less than,
            equal to or greater than the second.
        scope : "partition" or "batch"
            Keep one tuple of every partition, as in Trident, or one of the whole batch.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox", "cow", "ewe"]]))
        >>> words.max(lambda a, b: len(a.word) - len(b.word), scope="batch").take(3)
        [Row(word='ewe')]
        """
        return self._compared("max", comparator, scope)

    def minBy(
        self, field: FieldsLike, comparator: Comparator | None = None, *, scope: nodes.Scope = "partition"
    ) -> StreamT:
        """Keep the tuple with the least value of a field, of every partition or of the batch. See `maxBy`.

        Meaning: ``org.apache.storm.trident.Stream.minBy``.
        """
        return self._by("minBy", field, comparator, scope)

    def maxBy(
        self, field: FieldsLike, comparator: Comparator | None = None, *, scope: nodes.Scope = "partition"
    ) -> StreamT:
        """Keep the tuple with the greatest value of a field, of every partition or of the batch.

        Among equal values the last tuple stays. Nulls are skipped; if there are only nulls, no tuple is kept. Meaning:
        ``org.apache.storm.trident.Stream.maxBy``, which fails if there are only nulls.

        Parameters
        ----------
        field : str
            One field, in Spark's order: NaN is greater than every number.
        comparator : callable, optional
            A function of two values of the field, as in `max`: for an order that differs from Spark's, or for values
            that have no order in Spark.
        scope : "partition" or "batch"
            Keep one tuple of every partition, as in Trident, or one of the whole batch.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> batch = [("ox", 3), ("cow", 7), ("ewe", None)]
        >>> herds = TridentTopology().newStream("herds", FixedBatchSpout("name string, n long", [batch]))
        >>> herds.maxBy("n", scope="batch").take(3)
        [Row(name='cow', n=7)]
        """
        return self._by("maxBy", field, comparator, scope)

    def _compared(self, verb: str, comparator: Any, scope: nodes.Scope) -> StreamT:
        step = self._step(verb)
        check_comparator(comparator, "TridentTuples", step)
        step = step.with_function(site_of(comparator))
        picking = Extreme(verb == "max", site_of(comparator), comparator, whole=True)
        return self._picked(picking, self.fields, scope, step)

    def _by(self, verb: str, field: FieldsLike, comparator: Any, scope: nodes.Scope) -> StreamT:
        step = self._step(verb)
        names = self._inputs(field, step)
        if len(names) != 1:
            raise step.wrong(f"{verb} takes one field, not {len(names)}; write {verb}('n')")
        if comparator is None:
            check_ordered(self.schema[names[0]], f"; give a comparator, {verb}({names[0]!r}, comparator)", step)
            step = Step(f"{step.label}({names[0]})", step.called)
            return self._picked(Extreme(verb == "maxBy", CallSite(verb)), names, scope, step)
        check_comparator(comparator, f"values of {names[0]!r}", step)
        step = step.with_function(site_of(comparator))
        return self._picked(Extreme(verb == "maxBy", site_of(comparator), comparator), names, scope, step)

    def _first(self, count: int, sortField: FieldsLike | None, reverse: bool) -> StreamT:
        """Keep the tuples of each batch that ``FirstN(count, sortField, reverse)`` keeps."""
        step = self._step("FirstN")
        names = () if sortField is None else self._inputs(sortField, step)
        if len(names) > 1:
            raise step.wrong(f"FirstN sorts by one field, not {len(names)}")
        for name in names:
            check_ordered(self.schema[name], "; sort by another field", step)
        return self._picked(First(count, CallSite("FirstN"), reverse), names, "batch", step)

    def _picked(self, picking: Picking, inputs: tuple[str, ...], scope: nodes.Scope, step: Step) -> StreamT:
        if scope not in ("partition", "batch"):
            raise step.wrong(f"scope is 'partition' or 'batch', not {scope!r}")
        return self._then(nodes.Pick(self._node, inputs, picking, scope, **step.gives(self.schema)))
