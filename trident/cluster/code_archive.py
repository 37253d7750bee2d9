"""The code of a submitted topology: a zip of the program's module or package. It is imported only from that zip."""

import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from trident.base.errors import TopologyError
from trident.cluster.program import imported, split
from trident.topology import TridentTopology

_MOST_BYTES = 256 << 20
_NATIVE = (".so", ".pyd", ".dylib")
_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all files in an archive, so that equal code gives equal bytes."""


def pack(archive: Path, program: str, include: Iterable[str | Path] = ()) -> None:
    """Write the module or package of ``module:topology``, and the files and folders of `include`, into a zip file.

    Raises TopologyError if there is no such module, or if it cannot be imported from a zip file.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    top = split(program)[0].partition(".")[0]
    files: dict[str, Path] = {}
    for place in [*_places(program, top), *map(Path, include)]:
        for name, file in _files(place):
            if files.setdefault(name, file) != file:
                raise TopologyError(f"the code has two files {name!r}: {files[name]} and {file}; rename one of them")
    size = sum(file.stat().st_size for file in files.values())
    if size > _MOST_BYTES:
        raise TopologyError(
            f"the code of {program!r} has {size:,} bytes, the limit is {_MOST_BYTES:,}: keep data elsewhere"
        )
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_DEFLATED) as packed:
        for name, file in sorted(files.items()):
            packed.writestr(zipfile.ZipInfo(name, _DATE), file.read_bytes(), zipfile.ZIP_DEFLATED)


def _places(program: str, top: str) -> list[Path]:
    """Return the file of a module, or the folders of a package."""
    importlib.invalidate_caches()
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise TopologyError(
            f"{program!r}: there is no module {top!r} in the working directory or among the installed packages"
        )
    if spec.submodule_search_locations is not None:
        return [Path(place) for place in spec.submodule_search_locations]
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise TopologyError(f"{program!r}: module {top!r} is not a Python file ({spec.origin or 'built in'})")
    return [Path(spec.origin)]


def _files(place: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a module or a package, each with its name in the archive."""
    if not place.exists():
        raise TopologyError(f"the file or folder of code {place} does not exist")
    if place.is_file():
        yield place.name, place
        return
    for file in sorted(place.rglob("*")):
        inside = file.relative_to(place)
        if any(part.startswith(".") or part == "__pycache__" for part in inside.parts) or not file.is_file():
            continue
        if file.suffix in _NATIVE:
            raise TopologyError(
                f"{file} is native code, which Python cannot import from a zip file: install its package on all "
                f"machines, and submit a module that imports it"
            )
        yield f"{place.name}/{inside.as_posix()}", file


def digest(archive: Path) -> str:
    """Return the SHA-256 of an archive, as hexadecimal digits."""
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def code_of(archive: Path) -> Iterator[None]:
    """Import modules from an archive before any other location, until the end of the block.

    Then unload these modules.
    """
    sys.path.insert(0, str(archive))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(archive))
        for name, module in list(sys.modules.items()):
            if _is_from(module, archive):
                del sys.modules[name]


@contextlib.contextmanager
def workers_import(archive: Path) -> Iterator[None]:
    """Let the workers of a local Spark that starts in this block import modules first from an archive."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(archive), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def load_from(archive: Path, program: str) -> TridentTopology:
    """Return the topology of a program from its archive. Call it within ``with code_of(archive):``.

    Raises TopologyError if the archive lacks the module, or if this process has imported another module of that name,
    and ModuleNotFoundError if the program imports a module that is neither in the archive nor installed.
    """
    try:
        topology = imported(program)
    except ModuleNotFoundError as error:
        top = (error.name or "").partition(".")[0]
        raise ModuleNotFoundError(
            f"{error}. The stored code has the program's module or package and the files of --include: submit with "
            f"--include {top}.py (or the folder of a package), or install {top!r} on the driver's machine",
            name=error.name,
        ) from error
    module = sys.modules[split(program)[0]]
    if not _is_from(module, archive):
        raise TopologyError(f"{program!r} was imported as {module!r} from a file outside the stored code in {archive}")
    return topology


def _is_from(module: object, archive: Path) -> bool:
    return (getattr(module, "__file__", None) or "").startswith(f"{archive}{os.sep}")
