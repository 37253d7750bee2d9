"""Submitted topologies: from the shell, with drivers that are processes, which start from what is stored alone."""

import os
import shutil
import signal
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.stored import PROGRAM, ROOT, Stored, expected
from tests.support.processes import stop
from tests.support.server import free_port
from tests.support.waiting import wait_until
from trident.base.errors import (
    GuaranteeError,
    LogError,
    SparkSetupError,
    StateUnavailableError,
    TopologyActiveError,
    TopologyError,
    TopologyNotFoundError,
    TridentError,
)
from trident.cli import lifecycle
from trident.cluster import submission
from trident.cluster.code_archive import digest, pack
from trident.cluster.stored_driver import drive
from trident.cluster.stored_topology import Home, Wish
from trident.cluster.submission import submit


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "state"), str(ROOT / "spouts")]))
    made = Stored(tmp_path)
    yield made
    made.end()


def test_a_topology_lives_on_from_its_stored_form_alone(stored: Stored) -> None:
    """From submit to kill; its program is deleted, its driver killed, and another one goes on from another folder."""
    stored.write()
    assert "topology 'wc' is INACTIVE" in stored.submit("--inactive")
    assert stored.committed() == 0
    shutil.rmtree(stored.program)
    with pytest.raises(TopologyActiveError, match=r"'wc' has a live driver \(process \d+\).*--standby"):
        drive(stored.home.find("wc"))
    assert "is ACTIVE" in stored.shell("activate", "wc")
    stored.reaches(3)
    stored.end()
    assert stored.line()["condition"] == "DIED"
    before = stored.committed()
    assert "has no driver; the change applies to the next one" in stored.shell("rebalance", "wc", "words=5")
    driver = stored.resume()
    stored.reaches(before + 3)
    assert "is ACTIVE" in stored.shell("rebalance", "wc", "words/1=3")
    assert "did you mean 'words'?" in stored.shell("rebalance", "wc", "wrds=5", code=1)
    assert "is INACTIVE" in stored.shell("deactivate", "wc")
    assert stored.line()["condition"] == "INACTIVE" and stored.line()["error"] is None
    id = stored.home.find("wc").submitted().id
    assert stored.home.find("wc").wish() == Wish(4, active=False, hints={"words/1": 3}, id=id)
    assert "is killed" in stored.shell("kill", "wc")
    assert driver.wait(30) == 0
    assert stored.shell("list", "--format", "json") == ""
    assert not stored.home.at("wc").folder.exists() and list((stored.home.folder / "removed").iterdir()) == []
    counts = stored.counted()
    assert counts == expected(sum(counts.values())) and sum(counts.values()) >= 10 * (before + 3)


@pytest.mark.soak
def test_a_driver_that_was_stopped_goes_on_as_it_was(stored: Stored) -> None:
    """SIGTERM ends a driver in good order; the topology stays stored, and inactive."""
    stored.write()
    stored.submit()
    stored.reaches(2)
    stored.shell("deactivate", "wc")
    report = stored.home.find("wc").report()
    assert report is not None
    os.kill(report.pid, signal.SIGTERM)
    wait_until(lambda: not stored.home.find("wc").is_driven(), 30)
    before = stored.home.find("wc").report()
    assert before is not None and before.condition == "STOPPED"
    stored.resume()
    wait_until(lambda: stored.line()["condition"] == "INACTIVE", 60)
    assert stored.committed() == before.committed["lines"]
    stored.shell("activate", "wc")
    stored.reaches(before.committed["lines"] + 2)
    stored.shell("kill", "wc")
    counts = stored.counted()
    assert counts == expected(sum(counts.values()))


def test_a_topology_whose_driver_cannot_start_says_why(stored: Stored) -> None:
    stored.write()
    stored.submit("--no-start")
    assert stored.line()["condition"] == "STORED"
    code = stored.home.find("wc").code
    with zipfile.ZipFile(code, "a") as archive:
        archive.writestr("more.py", "")
    assert "is not the code that was submitted" in stored.shell("resume", "wc", code=1)


