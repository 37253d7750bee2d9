"""A kit for tests of topologies, stores and spouts: ``from trident.testing import TestSource, start_local``.

- `TestSource`: a source made of a list of batches, with marks (`FAIL`, `CRASH`, `PAUSE`, `END`) between them;
- `TestOutput`: an output that keeps every batch that is handed over;
- `start_local`: a run without Spark; `run_through`: a run that is started again after each crash; `engines`: a pytest
  fixture that runs each test on each engine;
- `ManualClock`: a clock that stands still until the test moves it;
- `crash_at`, `kill_at`, `CRASH_POINTS`: drivers that die at a chosen point of the commit protocol;
- `StoreContract`, `ExpiryContract`, `SpoutContract`: what every store and every spout must do, as tests to inherit.

A name is imported when it is first used, because some need more packages: the contracts pytest and hypothesis (the
extra ``testing``), `engines` pytest. The other names need neither.
"""

import importlib
import sys
from functools import partial
from typing import TYPE_CHECKING

from trident.base.missing_names import missing_name
from trident.base.names import did_you_mean

if TYPE_CHECKING:
    from trident.testing.clock import ManualClock
    from trident.testing.contracts.spouts import SpoutContract
    from trident.testing.contracts.stores import ExpiryContract, FactoryStorage, Storage, StoreContract
    from trident.testing.crashes import CRASH_POINTS, CRASH_VARIABLE, DriverCrashedError, crash_at, kill_at
    from trident.testing.engine_fixture import EngineStart, engines
    from trident.testing.local import run_through, start_local
    from trident.testing.output import HandOver, TestOutput
    from trident.testing.script import CRASH, END, FAIL, PAUSE, Mark
    from trident.testing.source import TestSource

_HOMES = {
    "CRASH": "script",
    "CRASH_POINTS": "crashes",
    "CRASH_VARIABLE": "crashes",
    "DriverCrashedError": "crashes",
    "END": "script",
    "EngineStart": "engine_fixture",
    "ExpiryContract": "contracts.stores",
    "FAIL": "script",
    "FactoryStorage": "contracts.stores",
    "HandOver": "output",
    "ManualClock": "clock",
    "Mark": "script",
    "PAUSE": "script",
    "SpoutContract": "contracts.spouts",
    "Storage": "contracts.stores",
    "StoreContract": "contracts.stores",
    "TestOutput": "output",
    "TestSource": "source",
    "crash_at": "crashes",
    "engines": "engine_fixture",
    "kill_at": "crashes",
    "run_through": "local",
    "start_local": "local",
}

__all__ = [
    "CRASH",
    "CRASH_POINTS",
    "CRASH_VARIABLE",
    "END",
    "FAIL",
    "PAUSE",
    "DriverCrashedError",
    "EngineStart",
    "ExpiryContract",
    "FactoryStorage",
    "HandOver",
    "ManualClock",
    "Mark",
    "SpoutContract",
    "Storage",
    "StoreContract",
    "TestOutput",
    "TestSource",
    "crash_at",
    "engines",
    "kill_at",
    "run_through",
    "start_local",
]


def _attribute(name: str) -> object:
    if name not in _HOMES:
        hint = partial(did_you_mean, name, __all__)
        raise missing_name(__name__, name, hint, sys._getframe(1))  # noqa: SLF001
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # a type checker would take every misspelt name for an object
    __getattr__ = _attribute


def __dir__() -> list[str]:
    return sorted(__all__)
