"""A state in a Delta table on an S3 server that refuses every nth request, or does it and never answers."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.objects import Objects
from tests.support.objects import objects as objects
from tests.support.objects import s3_server as s3_server
from tests.support.refusing_proxy import Refusal, RefusingProxy
from tests.support.soak import some_of
from trident import Count, TridentTopology
from trident.base.errors import StateUnavailableError
from trident.spouts import FixedBatchSpout
from trident.state import DeltaMapState
from trident.testing.local import start_local
from trident_state.delta import compaction, maintenance

BATCHES = [[f"word{number % 3}", f"word{number % 5}", "all"] for number in range(8)]
CASES: list[tuple[Refusal, int]] = [(refusal, every) for refusal in ("refuses", "no reply") for every in (2, 3, 7, 19)]


def topology(objects: Objects, proxy: RefusingProxy) -> TridentTopology:
    soon = {"backoff_config.init_backoff": "5ms", "backoff_config.max_backoff": "50ms"}  # the client asks again
    given = {**objects.server.delta_storage, "AWS_ENDPOINT_URL": proxy.endpoint, **soon}
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    words.persistentAggregate(DeltaMapState.opaque(objects.url, storageOptions=given), Count(), "n", name="counts")
    return made


@pytest.mark.parametrize("case", some_of(CASES, [("refuses", 3), ("no reply", 7)]))
def test_every_batch_counts_once(
    case: tuple[Refusal, int], objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal, every = case
    monkeypatch.setattr(compaction, "LEAST", 3)  # merges go on beside the batches
    monkeypatch.setattr(maintenance, "CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(maintenance, "_PAUSE", 0.01)
    expected = Counter(word for batch in BATCHES for word in batch)
    with RefusingProxy(objects.server.port, every, refusal) as proxy:
        for _ in range(50):  # a start may end with the error; the next one goes on
            try:
                with start_local(topology(objects, proxy), checkpointLocation=tmp_path) as running:
                    running.processAllAvailable(timeout=120)
                    found = dict(running.state("counts").items())
                break
            except StateUnavailableError:
                continue
        assert found == expected
        counts = proxy.counts()
        assert counts["refused"] >= counts["passed"] // (every + 1)
