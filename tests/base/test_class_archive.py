"""The archive of Java's classes: who makes it, and which JVM gets it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trident.base.class_archive import archive_file, class_archive_in_use, make_class_archive
from trident.base.errors import SparkSetupError

OPTIONS = "SPARK_SUBMIT_OPTS"
MAKES = "import os, re; open(re.search('AtExit=\"(.*?)\"', os.environ['SPARK_SUBMIT_OPTS'])[1], 'w').write('classes')"


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of caches, which nobody but this user may write."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my caches"))
    monkeypatch.delenv(OPTIONS, raising=False)
    return tmp_path / "my caches"


def options_within() -> str | None:
    with class_archive_in_use():
        return os.environ.get(OPTIONS)


def test_a_jvm_gets_the_archive_while_it_starts_and_not_later(caches: Path) -> None:
    assert options_within() is None
    file = make_class_archive([sys.executable, "-c", MAKES])
    assert file.parent == caches / "trident" and file.read_text() == "classes"
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert f'-XX:SharedArchiveFile="{file}"' in (options_within() or "")
    assert OPTIONS not in os.environ


def test_the_options_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    make_class_archive([sys.executable, "-c", MAKES])
    monkeypatch.setenv(OPTIONS, "-Dmine=1")
    assert (options_within() or "").startswith("-Dmine=1 -XX:SharedArchiveFile=")
    assert os.environ[OPTIONS] == "-Dmine=1"


@pytest.mark.parametrize("option", ["-XX:SharedArchiveFile=mine.jsa", "-XX:ArchiveClassesAtExit=mine.jsa"])
def test_a_user_with_an_archive_keeps_that_one(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    make_class_archive([sys.executable, "-c", MAKES])
    monkeypatch.setenv(OPTIONS, option)
    assert options_within() == option


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_an_archive_that_others_may_write_is_not_used(mode: int) -> None:
    make_class_archive([sys.executable, "-c", MAKES]).chmod(mode)
    assert options_within() is None


@pytest.mark.parametrize("program", ["print('no space left'); raise SystemExit(1)", "print('no space left')"])
def test_a_program_that_makes_none_leaves_the_one_before(program: str) -> None:
    make_class_archive([sys.executable, "-c", MAKES])
    with pytest.raises(SparkSetupError, match=r"(?s)Java made no archive of its classes; .*no space left"):
        make_class_archive([sys.executable, "-c", program])
    assert archive_file().read_text() == "classes"


STARTS = """
from trident.compiler.spark.sessions import local_session
local_session("local[1]", {"spark.ui.enabled": "false"}).stop()
"""


@pytest.mark.soak
@pytest.mark.spark
def test_spark_reads_its_classes_from_the_archive(caches: Path, tmp_path: Path) -> None:
    trident = Path(sys.executable).with_name("trident")
    made = subprocess.run([trident, "prepare-java"], capture_output=True, text=True, check=True)
    assert made.stdout.startswith(str(archive_file()))
    log = tmp_path / "classes.txt"
    options = f"-Xlog:class+load:file={log}"
    subprocess.run([sys.executable, "-c", STARTS], check=True, env={**os.environ, OPTIONS: options})
    sources = [line for line in log.read_text().splitlines() if "org.apache.spark.SparkContext " in line]
    assert sources and "shared objects file (top)" in sources[0]
