"""`spark-submit --py-files` on a standalone cluster: driver and workers have the package from the archive alone."""

import json
import os
import stat
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.spark import SHORT_LIVED
from tests.support.standalone import HOME, StandaloneCluster

ROOT = Path(__file__).parents[2]
PACKAGES = ("trident", "trident_client", "state/trident_state", "spouts/trident_spouts")

FUNCTIONS = """
import trident

def split(line):
    yield from line.split()

def origin(word):
    return trident.__file__
"""

APP = """
import json, sys
from my_functions import origin, split
from pyspark.sql import SparkSession
import trident
from trident import CollectSet, Count, TridentTopology
from trident.spouts import FileSpout
from trident.state import MemoryMapState

topology = TridentTopology()
lines = topology.newStream("lines", FileSpout(sys.argv[1] + "/in/*.txt", maxFilesPerBatch=1))
words = lines.each("line", split, "word string").each("word", origin, "origin string").parallelismHint(2)
words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
words.persistentAggregate(MemoryMapState.opaque(), "origin", CollectSet(), "origins", name="origins")
spark = SparkSession.builder.getOrCreate()
with topology.start(spark, name="words", checkpointLocation=sys.argv[1] + "/checkpoint", driverRows=0) as running:
    running.processAllAvailable()
    counts, workers = dict(running.state("counts").items()), running.state("origins").value
print("RESULT", json.dumps([spark.sparkContext.master, trident.__file__, workers, counts]))
"""


def archive(folder: Path) -> Path:
    """Pack the package as the wheel does, under a name that Spark knows."""
    path = folder / "trident_pyspark.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in map(ROOT.joinpath, PACKAGES):
            for file in package.rglob("*"):
                if file.suffix in (".py", ".pyi", ".lua", ".typed"):
                    packed.write(file, file.relative_to(package.parent))
    return path


def python_without_the_package(folder: Path) -> Path:
    """Make a Python that has the dependencies, and not the package, which is installed by a .pth file here."""
    script = folder / "python"
    packages = sysconfig.get_path("purelib")
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    absent = subprocess.run([script, "-c", "import pyarrow, trident"], capture_output=True, text=True, cwd=folder)
    assert "No module named 'trident'" in absent.stderr
    return script


@pytest.mark.spark
def test_driver_and_workers_import_the_package_from_the_archive(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, line in enumerate(["the cow", "the moon the man"]):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{line}\n")
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "my_functions.py").write_text(FUNCTIONS)
    python = python_without_the_package(tmp_path)
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_API_MODE")}
    settings = {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": SHORT_LIVED}
    with StandaloneCluster(tmp_path, workers=1) as cluster:
        command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.url]
        command += ["--py-files", f"{archive(tmp_path)},{tmp_path}/my_functions.py"]
        command += ["--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false"]
        ran = subprocess.run(
            [*command, str(tmp_path / "app.py"), str(tmp_path)],
            env=variables | settings,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
    master, driver, workers, counts = json.loads(line.removeprefix("RESULT "))
    assert master == cluster.url and counts == {"the": 3, "cow": 1, "moon": 1, "man": 1}
    assert all("trident_pyspark.zip/" in origin for origin in [driver, *workers]) and workers
