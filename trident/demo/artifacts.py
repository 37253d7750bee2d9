"""Artifacts of Maven Central for the demo and for tests.

The Ivy in PySpark fetches them once, into the user's cache.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyspark

_FETCH_SECONDS = 300

_ONE_FILE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tests" module="fetch"/>
<dependencies><dependency org="{group}" name="{name}" rev="{version}" transitive="false">
<artifact name="{name}" type="jar" ext="jar" m:classifier="{classifier}"/>
</dependency></dependencies></ivy-module>"""


def cache_folder() -> Path:
    """Return the user's cache folder for fetched artifacts."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trident-pyspark"


def java() -> str:
    """Return the path of the Java that Spark uses."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def first_fetched(artifacts: Sequence[str]) -> tuple[Path, str]:
    """Return the folder with the jars of the first artifact that can be fetched, and "".

    If none can be fetched, return a folder and the reason.

    An artifact is ``group:name:version``, which includes its dependencies, or ``group:name:version:classifier``, which
    is a single file. The classifier may be empty.
    """
    reasons = []
    for artifact in artifacts:
        folder, reason = _resolve(artifact)
        if not reason:
            return folder, ""
        reasons.append(f"{artifact} cannot be fetched: {reason}")
    return folder, "; ".join(reasons)


def in_cache(artifact: str) -> bool:
    """Return whether an artifact has been fetched."""
    return _folder(artifact).is_dir()


def _folder(artifact: str) -> Path:
    _, name, version, *classifier = artifact.split(":")
    return cache_folder() / "-".join((name, version, *filter(None, classifier)))


@cache
def _resolve(artifact: str) -> tuple[Path, str]:
    """Return the folder for an artifact's jars, and the reason why the jars are missing; "" if they are there."""
    group, name, version, *classifier = artifact.split(":")
    folder = _folder(artifact)
    if folder.is_dir():
        return folder, ""
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"), None)
    if ivy is None or shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return folder, "there is no Java, or no Ivy in pyspark/jars"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        jars = Path(scratch) / "jars"
        wanted = ["-dependency", group, name, version]
        if classifier:
            asked = Path(scratch) / "ivy.xml"
            asked.write_text(_ONE_FILE.format(group=group, name=name, version=version, classifier=classifier[0]))
            wanted = ["-ivy", str(asked)]
        command = [java(), "-jar", str(ivy), *wanted, "-confs", "default", "-cache", f"{scratch}/ivy"]
        command += ["-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS)
        except subprocess.TimeoutExpired:
            return folder, f"Ivy did not end within {_FETCH_SECONDS} s"
        if ended.returncode or not list(jars.glob(f"{name}-*.jar")):
            lines = [line.strip() for line in ended.stdout.splitlines() if "UNRESOLVED" in line or "rror" in line]
            return folder, "; ".join(lines[:3]) or f"Ivy ended with {ended.returncode}"
        with suppress(OSError):  # another process has made the folder first
            jars.rename(folder)
    return folder, ""
