"""The public API as text: each public name with its signature, one line each, read from the sources.

``python -m tests.compatibility.public_api`` writes the listing of this version, ``tests/golden/<version>/api.txt``.
"""

import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe

from tests.compatibility.shelf import GOLDEN
from trident import errors
from trident.base.deprecation import minor_of
from trident.base.version import __version__

ROOT = Path(__file__).parents[2]
MODULES = ("trident", "trident.functions", "trident.spouts", "trident.state", "trident.testing")
"""The modules whose ``__all__`` has public names; those of ``trident.errors`` are its errors."""

RETURNED = (
    "trident.access.opened_state.OpenedState",
    "trident.access.opened_topology.OpenedTopology",
    "trident.client.answers.ServedRows",
    "trident_client.changes.Change",
    "trident.configuration.start_options.StartOptions",
    "trident.drpc.local.DRPCResult",
    "trident.drpc.local.LocalDRPC",
    "trident.reads.state_view.StateView",
    "trident.run.running.RunningTopology",
    "trident.stream.aggregator_chain.ChainedAggregate",
    "trident.stream.stream.GroupedStream",
    "trident.stream.split.SplitStreams",
    "trident.stream.stream.TridentState",
    "trident.stream.stream.WindowedStream",
)
"""Classes that a program gets from public calls without importing them, and the options of a start."""

_FORMER = re.compile(r"^from \S+ import (\w+) as (\w+)  # since (\S+)$", flags=re.MULTILINE)
_MARK = re.compile(r"  # deprecated since (\d+)\.(\d+)$")


def listing() -> str:
    """Return all public names of the library with their signatures, in order."""
    loader = griffe.GriffeLoader(search_paths=[str(ROOT / each) for each in (".", "state", "spouts")])
    for package in ("trident", "trident_client", "trident_state", "trident_spouts"):
        loader.load(package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader.resolve_aliases(implicit=False, external=False)
    root = loader.modules_collection
    lines = list[str]()
    public = [(module, name) for module in MODULES for name in import_module(module).__all__]
    public += [("trident.errors", name) for name, held in vars(errors).items() if isinstance(held, type)]
    for module, name in public:
        lines += lines_of(f"{module}.{name}", root[f"{module}.{name}"])
    for path in RETURNED:
        lines += lines_of(path, root[path])
    for module in MODULES:
        lines += _former(module)
    return "".join(f"{line}\n" for line in sorted({*lines}))


def _former(module: str) -> Iterator[str]:
    """Yield the lines of the names of a module that go: those that its stub lists for other names."""
    file = import_module(module).__file__
    assert file is not None
    for present, name, since in _FORMER.findall(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")):
        yield f"{module}.{name} = {module}.{present}  # deprecated since {since}"


def lines_of(name: str, held: Any) -> Iterator[str]:
    """Yield the lines of a function, a value, or a class with its public members."""
    held = held.final_target if held.is_alias else held
    if held.is_module:
        return
    yield f"{name}{_signature(held)}"
    if held.is_class:
        for part, member in held.all_members.items():
            if part == "__init__":
                yield f"{name}{_signature(member)}"
            elif not part.startswith("_") and not (member.inherited and name.startswith("trident.errors.")):
                yield from lines_of(f"{name}.{part}", member)


def _signature(held: Any) -> str:
    """Return the arguments and the result of a function, the bases of a class, the type of a value."""
    held = held.final_target if held.is_alias else held
    if held.is_function:
        if any(str(each.value) == "cached_property" for each in held.decorators):
            return f": {held.returns}"
        since = [re.search(r"since='(.+)'", str(each.value)) for each in held.decorators]
        mark = "".join(f"  # deprecated since {found[1]}" for found in since if found)
        return f"{str(held.signature()).removeprefix(held.name).removesuffix(' -> None')}{mark}"
    if held.is_class:
        return f" < {', '.join(str(base) for base in held.bases)}" if held.bases else ""
    return f": {held.annotation}" if held.annotation is not None else ""


def removed_too_early(former: str, present: str, version: str) -> list[str]:
    """Return the names of a former listing that the listing of `version` lacks, although they were not long deprecated.

    >>> removed_too_early("t.Sum()\\nt.each(a)\\nt.old()  # deprecated since 0.3\\n", "t.each(a, b)\\n", "0.5.0")
    ['t.Sum']
    """
    minor = tuple(map(int, minor_of(version).split(".")))
    kept = {_name(line) for line in present.splitlines()}
    gone = [line for line in former.splitlines() if _name(line) not in kept]
    return sorted({_name(line) for line in gone if not _may_go(line, minor)})


def _name(line: str) -> str:
    return re.split(r"[ (:]", line, maxsplit=1)[0]


def _may_go(line: str, version: tuple[int, ...]) -> bool:
    mark = _MARK.search(line)
    return mark is not None and (int(mark[1]), int(mark[2]) + 2) <= version


def main() -> None:
    path = GOLDEN / minor_of(__version__) / "api.txt"
    path.write_text(listing(), encoding="utf-8")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
