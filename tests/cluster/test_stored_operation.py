"""The folders of stored topologies: rights, damage, names, options that arrive, paths, and removals that go wrong."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cluster.stored import PROGRAM, ROOT, Stored
from trident.base.errors import TopologyError
from trident.cli.lifecycle import line_of
from trident.cli.main import main
from trident.cluster.bounded_output import BoundedOutput
from trident.cluster.stored_driver import drive
from trident.cluster.stored_topology import Home, Report
from trident.cluster.submission import submit

FILES = ("topology.json", "wish.json", "report.json")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home, and this process in the folder of a program `counting`, whose name no other test imports."""
    name = f"operated_{abs(hash(tmp_path)):x}"
    (tmp_path / f"{name}.py").write_text(
        PROGRAM.replace("from counting.words import shout, words", "words = shout = str")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PROGRAM", f"{name}:topology")
    return Home(tmp_path / "home")


def stored(home: Home, *names: str, **options: str) -> None:
    for name in names:
        submit(home, os.environ["PROGRAM"], name, {"engine": "embedded", **options})


def shell(home: Home, *words: str) -> tuple[int, str]:
    ran = CliRunner().invoke(main, [words[0], "--home", str(home.folder), *words[1:]])
    return ran.exit_code, ran.output


def conditions(home: Home) -> dict[str, str]:
    return {each.name: line_of(each)["condition"] for each in home.all()}


# --- rights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["topologies", "staging"])
def test_a_file_in_the_place_of_a_folder_is_told(home: Home, name: str) -> None:
    home.folder.mkdir()
    (home.folder / name).write_text("a note")
    code, said = shell(home, "submit", os.environ["PROGRAM"], "--name", "wc", "--engine", "embedded")
    assert code == 1
    assert f"{(home.folder / name).absolute()} is not a folder: move it away" in said


def test_everything_is_for_its_owner_alone_whatever_the_umask(home: Home) -> None:
    home.folder.mkdir(mode=0o755)
    former = os.umask(0)
    try:
        stored(home, "wc", checkpointLocation=str(home.folder / "deep" / "checkpoints"))
        shell(home, "deactivate", "wc")
    finally:
        os.umask(former)
    assert not (home.folder / "deep").exists()  # a check makes nothing
    modes = {str(path.relative_to(home.folder)): stat.S_IMODE(path.stat().st_mode) for path in home.folder.rglob("*")}
    assert [path for path, mode in modes.items() if mode & 0o077] == []


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", ["", "{", '{"format": 9}', "\udcff", None])
def test_a_damaged_file_hides_only_itself(home: Home, file: str, damage: str | None) -> None:
    """`damage`: the content of the file; None: it is missing."""
    stored(home, "a", "b", "c")
    broken = home.find("b")
    broken.write("report.json", Report(number=0, condition="STOPPED", host="h", pid=1))
    if damage is None:
        (broken.folder / file).unlink()
    else:
        (broken.folder / file).write_bytes(damage.encode(errors="surrogateescape"))
    shown = conditions(home)
    assert (shown.pop("b") in ("DAMAGED", "STORED"), shown) == (True, {"a": "STORED", "c": "STORED"})
    if file != "report.json" or damage is not None:  # without a report, no driver was ever started
        told = str(line_of(broken)["error"])
        assert file in told or "format 9" in told
    code, text = shell(home, "kill", "x")
    assert code == 1 and "stored are a, b, c" in text
    assert shell(home, "deactivate", "a")[0] == 0
    code, text = shell(home, "kill", "b")
    assert code == 0, text
    assert list(conditions(home)) == ["a", "c"]
    stored(home, "b")  # the name is free again
    assert conditions(home)["b"] == "STORED"


def test_a_wish_that_is_damaged_is_not_carried_out_and_says_how_to_go_on(home: Home) -> None:
    stored(home, "wc")
    (home.find("wc").folder / "wish.json").unlink()
    for command in ("activate", "deactivate", "resume"):
        code, text = shell(home, command, "wc")
        assert (code, "wish.json is damaged" in text, "`trident kill wc`" in text) == (1, True, True), text
    assert home.find("wc").folder.is_dir()  # a driver that finds no wish has not taken this for a removal


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["--standby", "-h", "-", ".hidden", "a/b", "a b", "", "..", "a\n", "wörds", "a" * 300])
def test_names_that_a_command_or_a_shell_misreads_are_refused(home: Home, name: str) -> None:
    with pytest.raises((TopologyError, OSError)):
        stored(home, name)
    assert home.all() == []


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["--set", "environment", "trident.toml", "flag"])
def test_active_arrives_by_each_way(home: Home, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--engine", "embedded", "--name", "wc", "--no-start", os.environ["PROGRAM"]]
    if way == "trident.toml":
        Path("trident.toml").write_text("[start]\nactive = false\nstandby = true\n")
    if way == "environment":
        monkeypatch.setenv("TRIDENT_START_ACTIVE", "false")
        monkeypatch.setenv("TRIDENT_START_STANDBY", "true")
    given = {"--set": ["--set", "active=false", "--set", "standby=true"], "flag": ["--inactive"]}.get(way, [])
    assert shell(home, "submit", *given, *words)[0] == 0
    wish = home.find("wc").wish()
    assert wish is not None and not wish.active
    assert home.find("wc").submitted().options["standby"] is (way != "flag")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--inactive", "--set", "active=true"], "active is set twice"),
        (["--checkpoint", "ck", "--set", "checkpointLocation=other"], "checkpointLocation is set twice"),
        (["--engine", "embedded", "--set", "engine=spark"], "engine is set twice"),
        (["--log-url", "redis://h", "--set", "log=redis://g"], "log is set twice"),
        (["--set", "maxAttempts=3", "--set", "maxAttempts=4"], "maxAttempts is given twice"),
        (["--spark-conf", "spark.a=1", "--spark-conf", "spark.a=2"], "spark.a is given twice"),
        (["--log-prefix", "mine"], "--log-prefix is for a log in Redis"),
    ],
)
def test_of_two_values_none_is_dropped(home: Home, words: list[str], message: str) -> None:
    code, text = shell(home, "submit", os.environ["PROGRAM"], "--no-start", *words)
    assert (code, message in text) == (2, True), text


