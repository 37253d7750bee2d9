"""Tuples counted as metrics: once for each committed batch, by label, and without harm to a batch."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trident import TridentTopology
from trident.errors import TopologyError, TypeDeclarationError
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("nothing_left_running")

SALES = [[("a", 3), ("b", 1)], [("a", 4), (None, 2)], []]


def sales(topology: TridentTopology, batches: Any = SALES) -> Any:
    return topology.newStream("sales", FixedBatchSpout("shop string, n long", batches))


def run(topology: TridentTopology, checkpoint: Path) -> Any:
    with start_local(topology, name="t", checkpointLocation=checkpoint) as running:
        running.processAllAvailable(timeout=20)
        return running.metrics


def test_numbers_and_tuples_are_counted_by_label(tmp_path: Path) -> None:
    topology = TridentTopology()
    stream = sales(topology)
    stream.countMetric("sold_total", "Pieces sold.", labels="shop", by="n")
    stream.countMetric("sales_total", "Sales.")
    metrics = run(topology, tmp_path)
    labels = {"topology": "t", "group": "sales"}
    assert [metrics.value("sold_total", shop=shop, **labels) for shop in ("a", "b", "")] == [7, 1, 2]
    assert metrics.value("sales_total", **labels) == 4


def test_labels_may_have_the_names_of_pythons_parameters(tmp_path: Path) -> None:
    topology = TridentTopology()
    stream = topology.newStream("sales", FixedBatchSpout("name string, help string, by string", [[("a", "b", "c")]]))
    stream.countMetric("sales_total", labels=["name", "help", "by"])
    labels = {"topology": "t", "group": "sales", "name": "a", "help": "b", "by": "c"}
    assert dict(_series(run(topology, tmp_path), "sales_total")) == {tuple(sorted(labels.items())): 1}


def _series(metrics: Any, name: str) -> Any:
    samples = [sample for metric in metrics.collect() for sample in metric.samples if sample.name == name]
    return [(tuple(sorted(sample.labels.items())), sample.value) for sample in samples]


def test_a_batch_that_is_committed_at_the_second_try_counts_once(tmp_path: Path) -> None:
    topology, tries = TridentTopology(), []

    def fails_once(table: pa.Table, txid: int, attempt: int) -> None:
        tries.append((txid, attempt))
        if txid == 2 and attempt == 0:
            raise OSError("this time")

    stream = sales(topology)
    stream.countMetric("sold_total", by="n")
    stream.foreachArrow(fails_once)
    assert run(topology, tmp_path).value("sold_total", topology="t", group="sales") == 10
    assert tries == [(1, 0), (2, 0), (2, 1), (3, 0)]


def test_a_negative_sum_is_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topology = TridentTopology()
    sales(topology, [[("a", 3), ("b", -1)]]).countMetric("sold_total", labels="shop", by="n")
    metrics = run(topology, tmp_path)
    assert [labels for labels, _ in _series(metrics, "sold_total")] == [
        (("group", "sales"), ("shop", "a"), ("topology", "t"))
    ]
    assert "batch 1 adds -1 to sold_total{'shop': 'b'}; a counter only grows, so this value is skipped" in caplog.text


def test_what_cannot_be_counted_is_refused_in_its_line() -> None:
    stream = sales(TridentTopology())
    for metric in ("9", "sold-total", "trident_sold_total", 7):
        with pytest.raises(TopologyError, match=r"metric=.*: expected letters, digits, '_' and ':'"):
            stream.countMetric(metric)
    with pytest.raises(TypeDeclarationError, match="by: field 'shop' is string: expected a number"):
        stream.countMetric("sold_total", by="shop")
    with pytest.raises(TopologyError, match="field 'group' cannot be a label"):
        stream.rename("shop", "group").countMetric("sold_total", labels="group")
    stream.countMetric("sold_total")
    with pytest.raises(TopologyError, match=r"countMetric\.sold_total"):
        stream.countMetric("sold_total")


def test_names_that_prometheus_takes_for_one_are_refused_in_the_line_of_the_second() -> None:
    stream = sales(TridentTopology())
    stream.countMetric("sold", by="n")
    with pytest.raises(
        TopologyError,
        match=r"'sold_total': Prometheus appends '_total' to .*, so it has the same name as 'sold' of sales/1",
    ):
        stream.countMetric("sold_total")
    with pytest.raises(TopologyError, match=r"it has the labels \(shop\) here, but \(\) in sales/1"):
        stream.countMetric("sold", labels="shop")


def test_a_metric_that_is_refused_does_not_stop_a_batch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topology = TridentTopology()
    sales(topology).countMetric("sold_total", labels="shop").countMetric("pieces_total", by="n")
    with start_local(topology, name="t", checkpointLocation=tmp_path, active=False) as running:
        running.metrics.set("sold_total", "A gauge of the user's.", 1)
        running.metrics.count("pieces_total", "A counter of the user's.", 1)
        running.activate()
        running.processAllAvailable(timeout=20)
        assert running.asOfTxid == {"sales": 3}
    told = [
        record.getMessage() for record in caplog.records if "the metric is no longer counted:" in record.getMessage()
    ]
    assert len(told) == 2 and "is a gauge, but was used as a counter" in told[0]


def test_nan_and_mixed_numbers_are_no_reason_to_stop(tmp_path: Path) -> None:
    topology = TridentTopology()
    numbers = FixedBatchSpout("d double, e decimal(5,2)", [[(float("nan"), 1), (1.5, 2)], [(2.0, None)]])
    stream = topology.newStream("sales", numbers)
    stream.countMetric("sold_total", by="e").countMetric("nan_total", by="d")
    with start_local(topology, name="t", checkpointLocation=tmp_path, active=False) as running:
        running.metrics.count("sold_total", "Of the user's own.", 0.5, topology="t", group="sales")
        running.activate()
        running.processAllAvailable(timeout=20)
        metrics = running.metrics
    assert metrics.value("sold_total", topology="t", group="sales") == 3.5
    assert metrics.value("nan_total", topology="t", group="sales") == 2.0


def test_a_label_with_many_values_has_a_cap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident.base.metrics.MOST_SERIES", 5)
    topology = TridentTopology()
    batches = [[(f"shop {n}", n) for n in range(20)], [("shop 1", 100), ("shop 19", 100)]]
    sales(topology, batches).countMetric("sold_total", labels="shop", by="n")
    metrics = run(topology, tmp_path)
    series = {dict(labels)["shop"]: value for labels, value in _series(metrics, "sold_total")}
    assert len(series) == 6 and sum(series.values()) == 190 + 200
    assert len([record for record in caplog.records if "Choose labels with few values" in record.getMessage()]) == 1
