"""The protocol by which a server reads a topology, which is running or was opened for reading."""

from collections.abc import Iterable
from typing import Protocol

from trident.base.metrics import MetricsRegistry
from trident.drpc.local import LocalDRPC
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.commit_times import CommitTimes
from trident.reads.committed_reads import Isolation
from trident.reads.state_changes import StateChanges
from trident.reads.state_view import StateView
from trident.reads.tagging import Tag
from trident.server.watched_topology import Watched
from trident.sql.state_queries import StateQueries


class Served(Protocol):
    """A topology that a server can serve: a `RunningTopology` or an `OpenedTopology`."""

    name: str
    drpc: LocalDRPC
    metrics: MetricsRegistry

    @property
    def queries(self) -> StateQueries:
        """The SQL queries over the states."""
        ...

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states that can be read."""
        ...

    @property
    def asOfTxid(self) -> dict[str, int]:
        """The last committed txid of each batch group, by name, as a read would see it now."""
        ...

    def commitTimes(self, group: str) -> CommitTimes:
        """Return when the batches of a group were committed."""
        ...

    @property
    def watched(self) -> Watched:
        """The view of the topology from which the page reads plan, status and events."""
        ...

    def group_of(self, state: str) -> str | None:
        """Return the batch group whose txids reads of the state return; None for a state without txids."""
        ...

    def state(self, name: str, isolation: Isolation = "committed", asOf: AsOfBatch | None = None) -> StateView:
        """Return a view of a state. Raises StateError if no state has this name."""
        ...

    def tags(self) -> list[Tag]:
        """Return the tags of the states."""
        ...

    def tag(self, name: str, asOf: AsOfBatch | None = None, *, states: Iterable[str] | None = None) -> Tag:
        """Make a tag; see ``RunningTopology.tag``."""
        ...

    def dropTag(self, name: str) -> None:
        """Drop a tag. Raises TagNotFoundError if there is none of this name."""
        ...

    def changes(self, state: str) -> StateChanges:
        """Return the changes of a state. Raises StateError if the state or the log cannot provide them."""
        ...
