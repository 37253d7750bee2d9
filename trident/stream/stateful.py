"""The verbs of the streams of dropDuplicates and statefulEach: late tuples, the state and its watermark."""

from trident.base.spark_types import ddl
from trident.plan import nodes
from trident.stream.base import StreamT
from trident.stream.persist import PersistVerbs
from trident.stream.state import StateT
from trident.stream.windowed import late_for


class StatefulVerbs(PersistVerbs[StreamT, StateT]):
    """Verbs that only the streams of `dropDuplicates` and `statefulEach` have."""

    __slots__ = ()

    def late(self) -> StreamT:
        """Return the late tuples as a stream: those older than the watermark, and those without a time.

        A late tuple is emitted unchanged, in the batch in which it came. Raises TopologyError without event time.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> orders = TridentTopology().newStream("orders", FixedBatchSpout("id long, at timestamp", []))
        >>> orders.dropDuplicates("id", timestampField="at", within="10 minutes").late()
        Stream(orders/2:late: id bigint, at timestamp)
        """
        step = self._register.step(self._label, "late")
        if self._update.watermark is None:
            raise step.wrong(f"{self._update.step} has no timestampField, so none of its tuples is late")
        return self._new(late_for(self, self._update, self._update.source, step), self._label)

    def state(self) -> StateT:
        """Return the state that remembers the keys, for `stateQuery`.

        >>> from trident import MapGet, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> orders = topology.newStream("orders", FixedBatchSpout("id long", []))
        >>> seen = orders.dropDuplicates("id").state()
        >>> topology.newDRPCStream("seen", "id long").stateQuery(seen, "id", MapGet(), "txid")
        Stream(seen()/1:stateQuery(MapGet): id bigint, txid bigint)
        """
        return self._state_of(self._update)

    def watermark(self) -> StateT:
        """Return the state with the watermark, for `stateQuery` with SnapshotGet.

        Raises TopologyError without event time.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> orders = TridentTopology().newStream("orders", FixedBatchSpout("id long, at timestamp", []))
        >>> orders.dropDuplicates("id", timestampField="at", within="10 minutes").watermark()
        TridentState('orders.seen.watermark': watermark struct<watermark:timestamp,seen:bigint,then:timestamp>; opaque)
        """
        if self._update.watermark is None:
            step = self._register.step(self._label, "watermark")
            raise step.wrong(f"{self._update.step} has no timestampField, so it has no watermark")
        return self._state_of(self._update.watermark)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._update.step}: {ddl(self.schema)})"

    @property
    def _update(self) -> nodes.PartitionPersist:
        assert isinstance(self._node, nodes.Emitted)
        assert isinstance(self._node.source, nodes.PartitionPersist)
        return self._node.source
