"""Reports of a position that no longer fits the table: the stream stops, or a warning says what is left out."""

import logging
from typing import Literal, TypeAlias

from trident.base.errors import DataLossError, TridentError

OnDataLoss: TypeAlias = Literal["fail", "warn"]

_log = logging.getLogger("trident.spouts")


class Losses:
    """Tells of losses of one run, each once."""

    def __init__(self, name: str, on_data_loss: OnDataLoss) -> None:
        self._name, self._on_data_loss = name, on_data_loss
        self._warned: set[str] = set()

    def tell(self, loss: str, error: type[TridentError] = DataLossError) -> None:
        """Raise the error, or log a warning, as the user has chosen."""
        if self._on_data_loss == "fail":
            raise error(
                f"JdbcSpout: {self._name} {loss}. Start with onDataLoss='warn' to go on behind what was read: other "
                f"rows with values up to there are left out, and rows that are gone stay counted. To read all of the "
                f"table, give it to a stream of another name, with a state of its own: in the same state, rows that "
                f"were read would count twice"
            )
        if loss not in self._warned:
            self._warned.add(loss)
            _log.warning("JdbcSpout: %s %s. Reading goes on behind what was read", self._name, loss)
