"""The registry of metrics: its rules, and what Prometheus reads."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from trident.base.metrics import MetricsRegistry


def test_another_registry_of_prometheus_can_register_it() -> None:
    metrics, all_metrics = MetricsRegistry(), CollectorRegistry()
    all_metrics.register(metrics)
    metrics.count("sold_total", "Pieces sold.", 2, shop="a")
    metrics.observe("wait_seconds", "Seconds of waits.", 0.003)
    text = generate_latest(all_metrics).decode()
    assert 'sold_total{shop="a"} 2.0' in text
    assert 'wait_seconds_bucket{le="0.005"} 1.0' in text and 'wait_seconds_bucket{le="0.0025"} 0.0' in text
    assert "_created" not in text, "times of creation would be two more series for each one"


def test_no_label_and_no_help_text_leaves_its_place() -> None:
    metrics, odd = MetricsRegistry(), ['a"} 1\nevil_total{x="', "back\\slash\n", "\u2028", "", "é\x00", "}"]
    for number, label in enumerate(odd):
        metrics.count("sold_total", 'Pieces "sold"\n# TYPE evil counter\nevil 1', number, shop=label)
    all_metrics = CollectorRegistry()
    all_metrics.register(metrics)
    (family,) = text_string_to_metric_families(generate_latest(all_metrics).decode())
    assert {sample.labels["shop"]: sample.value for sample in family.samples} == dict(zip(odd, range(6), strict=True))


def test_a_collected_copy_does_not_change() -> None:
    metrics = MetricsRegistry()
    metrics.count("sold_total", "Pieces sold.", 2)
    (before,) = metrics.collect()
    metrics.count("sold_total", "Pieces sold.", 2)
    assert [sample.value for sample in before.samples] == [2.0] and metrics.value("sold_total") == 4.0


def test_what_prometheus_takes_for_one_metric_is_refused() -> None:
    metrics = MetricsRegistry()
    metrics.count("sold_total", "Pieces sold.", 1, shop="a")
    with pytest.raises(ValueError, match="'sold_total' is a counter, but was used as a gauge"):
        metrics.set("sold_total", "Pieces sold.", 1, shop="a")
    with pytest.raises(ValueError, match="'sold_total' has the labels shop, but was used with city, shop"):
        metrics.count("sold_total", "Pieces sold.", 1, shop="a", city="b")
    with pytest.raises(ValueError, match="'sold': in Prometheus it has the same name as 'sold_total'"):
        metrics.count("sold", "Pieces sold.", 1)
    with pytest.raises(ValueError, match="got -1"):
        metrics.count("sold_total", "Pieces sold.", -1, shop="a")
    metrics.set("sold", "A gauge keeps its name.", 3)
    metrics.set("wait_sum", "Not a histogram.", 1)
    with pytest.raises(ValueError, match="'wait': in Prometheus it has the same name as 'wait_sum'"):
        metrics.observe("wait", "Seconds of waits.", 1)
    assert metrics.value("sold_total", shop="a") == 1 and metrics.value("sold") == 3