def test_a_driver_that_lacks_a_module_of_the_program_says_how_to_submit_it(stored: Stored) -> None:
    stored.write()
    beside = f"beside_{stored.module}"
    (stored.program / f"{beside}.py").write_text("LAST = 1\n")
    program = stored.program / stored.module / "__init__.py"
    program.write_text(f"import {beside}\n{program.read_text()}")
    said = stored.submit(code=1)
    assert f"No module named '{beside}'. The stored code has the program's module or package and the files of " in said
    assert f"--include: submit with --include {beside}.py (or the folder of a package), or install " in said
    assert "`trident resume` would fail in the same way; `trident kill wc` frees the name for another submit" in said
    assert f"--include {beside}.py" in stored.line()["error"]
    stored.shell("kill", "wc")
    assert "topology 'wc' is ACTIVE" in stored.submit("--include", f"{beside}.py")
    stored.shell("kill", "wc")


def test_a_driver_that_sleeps_is_not_left_behind_by_a_kill(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kill says that the driver is still there, and the driver ends when it wakes."""
    stored.write()
    stored.submit()
    pid = stored.home.find("wc").driver()
    assert pid
    stop(pid)
    monkeypatch.setattr(lifecycle, "_END_SECONDS", 0.2)
    try:
        assert "is still stopping; its log is" in stored.shell("kill", "wc", "--wait", "0", code=1)
        assert stored.line()["condition"] == "KILLED"
        assert "'wc' is KILLED: it can only be submitted again" in stored.shell("activate", "wc", code=1)
        assert "has a topology 'wc'" in stored.submit(code=1)
        assert stored.home.find("wc").driver() == pid
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not stored.home.at("wc").folder.exists(), 30)
    counts = stored.counted()
    assert counts == expected(sum(counts.values()))


@pytest.mark.soak
def test_a_standby_goes_on_when_the_driver_dies(stored: Stored) -> None:
    stored.write()
    stored.submit("--set", "leaseSecs=1")
    stored.reaches(2)
    waiting = stored.resume("--standby")
    wait_until(lambda: "waits as a standby" in (stored.folder / "resumed.txt").read_text(), 30)
    stored.end()
    before = stored.committed()
    stored.reaches(before + 3)
    assert stored.home.find("wc").is_driven()
    assert "is killed" in stored.shell("kill", "wc")
    assert waiting.wait(30) == 0
    counts = stored.counted()
    assert counts == expected(sum(counts.values()))


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("master", ["local[2]", pytest.param("local-cluster[2,1,1024]", marks=pytest.mark.cluster)])
def test_sparks_workers_import_the_stored_code(stored: Stored, master: str) -> None:
    """Neither the driver's folder nor the workers' paths have the program, which was deleted."""
    library = os.environ["PYTHONPATH"]
    stored.write(last=70)
    spark = ["--engine", "spark", "--master", master, "--spark-conf", f"spark.executorEnv.PYTHONPATH={library}"]
    stored.submit(*spark, "--no-start", "--set", "availableNow=true")
    shutil.rmtree(stored.program)
    assert stored.resume().wait(180) == 0, (stored.folder / "resumed.txt").read_text()
    assert stored.line()["condition"] == "STOPPED"
    assert stored.counted() == expected(70)


@pytest.mark.soak
@pytest.mark.spark
def test_the_workers_of_a_spark_that_starts_later_import_the_stored_code(stored: Stored) -> None:
    stored.write(last=70)
    stored.submit("--engine", "auto", "--no-start", "--set", "availableNow=true", "--set", "autoRows=1")
    shutil.rmtree(stored.program)
    assert stored.resume().wait(180) == 0, (stored.folder / "resumed.txt").read_text()
    assert stored.counted() == expected(70)


def test_a_driver_of_small_batches_on_both_engines_starts_no_spark(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.write(last=20)
    monkeypatch.setenv("JAVA_HOME", str(stored.folder / "none"))
    stored.submit("--engine", "auto", "--no-start", "--set", "availableNow=true")
    assert stored.resume().wait(60) == 0, (stored.folder / "resumed.txt").read_text()
    assert stored.counted() == expected(20)


# --- what is checked at a submission ----------------------------------------------------------------------------------


@pytest.fixture
def program(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program for `submit` in this process, under a module name that no other test imports."""
    name = f"program_{abs(hash(stored.folder)):x}"
    (stored.folder / f"{name}.py").write_text(
        PROGRAM.replace("from counting.words import shout, words", "words = shout = str")
    )
    monkeypatch.chdir(stored.folder)
    monkeypatch.syspath_prepend(str(stored.folder))
    return f"{name}:topology"


def stores(home: Home) -> list[str]:
    return [each.name for each in home.all()]


def submitted(stored: Stored, program: str, **given: object) -> None:
    options = {"engine": "embedded"} | dict(given.pop("options", {}))  # type: ignore[call-overload]
    submit(stored.home, program, "wc", options, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"options": {"maxAttempt": "3"}}, TopologyError, "no such option; did you mean 'maxAttempts'"),
        ({"options": {"maxAttempts": "0"}}, TopologyError, "--set: maxAttempts=0: expected a whole number"),
        ({"hints": {"wrds": 3}}, TopologyError, "no batch group has a parallelismHint 'wrds'"),
        ({"options": {"engine": "storm"}}, TopologyError, "storm"),
        ({"master": "local[2]"}, TopologyError, "engine='embedded' runs without Spark"),
        ({"options": {"engine": "spark"}, "master": "sc://host"}, TopologyError, "Spark Connect keeps uploaded code"),
        (
            {"options": {"engine": "spark"}, "confs": {"spark.executor.instances": "4"}},
            TopologyError,
            "spark.executor.instances needs a cluster, and",
        ),
        ({"options": {"engine": "spark"}, "confs": {"executors": "4"}}, TopologyError, "begins with 'spark.'"),
        (
            {"options": {"engine": "spark"}, "master": "spark://127.0.0.1:PORT"},
            SparkSetupError,
            "no Spark master answers at this address",
        ),
        ({"options": {"log": "redis://127.0.0.1:PORT"}}, LogError, "127.0.0.1:PORT"),
        ({"options": {"log": "redis://:secret@127.0.0.1"}}, TridentError, "password"),
        ({"options": {"checkpointLocation": "/proc/none"}}, LogError, "/proc/none cannot be written"),
        ({"include": ["no_such_file.py"]}, TopologyError, "the file or folder of code no_such_file.py does not exist"),
    ],
)
def test_wrong_submissions_store_nothing(
    stored: Stored, program: str, given: dict[str, object], error: type[Exception], message: str
) -> None:
    port = str(free_port())
    text = repr(given).replace("PORT", port)
    with pytest.raises(error, match=message.replace("PORT", port).replace("(", r"\(")):
        submitted(stored, program, **eval(text))
    assert stores(stored.home) == []
    staging = stored.home.folder / "staging"
    assert not staging.exists() or list(staging.iterdir()) == []


