"""The distribution trident-client: its metadata, its files, and its answers in an environment that has it alone."""

import base64
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Serving, serving

__all__ = ["serving"]

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "trident_client"
MODULES = sorted(path.name for path in CLIENT.glob("*.py"))

PROGRAM = """
import importlib.metadata, importlib.util, json, sys
from trident_client import DRPCClient, errors
with DRPCClient(sys.argv[1]) as client:
    feed = client.changes("counts", snapshot=True)
    answers = {
        "execute": client.execute("count", "dog"),
        "word": client.execute("count", "dog")[0].word,
        "get": client.get("counts", "cat"),
        "multiGet": client.multiGet("counts", ["dog", "cow"]),
        "range": client.range("counts", "a", "d"),
        "changes": sorted(next(feed).rows),
        "states": [state["name"] for state in client.states()],
    }
    try:
        client.execute("nothing")
    except errors.DRPCNotFoundError as error:
        answers["error"] = str(error)
heavy = ["pyspark", "pyarrow", "pandas", "numpy", "msgspec", "redis", "trident"]
answers["absent"] = [name for name in heavy if importlib.util.find_spec(name) is None]
answers["installed"] = sorted(each.metadata["Name"].lower() for each in importlib.metadata.distributions())
print(json.dumps(answers))
"""


def build(folder: Path, target: Path, *kinds: str) -> list[Path]:
    words = [word for kind in kinds for word in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", *words, "-d", str(target)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    return sorted(target.iterdir())


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build both distributions: "client", its "source", and "library"."""
    source, client = build(CLIENT, tmp_path_factory.mktemp("client"), "wheel", "sdist")[::-1]
    (library,) = build(ROOT, tmp_path_factory.mktemp("library"), "wheel")
    assert (client.suffix, source.suffix) == (".whl", ".gz")
    return {"client": client, "source": source, "library": library}


def read(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_both_distributions_have_the_same_files(dist: dict[str, Path]) -> None:
    client, library = read(dist["client"]), read(dist["library"])
    own = {name: data for name, data in client.items() if name.startswith("trident_client/")}
    assert {*own} == {f"trident_client/{name}" for name in (*MODULES, "py.typed")}
    assert own == {name: data for name, data in library.items() if name.startswith("trident_client/")}


def test_a_registry_would_take_each_file_and_show_its_page(dist: dict[str, Path], tmp_path: Path) -> None:
    (source,) = build(ROOT, tmp_path, "sdist")
    files = [str(path) for path in (*dist.values(), source)]
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True, timeout=120
    )
    said = [line for line in checked.stdout.splitlines() if "PASSED" in line]
    assert (checked.returncode, len(said)) == (0, 4), checked.stdout + checked.stderr


def test_the_metadata_are_complete_and_of_the_same_version(dist: dict[str, Path]) -> None:
    files = read(dist["client"])
    (name,) = (name for name in files if name.endswith(".dist-info/METADATA"))
    told, page = Parser().parsestr(files[name].decode()), (CLIENT / "README.md").read_text(encoding="utf-8")
    library = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert told["Version"] == library["version"] and told["Requires-Python"] == library["requires-python"]
    assert told.get_all("Requires-Dist") == ["httpx>=0.27"]
    assert told["License-Expression"] == library["license"] and told.get_all("License-File") == ["LICENSE"]
    assert files[name.replace("METADATA", "licenses/LICENSE")] == (ROOT / "LICENSE").read_bytes()
    assert told["Description-Content-Type"] == "text/markdown" and told.get_payload() == page
    assert "](" not in page.replace("](https://", "")  # the page on PyPI has no other file of this repository


def test_the_record_names_each_file_with_its_hash(dist: dict[str, Path]) -> None:
    files = read(dist["client"])
    (record,) = (name for name in files if name.endswith("/RECORD"))
    rows = {name: digest for name, digest, _ in csv.reader(files[record].decode().splitlines())}
    assert {*rows} == {*files} and rows.pop(record) == ""
    for name, digest in rows.items():
        summed = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode().rstrip("=")
        assert digest == f"sha256={summed}", name


def test_a_wheel_of_the_source_distribution_has_the_same_files(dist: dict[str, Path], tmp_path: Path) -> None:
    with tarfile.open(dist["source"]) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    (again,) = build(folder, tmp_path / "dist", "wheel")
    assert read(again) == read(dist["client"])


@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
def test_in_an_empty_environment_it_asks_a_served_topology(
    dist: dict[str, Path], serving: Serving, resolution: str, tmp_path: Path
) -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    python = tmp_path / "env" / "bin" / "python"
    install = [uv, "pip", "install", "--quiet", "--python", str(python), "--resolution", resolution]
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "env")], check=True, timeout=60)
    subprocess.run([*install, str(dist["client"])], check=True, timeout=300)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), "-I", "-W", "error", "-c", PROGRAM, serving.url]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    answers: dict[str, Any] = json.loads(ran.stdout)
    assert answers.pop("error").startswith("no DRPC function 'nothing'"), answers
    installed = answers.pop("installed")
    assert {"trident-client", "httpx"} <= {*installed} and len(installed) <= 10, installed
    assert answers == {
        "execute": [["dog", 2]],
        "word": "dog",
        "get": 1,
        "multiGet": [2, None],
        "range": [["cat", 1]],
        "changes": [["cat", 1], ["dog", 2]],
        "states": ["counts"],
        "absent": ["pyspark", "pyarrow", "pandas", "numpy", "msgspec", "redis", "trident"],
    }