def test_every_option_of_a_start_is_stored_or_is_a_wish(home: Home) -> None:
    """What a layer sets arrives at the driver: in the stored options, or in the first wish."""
    from trident.cluster.stored_driver import _options
    from trident.cluster.submission import OF_WISHES
    from trident.configuration.start_options import OUTSIDE

    stored(home, "wc", parallelismHints="words=3", active="false", maxAttempts="9")
    kept, wish = home.find("wc").submitted(), home.find("wc").wish()
    assert {*kept.options, *OF_WISHES} == {*OUTSIDE, "user"}
    assert wish is not None
    options = _options(kept, wish)
    assert (options["active"], options["parallelismHints"], options["maxAttempts"]) == (False, {"words/1": 3}, 9)


def test_options_of_a_spout_are_checked_and_stored(home: Home) -> None:
    Path("trident.toml").write_text("[spouts.lines]\nmaxRows = 3\n")
    stored(home, "wc")
    stored(home, "others", spouts="lines.maxRows=4")
    assert home.find("wc").submitted().options["spouts"] == {"lines": {"maxRows": 3}}
    assert home.find("others").submitted().options["spouts"] == {"lines": {"maxRows": 4}}
    for wrong, message in (
        ("line.maxRows=1", "did you mean 'lines'"),
        ("lines.maxRow=1", "did you mean 'maxRows'"),
        ("lines.maxRows=0", "maxRows"),
        ("lines.token=abc", r"spouts\.lines\.token has a secret"),
    ):
        with pytest.raises(TopologyError, match=message):
            stored(home, "wrong", spouts=wrong)
    Path("trident.toml").write_text("[spouts.lines]\nstartTime = 2026-01-01T00:00:00Z\n")
    with pytest.raises(TopologyError, match=r"spouts\.lines: startTime has a value of the type datetime"):
        stored(home, "wrong")
    assert [each.name for each in home.all()] == ["others", "wc"]


# --- paths ------------------------------------------------------------------------------------------------------------

