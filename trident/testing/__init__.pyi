"""The public names of this module, each with the module that defines it."""

from trident.testing.clock import ManualClock as ManualClock
from trident.testing.contracts.sources import ChangingSource as ChangingSource
from trident.testing.contracts.sources import SourceContract as SourceContract
from trident.testing.contracts.spouts import SpoutContract as SpoutContract
from trident.testing.contracts.stores import ExpiryContract as ExpiryContract
from trident.testing.contracts.stores import FactoryStorage as FactoryStorage
from trident.testing.contracts.stores import Storage as Storage
from trident.testing.contracts.stores import StoreContract as StoreContract
from trident.testing.crashes import CRASH_POINTS as CRASH_POINTS
from trident.testing.crashes import CRASH_VARIABLE as CRASH_VARIABLE
from trident.testing.crashes import DriverCrashedError as DriverCrashedError
from trident.testing.crashes import crash_at as crash_at
from trident.testing.crashes import kill_at as kill_at
from trident.testing.engine_fixture import EngineStart as EngineStart
from trident.testing.engine_fixture import engines as engines
from trident.testing.local import run_through as run_through
from trident.testing.local import start_local as start_local
from trident.testing.output import HandOver as HandOver
from trident.testing.output import TestOutput as TestOutput
from trident.testing.script import CRASH as CRASH
from trident.testing.script import END as END
from trident.testing.script import FAIL as FAIL
from trident.testing.script import PAUSE as PAUSE
from trident.testing.script import Mark as Mark
from trident.testing.source import TestSource as TestSource
