"""A program's topology by its name: ``module:topology``."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from trident.base.errors import TopologyError, TridentError
from trident.base.names import did_you_mean
from trident.plan.topology_protocol import TopologyPlan
from trident.topology import TridentTopology


def load_topology(program: str) -> TridentTopology:
    """Return the topology that ``module:name`` names: an attribute of the module, or the result of a function in it.

    The module is imported from the current folder or the installed packages. Raises TopologyError if there is none.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return imported(program)


def imported(program: str) -> TridentTopology:
    """Return the topology that ``module:name`` names. Python may find the module anywhere."""
    module, attribute = split(program)
    try:
        imported_module = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise TopologyError(
            f"{program!r}: there is no module {module!r} in the working directory or among the installed packages"
        ) from None
    except _WITHOUT_PLACE as error:
        raise _placed(program, f"module {module!r}", error) from None
    try:
        found: Any = getattr(imported_module, attribute)
    except AttributeError:
        names = vars(imported_module)
        topologies = [name for name, value in names.items() if isinstance(value, TridentTopology)]
        functions = [name for name, value in names.items() if getattr(value, "__module__", "") == module]
        known = f"; its topologies: {', '.join(topologies)}" if topologies else ""
        near = did_you_mean(attribute, [*topologies, *functions]) or known
        raise TopologyError(f"{program!r}: module {module!r} has no {attribute!r}{near}") from None
    try:
        topology = found if isinstance(found, TridentTopology) else found() if callable(found) else found
    except _WITHOUT_PLACE as error:
        raise _placed(program, f"function {attribute!r}", error) from None
    if not isinstance(topology, TridentTopology):
        raise TopologyError(
            f"{program!r} is a {type(topology).__name__}, not a TridentTopology or a function that returns one"
        )
    return topology


_WITHOUT_PLACE = (ValueError, OSError)
"""Errors that the command line shows in one line, and that name no line of the program, as those of the library do."""


def _placed(program: str, raising: str, error: Exception) -> Exception:
    """Return an error with the line of the program that raised `error`; errors of the library name it themselves."""
    if isinstance(error, TridentError):
        return error
    frames = [each for each in traceback.extract_tb(error.__traceback__)[1:] if "importlib" not in each.filename]
    last = next((each for each in reversed(frames) if each.filename == frames[0].filename), None)
    place = f" ({PurePath(last.filename).name}:{last.lineno})" if last else ""
    return TopologyError(f"{program!r}: {raising} raised {type(error).__name__}: {error}{place}")


def split(program: str) -> tuple[str, str]:
    """Return module and attribute of ``module:topology``. Raises TopologyError if the text has another form."""
    module, _, attribute = program.partition(":")
    if not module or not attribute:
        raise TopologyError(f"{program!r}: expected module:topology, such as counts:topology")
    return module, attribute


def local_paths(topology: TopologyPlan) -> list[str]:
    """Return the paths on this machine that sources, states and outputs of a topology name, absolute and in order.

    If a program with relative paths runs in another working folder, the result of this function differs.
    """
    texts = (
        str(path) for each in _members(topology) if isinstance(path := getattr(each, "path", None), str | PurePath)
    )
    return sorted({os.path.abspath(os.path.expanduser(text)) for text in texts if "://" not in text})


def _members(topology: TopologyPlan) -> Iterator[object]:
    for node in topology.nodes:
        yield node
        yield getattr(node, "spout", None)
        yield getattr(getattr(node, "state", None), "factory", None)