READS = """
from trident import Count, TridentTopology
from trident.spouts import FileSpout
from trident.state import MemoryMapState

def topology():
    made = TridentTopology()
    lines = made.newStream("lines", FileSpout("in/*.txt"))
    lines.groupBy("line").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    return made
"""


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    """A program with a relative path, submitted from its folder."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "state"), str(ROOT / "spouts")]))
    made = Stored(tmp_path)
    package = made.program / made.module
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(READS)
    (made.program / "in").mkdir()
    (made.program / "in" / "a.txt").write_text("dog\ncat\ndog\n")
    made.submit("--set", "availableNow=true", "--no-start")
    yield made
    made.end()


def test_a_relative_path_means_what_it_meant_at_the_submit(reading: Stored) -> None:
    assert reading.resume().wait(240) == 0, (reading.folder / "resumed.txt").read_text()
    assert reading.counted() == {"dog": 2, "cat": 1}


def test_a_relative_path_whose_folder_is_gone_is_refused(reading: Stored) -> None:
    shutil.rmtree(reading.program)
    assert reading.resume().wait(240) == 1
    said = (reading.folder / "resumed.txt").read_text()
    assert (
        "no longer exists, so the relative paths of the program would no longer lead to" in said and "in/*.txt" in said
    )
    assert "absolute paths and the same checkpoint" in said


# --- removals ---------------------------------------------------------------------------------------------------------


def test_a_kill_does_not_remove_the_topology_that_has_the_name_now(home: Home) -> None:
    """Between two looks of a kill, the driver removes the topology, and another one is submitted under its name."""
    stored(home, "wc")
    former = home.change("wc", kill=1.0)
    home.find("wc").remove(former.id)
    stored(home, "wc")
    home.find("wc").remove(former.id)
    home.find("wc").remove()  # nobody killed this one
    assert conditions(home) == {"wc": "STORED"}
    assert home.find("wc").wish(former.id) is None and home.find("wc").wish() is not None


def test_a_kill_that_was_interrupted_is_shown_and_is_done_by_whoever_comes_next(home: Home) -> None:
    stored(home, "wc", "other")
    home.change("wc", kill=1.0)
    home.change("other", kill=1.0)
    assert conditions(home) == {"wc": "KILLED", "other": "KILLED"}
    drive(home.find("wc"))
    assert shell(home, "kill", "other")[0] == 0
    assert conditions(home) == {}


def test_a_process_that_has_the_id_of_a_dead_driver_is_nothing_to_anybody(home: Home) -> None:
    stored(home, "wc")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        report = Report(number=0, condition="ACTIVE", host=socket.gethostname(), pid=other.pid)
        home.find("wc").write("report.json", report)
        line = line_of(home.find("wc"))
        assert (line["condition"], line["driver"]) == ("DIED", None)
        with home.find("wc").driving():  # as `trident resume` does
            assert line_of(home.find("wc"))["condition"] == "STARTING"
        code, text = shell(home, "kill", "wc", "--wait", "0")
        assert (code, conditions(home)) == (0, {}), text
        assert other.poll() is None
        other.communicate(b"\n", 30)
        assert other.returncode == 0


def test_what_killed_submits_and_kills_left_behind_goes_with_the_next_one(home: Home) -> None:
    for left in ("staging/1f/wc", "removed/2e"):
        (home.folder / left).mkdir(parents=True)
        (home.folder / left / "code.zip").write_bytes(b"code")
    with home.staged("other"):  # beside a submit that is under way
        stored(home, "wc")
        assert len(list((home.folder / "staging").iterdir())) == 1
    shell(home, "kill", "wc")
    assert [*(home.folder / "staging").iterdir(), *(home.folder / "removed").iterdir()] == []


# --- the output of a driver -------------------------------------------------------------------------------------------


def test_the_output_of_a_driver_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "driver.log"
    with file.open("ab", buffering=0) as said:
        output = BoundedOutput(file, most=100)
        said.write(b"x" * 200)
        output.bound()  # this process prints elsewhere
        assert file.stat().st_size == 200
        monkeypatch.setattr(sys, "__stderr__", said)
        output.bound()
        assert (file.stat().st_size, output.former.read_bytes()) == (0, b"x" * 200)
        said.write(b"y" * 50)
        output.bound()
        assert file.read_bytes() == b"y" * 50
        file.unlink()
        output.bound()


def test_list_prints_lines_of_json_for_damaged_topologies_too(home: Home) -> None:
    stored(home, "a", "b")
    (home.find("a").folder / "topology.json").write_text("")
    code, text = shell(home, "list", "--format", "json")
    assert code == 0 and [json.loads(line)["condition"] for line in text.splitlines()] == ["DAMAGED", "STORED"]
