"""Committed files hold no address of a registry and no path of this machine; make and CI have their targets."""

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _committed() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("this copy is no git checkout, so nothing tells what is committed")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_the_lock_names_every_package_with_its_hash_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    packages = re.findall(r"^[A-Za-z0-9][^\n]*?(?:\\\n[^\n]*)*$", lock, flags=re.MULTILINE)
    assert len(packages) > 20
    for package in packages:
        assert re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[^ ]+ ", package), package
        assert "--hash=sha256:" in package, package


def test_no_committed_file_holds_a_path_of_this_machine() -> None:
    folders = {ROOT, ROOT.parent, Path.home()} - {Path(tempfile.gettempdir())}  # a clone may lie there: said often
    paths = [f"{folder}/".encode() for folder in folders]
    holding = [
        f"{path.relative_to(ROOT)}: {folder.decode()}"
        for path in _committed()
        for folder in paths
        if len(folder) > 2 and folder in path.read_bytes()
    ]
    assert holding == []


def test_the_novel_is_whole_and_says_where_it_is_from() -> None:
    corpus = ROOT / "trident" / "demo" / "corpus" / "moby-dick"
    chapters = sorted(corpus.glob("*.txt"))
    assert len(chapters) == 136
    assert sum(chapter.stat().st_size for chapter in chapters) > 1_000_000
    assert "CC0" in (corpus / "SOURCE.md").read_text()


def test_help_lists_the_targets() -> None:
    listing = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line.split()[1] for line in listing.stdout.splitlines()][:5] == ["help", "demo", "test", "again", "soak"]


def test_ci_runs_the_checks_the_tests_and_a_bounded_soak() -> None:
    steps = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]
    assert steps == [
        "make tools",
        "make check",
        "make test-classic || make again",
        "make test-connect || SPARK_API_MODE=connect make again",
        "make lowest || WORKERS=1 make lowest",
        "make soak MINUTES=3 SEED=483 || SOAK_MINUTES=3 SOAK_SEED=483 make again",
    ]
