"""The search by Spark's workers for the latest event time of their tuples."""

from functools import partial

import pyarrow as pa

from trident.commits.carrier import Tuples
from trident.commits.user_code import UserCode
from trident.compiler.engine import Puts
from trident.compiler.latest_times import LatestTimes
from trident.compiler.windows.time_windows import field_of_latest
from trident.plan.nodes import Watermark, Window
from trident_spouts.shared_reading import SharesEmission


class LatestSearch:
    """The latest event times of a group's batches. Only the commit thread calls it."""

    def __init__(self, puts: Puts, code: UserCode) -> None:
        self._puts, self._code = puts, code
        self._last: tuple[SharesEmission, str, pa.Table] | None = None
        """The last answer, with its tuples and field, because a watermark and its window ask for the same time."""

    def find(self, step: Watermark | Window, tuples: Tuples, txid: int) -> pa.Table:
        """Return the latest event time of a batch's tuples for a watermark, as a table of one tuple with that field.

        The workers may run user code to compute the tuples, so the search has the time limit of a call of user code.
        """
        field = field_of_latest(step)
        assert field is not None and isinstance(tuples, SharesEmission)
        if self._last is None or self._last[0] is not tuples or self._last[1] != field:
            times = LatestTimes(tuples, field)
            work, overrun = partial(self._puts.latest, times), partial(self._puts.cancel, times)
            self._last = tuples, field, self._code.call(step, txid, work, overrun)
        return self._last[2]
