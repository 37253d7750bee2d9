"""An archive of the classes that Spark's JVM loads. With it, Spark starts in half the time.

`trident prepare-java` makes the archive, for the Java and the Spark of this machine, in the user's cache folder. The
JVM checks whether an archive was made by this Java from these jars of Spark. If not, it starts without the archive.
"""

import hashlib
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trident.base.errors import SparkSetupError
from trident.base.java import machine_java, use_bundled_java, why_no_java

_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable with options for the JVM that Spark's launcher starts. Unlike a setting of the session, it
does not replace the JVM options of the user."""

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_LONGEST = 600
"""The most seconds that making an archive may take."""


def archive_file() -> Path:
    """Return the path of the archive for the Java and the Spark that this process would start.

    Raises SparkSetupError if there is no Java for Spark.
    """
    import pyspark

    java = machine_java()
    if java is None:
        raise SparkSetupError(
            f"cannot make the archive of Java classes, which lets Spark start sooner: {why_no_java()}"
        )
    parts = (os.path.realpath(java), pyspark.__version__, pyspark.__file__)
    others = (os.environ.get("SPARK_HOME"), os.environ.get("TRIDENT_JAVA"))
    name = hashlib.sha256(repr((*parts, *others)).encode()).hexdigest()[:16]
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "trident", f"spark-{pyspark.__version__}-{name}.jsa")


@contextmanager
def class_archive_in_use() -> Iterator[None]:
    """Let each JVM that Spark's launcher starts within this block use the archive, if the archive exists."""
    before = os.environ.get(_OPTIONS)
    if machine_java() is None or "Archive" in (before or "") or not _is_own(file := archive_file()):
        yield
        return
    os.environ[_OPTIONS] = _more(f'-XX:SharedArchiveFile="{file}"')
    try:
        yield
    finally:
        if before is None:
            del os.environ[_OPTIONS]
        else:
            os.environ[_OPTIONS] = before


def make_class_archive(program: Sequence[str]) -> Path:
    """Make the archive of the classes that `program` loads, and return the archive's path.

    The program must not end before its JVM. Raises SparkSetupError, with the end of the program's output, if no archive
    was made. An older archive then stays.
    """
    use_bundled_java()
    file = archive_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder, file.name)
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        environment[_OPTIONS] = _more(f'-XX:ArchiveClassesAtExit="{made}"')
        try:
            ran = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=_LONGEST)
        except subprocess.TimeoutExpired as error:
            raise SparkSetupError(
                f"the archive of Java classes, which lets Spark start sooner, was not ready within {_LONGEST} s"
            ) from error
        if ran.returncode or not made.exists():
            output = "\n".join((ran.stdout + ran.stderr).splitlines()[-10:])
            raise SparkSetupError(f"Java made no archive of its classes; Spark's output ends with:\n{output}")
        os.replace(made, file)
    return file


def _more(options: str) -> str:
    return " ".join(filter(None, [os.environ.get(_OPTIONS), options, _QUIET]))


def _is_own(file: Path) -> bool:
    """Return whether the file exists and only this user can have written it: a JVM runs the classes in it."""
    try:
        status = file.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
