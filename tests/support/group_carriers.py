"""The carriers of a group as a test wants them: over stores that are open, with workers of its own."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tests.support.inline_puts import InlinePuts
from trident.base.attempt import Lease
from trident.commits.carriers import Carriers
from trident.commits.driver_carrier import DriverCarrier
from trident.commits.executor_carrier import ExecutorCarrier
from trident.commits.latest_search import LatestSearch
from trident.commits.previous_states import PreviousStates
from trident.commits.reachable_stores import ReachableStores
from trident.compiler.carrier_choice import CarrierPlan
from trident.compiler.program import Group
from trident.files.store import FileStore
from trident.log.frozen_batches import FrozenBatches


class DriverAnswers:
    """User code of which only queries are called: the driver answers each of them with no tuples."""

    def answer(self, step: Any, table: pa.Table, as_of: int) -> pa.Table:
        return table.slice(0, 0)


def group_carriers(
    group: Group, stores: Mapping[str, Any], puts: InlinePuts, files: FileStore, lease: Lease, statics: Any = None
) -> Carriers:
    """Return the carriers of a group, with executors."""
    unused: Any = None
    code: Any = DriverAnswers()
    plan, frozen = CarrierPlan(group), FrozenBatches(unused, group.name, files)
    before = PreviousStates(stores, frozen, frozenset())
    every, latest = {**(statics or {}), **stores}, LatestSearch(puts, code)
    driver = DriverCarrier(stores, lease, frozen, before, code, unused, latest)
    reach = ReachableStores(puts, every)
    executors = ExecutorCarrier(plan, every, lease, frozen, before, code, puts, reach, latest, None)
    return Carriers(plan, driver, executors)
