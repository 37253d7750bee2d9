"""The wheel in an empty environment of each CPython on this machine, with the newest and the lowest dependencies."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.test_client_wheel import build

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from trident import Count, Function, MapGet, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import SqliteMapState

LINES = [["the cow jumped"], ["the moon over"], ["the cow"]]


class Upper(Function):
    outputType = "string"

    def execute(self, tuple, collector):
        collector.emit([tuple.word.upper()])


def topology(batches, engine):
    made = TridentTopology()
    lines = made.newStream("lines", FixedBatchSpout("line string", LINES[:batches]))
    words = lines.flatMap("line", lambda line: line.split(), "word string").each("word", Upper(), "up")
    counts = words.groupBy("up").persistentAggregate(SqliteMapState.opaque(f"{engine}.db"), Count(), "n", name="counts")
    made.newDRPCStream("ask").each("args", str, "up string").stateQuery(counts, "up", MapGet(), "n")
    return made


if __name__ == "__main__":
    engine = sys.argv[1]
    for batches in (2, 3):
        with topology(batches, engine).start(engine=engine, name="t", checkpointLocation=engine) as running:
            running.processAllAvailable(timeout=240)
            counts = dict(running.state("counts").items())
            (asked,) = running.drpc.execute("ask", "COW")
    assert counts == {"THE": 3, "COW": 2, "JUMPED": 1, "MOON": 1, "OVER": 1}, counts
    assert asked.n == 2
    print("counted with Python", sys.version_info[:2])
"""


def interpreter(minor: int) -> str | None:
    """Return the path of a CPython 3.`minor`: on the PATH, or of pyenv."""
    name = f"python3.{minor}"
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
    for path in [shutil.which(name) or "", *map(str, of_pyenv)]:
        if not path:
            continue
        asked = subprocess.run([path, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True)
        if asked.stdout.strip() == str(minor):
            return path
    return None


def install(uv: Path, made: Path, wheel: Path, versions: str) -> None:
    """Install the wheel and its dependencies: the newest, or the lowest versions that pyproject.toml allows."""
    if versions == "lowest":
        chosen = made.parents[1] / "lowest.txt"
        command: list[str | Path] = [uv, "pip", "compile", "--quiet", "--python", made, "--resolution", "lowest-direct"]
        subprocess.run([*command, "pyproject.toml", "--output-file", chosen], cwd=ROOT, check=True, timeout=300)
        subprocess.run([uv, "pip", "sync", "--quiet", "--python", made, chosen], check=True, timeout=900)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", made, wheel], check=True, timeout=900)


@pytest.mark.soak
@pytest.mark.parametrize("versions", ["newest", "lowest"])
@pytest.mark.parametrize("minor", [12, 13, 14])
def test_the_wheel_counts_with_another_python(minor: int, versions: str, tmp_path: Path) -> None:
    python, uv = interpreter(minor), ROOT / ".uv" / "bin" / "uv"
    if python is None:
        pytest.skip(f"no CPython 3.{minor} on this machine")
    if not uv.exists():
        pytest.skip("no .uv/bin/uv, which `make` installs")
    (wheel,) = build(ROOT, tmp_path / "dist", "wheel")
    made = tmp_path / "env" / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", python, tmp_path / "env"], check=True, timeout=120)
    install(uv, made, wheel, versions)
    (tmp_path / "program.py").write_text(PROGRAM)
    own = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "SPARK_API_MODE")}
    for engine in ("embedded", "spark"):
        ran = subprocess.run(
            [made, "program.py", engine],
            cwd=tmp_path,
            env={**own, "PYSPARK_PYTHON": str(made)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert f"counted with Python (3, {minor})" in ran.stdout, ran.stderr
