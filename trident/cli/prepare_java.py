"""``trident prepare-java``: create the class archive with which Spark's JVM starts in half the time."""

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import click

from trident.base.class_archive import make_class_archive


@click.command("prepare-java")
def prepare_java() -> None:
    """Create an archive of Spark's classes, which halves the start time of a Spark that the library starts.

    It takes about a minute and some 160 MB in the cache folder ($XDG_CACHE_HOME, otherwise ~/.cache). Make it again
    after an update of Java or PySpark; until then Spark starts as it does without one.
    """
    file = make_class_archive([sys.executable, "-m", "trident.cli.prepare_java"])
    click.echo(f"{file}: {file.stat().st_size >> 20} MB")


def run_small_batches() -> None:
    """Run small batches of a native and of a Python operation on a new Spark, and end its JVM."""
    from pyspark import SparkContext

    from trident import Count, TridentTopology, expr
    from trident.cluster.driver_session import driver_session
    from trident.spouts import FixedBatchSpout
    from trident.state import MemoryMapState

    with tempfile.TemporaryDirectory() as folder:
        confs = {"spark.ui.port": "0", "spark.sql.warehouse.dir": f"{folder}/warehouse"}
        with driver_session("prepare-java", "local[2]", confs) as spark:
            for name, split in (("native", expr("explode(split(line, ' '))")), ("python", _words)):
                topology = TridentTopology()
                lines = topology.newStream("lines", FixedBatchSpout("line string", [[("the cow",)], [("the moon",)]]))
                words = lines.each("line", split, "word string")
                words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
                with topology.start(spark, name=name, checkpointLocation=f"{folder}/{name}") as running:
                    running.processAllAvailable()
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    gateway.proc.stdin.close()
    gateway.proc.wait()  # the JVM writes the archive when it ends


def _words(line: str) -> Iterator[str]:
    yield from line.split(" ")


if __name__ == "__main__":
    run_small_batches()