def test_names_and_programs_that_are_not_there(stored: Stored, program: str) -> None:
    with pytest.raises(TopologyError, match="there is no module 'no_such'"):
        submitted(stored, "no_such:topology")
    with pytest.raises(TopologyError, match="has no 'other'"):
        submitted(stored, program.replace(":topology", ":other"))
    with pytest.raises(TopologyError, match="'a/b'"):
        submit(stored.home, program, "a/b", {"engine": "embedded"})
    submitted(stored, program)
    with pytest.raises(
        TopologyNotFoundError,
        match=r"no topology 'wx'.*stored are wc\. .* topologies of `trident submit`; a topology of `trident run` is "
        r"not stored: stop it with SIGTERM, and run it again with other options, such as --inactive or --set parallel",
    ):
        stored.home.find("wx")
    with pytest.raises(TopologyActiveError, match="already has a topology 'wc': `trident kill wc` removes it"):
        submitted(stored, program)


def test_the_states_are_asked_and_the_guarantee_is_demanded(stored: Stored, program: str) -> None:
    file = stored.folder / f"{program.partition(':')[0]}.py"
    plain = file.read_text()
    url = f"redis://127.0.0.1:{free_port()}"
    state = f'RedisMapState.opaque("{url}")'
    file.write_text(
        plain.replace("MemoryMapState.opaque()", state).replace("import MemoryMapState", "import RedisMapState")
    )
    with pytest.raises(StateUnavailableError, match="'counts'"):
        submitted(stored, program)
    other = program.replace("program_", "weak_")
    weak = plain.replace("opaque()", "nonTransactional()")
    (stored.folder / f"{other.partition(':')[0]}.py").write_text(weak)
    with pytest.raises(GuaranteeError, match="counts"):
        submitted(stored, other, options={"requireExactlyOnce": "true"})
    assert stores(stored.home) == []


