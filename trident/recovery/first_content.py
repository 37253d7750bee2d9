"""The initial content of a state in the log: the store gets it from there, like a frozen batch that it lacks.

The content is frozen before the store gets it, like a batch (docs/decisions/0001), so a crash at any point repeats only
the write. `trident.commits.store_writes` heals the store with it.
"""

from dataclasses import dataclass

import pyarrow as pa

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.value_conversion import conform
from trident.configuration.settings import Settings
from trident.log.frozen_results import FrozenOutput, freeze, with_life, with_time
from trident.log.protocol import Birth, TransactionLog
from trident.plan.nodes import StateWriter
from trident_state.state_shape import StateShape
from trident_state.store import ttl_of_factory

_STAGE = 0
"""The stage number in the names of folders with contents. Stages of batches begin with 1."""


@dataclass(frozen=True, slots=True)
class FirstContents:
    """Records the births of states with initial content. `births` gets each birth that is recorded."""

    log: TransactionLog
    settings: Settings
    births: dict[str, Birth]

    def record(self, node: StateWriter, shape: StateShape, lease: Lease, birth: Birth, content: pa.Table) -> None:
        """Record in the log, durably and in one step, that a state was created with initial content."""
        self.log.born(lease, node.state.name, birth, self._frozen(lease, node, shape, birth, content))
        self.births[node.state.name] = birth

    def _frozen(
        self, lease: Lease, node: StateWriter, shape: StateShape, birth: Birth, content: pa.Table
    ) -> FrozenOutput:
        schema = pa.schema([*shape.keys, pa.field("value", shape.value)])
        table = conform(content, schema) if content.num_rows else schema.empty_table()
        result = with_life(with_time(table, self.settings.clock.time()), ttl_of_factory(node.state.factory))
        return frozen_content(self.settings, lease, birth, result)


def frozen_content(settings: Settings, lease: Lease, birth: Birth, content: pa.Table) -> FrozenOutput:
    """Return the initial content of a state in the form in which the log stores it."""
    folders, attempt = settings.files, TransactionAttempt(birth.txid, 0, lease.epoch)
    return freeze(content, None if folders is None else folders.folder(birth.group, attempt, _STAGE))
