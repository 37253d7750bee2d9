"""Options as other systems name them: each is refused with what to write here."""

import pytest

from trident import Count, TridentTopology
from trident.configuration.options_elsewhere import elsewhere
from trident.configuration.start_options import OPTIONS
from trident.errors import TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

STORM = {
    "topology.acker.executors": "ledger=True",
    "numAckers": "ledger=True",
    "topology.workers": "spark.executor.instances",
    "workers": "spark.executor.instances",
    "topology.state.checkpoint.interval.ms": "every committed batch is a checkpoint",
    "checkpointInterval": "every committed batch is a checkpoint",
    "topology.state.provider": "stateProvider",
    "topology.debug": "write debug=",
    "topology.stats.sample.rate": "running.metrics",
    "topology.max.task.parallelism": "parallelismHints",
    "topology.message.timeout.secs": "write messageTimeoutSecs=",
    "topology.max.spout.pending": "write maxSpoutPending=",
    "topology.transfer.buffer.size": "maxSpoutPending",
    "transaction.exactly.once.mode": "requireExactlyOnce=True",
    "topology.enable.message.timeouts": "messageTimeoutSecs",
    "topology.metrics.consumer.register": "running.progress.listen",
    "topology.auto.task.hooks": "running.progress.listen",
}


@pytest.mark.parametrize(("option", "hint"), STORM.items())
def test_an_option_of_storm_is_refused_with_what_to_write(option: str, hint: str) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with pytest.raises(TopologyError, match=f"start has no option '{option}': .*{hint}"):
        topology.start(engine="embedded", **{option: 1})


def test_an_option_of_a_start_is_none_of_another_system() -> None:
    assert [option for option in OPTIONS if elsewhere(option, tuple(OPTIONS)) is not None] == []