def test_of_two_racing_submits_one_wins(stored: Stored, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have passed every check, and both found the name free."""
    barrier, summed, outcomes = threading.Barrier(2), submission.digest, list[object]()

    def both_here(archive: Path) -> str:
        barrier.wait(20)
        return summed(archive)

    monkeypatch.setattr(submission, "digest", both_here)

    def submitting() -> None:
        try:
            outcomes.append(submitted(stored, program))
        except TridentError as error:
            outcomes.append(error)

    racing = [threading.Thread(target=submitting) for _ in range(2)]
    for thread in racing:
        thread.start()
    for thread in racing:
        thread.join()
    assert sorted(type(each).__name__ for each in outcomes) == ["NoneType", "TopologyActiveError"], outcomes
    assert stores(stored.home) == ["wc"]


def test_a_killed_topology_is_not_changed_any_more(stored: Stored, program: str) -> None:
    submitted(stored, program, active=False, hints={"words": 7})
    id = stored.home.find("wc").submitted().id
    assert stored.home.find("wc").wish() == Wish(0, active=False, hints={"words/1": 7}, id=id)
    stored.home.change("wc", kill=5.0)
    with pytest.raises(TopologyActiveError, match="'wc' is KILLED"):
        stored.home.change("wc", active=True)
    drive(stored.home.find("wc"))  # a driver that was to start in this moment removes it
    assert stores(stored.home) == []


def test_a_damaged_file_is_named(stored: Stored, program: str) -> None:
    submitted(stored, program)
    (stored.home.find("wc").folder / "wish.json").write_text("{")
    with pytest.raises(TopologyError, match=r"wish\.json is damaged"):
        stored.home.change("wc", active=False)


def test_an_archive_is_the_same_bytes_for_the_same_code(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.write()
    monkeypatch.syspath_prepend(str(stored.program))
    monkeypatch.chdir(stored.program)
    (stored.program / "table.csv").write_text("a,b\n")
    for name in ("one.zip", "two.zip"):
        pack(stored.folder / name, f"{stored.module}:topology", [stored.program / "table.csv"])
    assert digest(stored.folder / "one.zip") == digest(stored.folder / "two.zip")
    with zipfile.ZipFile(stored.folder / "one.zip") as archive:
        assert archive.namelist() == [f"{stored.module}/__init__.py", f"{stored.module}/words.py", "table.csv"]
    (stored.program / stored.module / "fast.so").write_bytes(b"")
    with pytest.raises(TopologyError, match=r"fast\.so is native code"):
        pack(stored.folder / "three.zip", f"{stored.module}:topology")
