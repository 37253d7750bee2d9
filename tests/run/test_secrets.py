"""A password appears nowhere: not in what is shown, told, raised, logged or written, nor in Spark's confs."""

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.errors import TridentError
from trident.log import RedisLog
from trident.spouts import FeederBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local

PASSWORD = "hunter2-very-secret"  # noqa: S105


pytestmark = pytest.mark.usefixtures("nothing_left_running")


def counting(feeder: FeederBatchSpout, url: str) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", feeder).groupBy("word")
    words.persistentAggregate(RedisMapState.opaque(url), Count(), "count", name="counts")
    return topology


def texts_of(error: BaseException | None) -> list[str]:
    """An error and all that led to it, as tracebacks print them."""
    found = []
    while error is not None:
        found += [str(error), repr(error)]
        error = error.__cause__
    return found


def failed(call: Any) -> list[str]:
    with pytest.raises(TridentError) as caught:
        call()
    return texts_of(caught.value)


def test_nobody_is_told_the_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    with (
        caplog.at_level(logging.DEBUG),
        warnings.catch_warnings(record=True) as warned,
        RedisServer(tmp_path / "redis", password=PASSWORD) as server,
    ):
        warnings.simplefilter("always")
        log = RedisLog(server.url, requireDurable=False, retrySecs=0.2)
        feeder = FeederBatchSpout("word string")
        topology = counting(feeder, server.url)
        seen += [repr(log), repr(topology), *(topology.draw(form) for form in ("svg", "dot", "mermaid"))]
        topology.explain()
        options: dict[str, Any] = {"name": "wc", "checkpointLocation": tmp_path / "ckpt", "commitRetrySecs": 0.5}
        running = start_local(topology, log=log, **options)
        running.progress.listen(lambda event: seen.append(repr(event)))
        feeder.feed(["a", "b"])
        running.processAllAvailable(timeout=20)
        seen += [repr(running), running._repr_html_(), repr(running.status), repr(running.recentProgress)]
        seen += [repr(running.state("counts")), repr(running.lastProgress)]
        for name in server.client.keys("*"):  # what others may read there
            seen.append(repr(server.client.hgetall(name)))
        server.kill()
        feeder.feed(["a"], timeout=0)
        seen += failed(lambda: running.processAllAvailable(timeout=20))
        seen += [repr(running.status), *texts_of(running.exception())]
        running.stop()
        seen += failed(lambda: start_local(topology, log=log, **options))
        server.start()
        wrong = server.url.replace(PASSWORD, f"{PASSWORD}x")
        seen += failed(lambda: start_local(counting(feeder, wrong), log=log, **options))
        seen += failed(lambda: start_local(topology, log=RedisLog(wrong), **options))
        seen += failed(lambda: start_local(topology, log=server.url, **options))
        for unknown in (f"{server.url}?nonsense=1", "env:TRIDENT_TEST_NOT_SET"):
            seen += failed(lambda url=unknown: start_local(counting(feeder, url), log=log, **options))
        for odd in (server.url.replace("@", "/@"), server.url.replace("@", "#@"), f"{server.url}/x", f"{server.url}:y"):
            with pytest.raises(ValueError, match="redis") as refused:
                RedisMapState.opaque(odd)
            seen.append(str(refused.value))
        seen += failed(lambda: start_local(topology, name="wc", checkpointLocation=tmp_path / "another"))
    seen += [str(warning.message) for warning in warned]
    seen += [record.getMessage() for record in caplog.records] + [caplog.text]
    shown = capsys.readouterr()
    seen += [shown.out, shown.err]
    assert any("***" in text for text in seen), "urls are shown, without their secrets"
    for text in seen:
        assert PASSWORD not in text, text
    for path in [*(tmp_path / "ckpt").rglob("*"), *(tmp_path / "another").rglob("*")]:
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path


def test_a_start_tells_what_the_server_could_do_better(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", "none", password=PASSWORD) as server:
        topology = counting(FeederBatchSpout("word string"), server.url)
        with pytest.warns(RuntimeWarning, match=r"state 'counts': appendonly is off at redis://:\*+@127.0.0.1") as told:
            start_local(topology, name="wc", checkpointLocation=tmp_path / "ckpt").stop()
        assert len(told) == 1


@pytest.mark.spark
def test_a_url_is_in_no_conf_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", password=PASSWORD) as server:
        feeder = FeederBatchSpout("word string")
        topology = counting(feeder, server.url)
        with topology.start(spark, name="wc", checkpointLocation=tmp_path / "ckpt") as running:
            feeder.feed(["a"])
            running.processAllAvailable(timeout=60)
            confs = spark.conf.getAll
            pairs = confs() if callable(confs) else confs
            assert pairs and PASSWORD not in repr(pairs) and str(server.port) not in repr(pairs)
