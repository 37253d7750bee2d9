"""Reports of a position that no longer fits the table: the stream stops, or a warning names the skipped rows."""

import logging
from typing import Literal, TypeAlias

from trident.base.errors import DataLossError, TridentError

OnDataLoss: TypeAlias = Literal["fail", "warn"]

_log = logging.getLogger("trident.spouts")


class Losses:
    """Reports the losses of one run, each only once."""

    def __init__(self, name: str, on_data_loss: OnDataLoss) -> None:
        self._name, self._on_data_loss = name, on_data_loss
        self._warned: set[str] = set()

    def tell(self, loss: str, error: type[TridentError] = DataLossError) -> None:
        """Raise `error`, or log a warning, as `onDataLoss` says."""
        if self._on_data_loss == "fail":
            raise error(
                f"JdbcSpout: {self._name} {loss}. Start with onDataLoss='warn' to continue after the last row that was "
                f"read: other rows with values up to that row's value are lost, and deleted rows stay counted. To read "
                f"the whole table, use a stream with another name and a separate state: in the same state, rows that "
                f"were read would count twice"
            )
        if loss not in self._warned:
            self._warned.add(loss)
            _log.warning("JdbcSpout: %s %s. Reading continues after the last row that was read", self._name, loss)
