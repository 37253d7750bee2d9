"""Debug, the built-in operation that writes tuples to the Python log."""

from dataclasses import dataclass

from trident.base.argument_checks import check_whole_number
from trident.base.errors import TopologyError


@dataclass(frozen=True)
class Debug:
    """An operation that writes tuples, at most `limit` of each batch, to the Python log. The stream stays the same.

    Meaning: ``org.apache.storm.trident.operation.builtin.Debug``, which prints on the worker.

    >>> Debug("words")
    Debug(label='words', limit=100)
    """

    label: str | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        if self.label is not None and not isinstance(self.label, str):
            raise TopologyError(f"Debug takes a label as text, not {self.label!r}")
        check_whole_number("Debug: limit", self.limit)
