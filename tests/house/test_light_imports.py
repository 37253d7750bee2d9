"""The modules that an import loads. A program waits for each of them before its first batch."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAVY = (
    *("pyspark", "py4j", "pyarrow", "numpy", "pandas"),
    *("redis", "psycopg", "confluent_kafka", "deltalake", "obstore", "hdfs_native"),
    *("starlette", "uvicorn", "httpx", "asyncio", "ssl", "http.server", "prometheus_client", "msgspec", "click"),
    *("opentelemetry", "datasketches", "fastavro", "IPython", "ipywidgets", "pytest"),
)
"""Modules that ``import trident`` may not load: each costs milliseconds, and a program may not need it."""

NOT_FOR_A_CLIENT = ("trident", "pyspark", "pyarrow", "numpy", "pandas", "msgspec", "redis", "IPython")
"""Modules that the clients of ``trident_client`` never load."""

NOT_TO_DECLARE = ("redis", "psycopg", "starlette", "uvicorn", "httpx", "prometheus_client", "click", "IPython")
"""Modules that a program may not load before it uses them. pyspark (its types) and pyarrow are what it is built of, and
pyarrow imports pandas when it makes its first array of Python values."""

NOT_TO_RUN = ("redis", "psycopg", "starlette", "uvicorn", "httpx", "click", "IPython", "trident.compiler.spark.engine")
"""Modules that a run on the embedded engine may not load before it uses them."""

DECLARED = """
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
topology = TridentTopology()
words = topology.newStream("words", FixedBatchSpout("word string", [[("the",), ("cow",)]]))
words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
"""
RUN = """
import warnings
warnings.simplefilter("ignore")
with topology.start(name="light", engine="embedded") as running:
    running.processAllAvailable()
    assert running.state("counts").get("cow") == 1
"""


@pytest.mark.parametrize(
    ("program", "kept_out"),
    [
        ("import trident, trident.errors, trident.functions, trident.spouts, trident.state, trident.testing", HEAVY),
        ("import trident_client, trident_client.errors", HEAVY),
        ("from trident_client import AsyncDRPCClient, DRPCClient, ServedRows", NOT_FOR_A_CLIENT),
        (DECLARED, NOT_TO_DECLARE),
        (DECLARED + RUN, NOT_TO_RUN),
    ],
    ids=["import", "import the client", "use the client", "declare", "run"],
)
def test_no_program_loads_what_it_does_not_use(program: str, kept_out: tuple[str, ...]) -> None:
    asked = f"{program}\nimport sys\nprint(*({{*{kept_out!r}}} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


WITHOUT_EXTRAS = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
COMMANDS = """
from trident.cli.main import main
for arguments in ("-h", "list", "doctor", "serve -h", "sql -h", "submit -h", "state -h"):
    try:
        main(arguments.split())
    except SystemExit as end:
        assert not end.code, arguments
"""


def modules_of_extras() -> set[str]:
    """Return the modules of the packages that only an extra of the distribution asks for."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split(r"[\[>=;]", package)[0] for packages in extras.values() for package in packages}
    other = {"opentelemetry-sdk": "opentelemetry", "opentelemetry-exporter-otlp-proto-http": "opentelemetry"}
    return {other.get(name, name.replace("-", "_")) for name in names} | {"IPython"}


@pytest.mark.parametrize("program", [DECLARED + RUN, COMMANDS], ids=["run", "commands"])
def test_an_installation_without_extras_runs_topologies_and_commands(program: str, tmp_path: Path) -> None:
    whole = WITHOUT_EXTRAS.format(extras=modules_of_extras()) + program
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_server_without_its_extra_says_what_to_install(tmp_path: Path) -> None:
    whole = (
        WITHOUT_EXTRAS.format(extras=modules_of_extras())
        + DECLARED
        + RUN.replace("processAll", "serve(); running.processAll")
    )
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode != 0 and "trident-pyspark[server]" in done.stderr.splitlines()[-1], done.stderr
