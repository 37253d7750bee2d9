"""The driver as a carrier: it has tuples in its memory, and reads and writes every state itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.errors import StateValueError
from trident.base.value_conversion import OutsideYears
from trident.base.years import OUTSIDE_YEARS
from trident.commits.carrier import UpdateResults, UpdateWork
from trident.commits.latest_search import LatestSearch
from trident.commits.operator_hooks import OperatorHooks
from trident.commits.previous_states import PreviousStates
from trident.commits.user_code import UserCode
from trident.compiler.program import Output
from trident.compiler.state_updates import compile_state_update
from trident.compiler.year_checks import WAY_OUT, check_years
from trident.frozen.results import Result
from trident.log.frozen_batches import FrozenBatches
from trident.log.frozen_results import with_dropped
from trident.plan.nodes import StateReader, StateWriter, Watermark, sources_of
from trident_spouts.shared_reading import SharesEmission
from trident_state.store import Store
from trident_state.store_messages import Applied


@dataclass
class DriverCarrier:
    """The driver's work for one group; see `Carrier`.

    `stores` are acquired under `lease`. `latest` finds the latest event time of tuples that the workers have; None
    without workers.
    """

    stores: Mapping[str, Store]
    lease: Lease
    frozen: FrozenBatches
    before: PreviousStates
    code: UserCode
    hooks: OperatorHooks
    latest: LatestSearch | None
    name: ClassVar[Literal["driver"]] = "driver"

    def __post_init__(self) -> None:
        self._compiled = cache(compile_state_update)

    def write(self, step: StateWriter, txid: int, result: Result, values: bool) -> Applied:
        """Apply a result to a store; see `Carrier.write`.

        Raises StateValueError for a time outside the accepted years, in a frozen result or a stored value.
        """
        state, update = step.state.name, self.frozen.update(txid, result)
        try:
            return self.stores[state].apply(self.lease, update, values)
        except (OutsideYears, OverflowError) as error:
            where = f"state {state!r}, batch {update.txid}"
            check_years(where, update.keys, (*update.keys.columns, update.deltas))
            if isinstance(error, OutsideYears):  # not in the batch, so it is a stored value; a read shows its key
                raise StateValueError(f"{where}: the stored time is {error.text}: {OUTSIDE_YEARS}. {WAY_OUT}") from None
            raise

    def update(self, work: UpdateWork) -> UpdateResults:
        """Run the user's code over the state, in the commit turn's thread for user code; see `Carrier.update`."""
        step, txid = work.step, work.txid
        tables = self._tables(work)

        def run() -> UpdateResults:
            stored, batch = self.before.state(step.state.name, txid), self.before.window_batch(step, txid)
            update = self._compiled(step)(tables, stored, batch)
            return UpdateResults(with_dropped(update.puts, update.dropped), update.emitted, update.due)

        made = self.code.call(step, txid, run)
        self.hooks.begun(step)
        return made

    def _tables(self, work: UpdateWork) -> list[pa.Table]:
        """Return the input tuples of an update, by source.

        A watermark needs only the latest time: if workers have the tuples, only the tuple with that time comes to the
        driver.
        """
        step = work.step
        if isinstance(step, Watermark) and self.latest is not None:
            tuples = work.entering.of(step.source)
            if isinstance(tuples, SharesEmission) and tuples.shares:
                return [self.latest.find(step, tuples, work.txid)]
        return [work.entering.table(source) for source in sources_of(step)]

    def ask(self, step: StateReader, asking: Result, as_of: int) -> pa.Table:
        """Query a state by the user's query function; see `Carrier.ask`."""
        return self.code.answer(step, self.frozen.whole(asking), as_of)

    def carry(self, output: Output, result: Result) -> pa.Table:
        """Return the rows of a result as a table. If they are in files, read the files."""
        return self.frozen.whole(result)
