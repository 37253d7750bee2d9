"""The methods of a running topology that pause it, change its numbers of partitions, and copy it."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping

from trident.base.durations import Duration, read_limit
from trident.base.log_fields import RunLogger
from trident.base.verb_call import user_level
from trident.batches.run_context import RunContext
from trident.recovery.savepoint import SavepointInfo, info_of
from trident.run.removed_partitions import left_behind
from trident.run.run_control import RunControl
from trident.run.savepoints import Saving
from trident.user_calls.watched_store import unwatched


class Controllable:
    """A running topology that can pause, and change or copy itself between two batches."""

    name: str
    _context: RunContext
    _switches: RunControl
    _saving: Saving
    _logger: RunLogger

    def deactivate(self, wait: Duration | None = 0) -> bool:
        """Plan no new batch until `activate`. Does nothing if the topology is inactive already.

        Planned batches are still computed and committed, and states and DRPC functions keep answering. The run keeps
        its log, so that no standby takes over. A RichSpout is deactivated, once. Meaning: ``deactivate`` of Storm's
        Nimbus.

        Parameters
        ----------
        wait : duration or None
            How long to wait until everything that was planned is committed. The default does not wait; None waits
            without a limit.

        Returns
        -------
        bool
            Whether everything that was planned is committed.

        Raises
        ------
        TopologyConditionError
            The topology has ended, or is being rebalanced.
        """
        limit = read_limit("wait", wait, zero=True)
        if limit != 0:
            self._check_other_thread("deactivate")
        return self._switches.deactivate(limit)

    def activate(self) -> None:
        """Plan new batches again, after `deactivate` or a start with ``active=False``. Returns at once.

        Does nothing if the topology is active already. Raises TopologyConditionError if it has ended, or is being
        rebalanced. Meaning: ``activate`` of Storm's Nimbus.
        """
        self._switches.activate()

    def rebalance(self, parallelismHints: Mapping[str, int], timeout: Duration | None = "5 minutes") -> None:
        """Change numbers of partitions between two batches, and return when the next batches run with them.

        The run plans no new batch, waits until everything that was planned is committed, plans its steps again, and
        continues: with the next txid, under the same lease, and active or inactive as before. States do not move,
        because they are kept by key. The next start has the program's numbers again; give it ``parallelismHints=``.
        Meaning: ``rebalance`` of Storm's Nimbus.

        Parameters
        ----------
        parallelismHints : dict of str and int
            ``{"words": 8}`` for each `parallelismHint` of the stream "words", ``{"words/2": 8}`` for one step.
            ``running.parallelismHints`` lists them. Hints that are left out do not change.
        timeout : duration or None
            How long to wait for the planned batches.

        Raises
        ------
        TopologyError
            No step of a batch group has such a hint. Nothing was changed.
        TimeoutError
            The planned batches are not committed in this time. The run continues with the former numbers.
        TopologyConditionError
            The topology has ended, or is being rebalanced.
        """
        self._check_other_thread("rebalance")
        self._switches.rebalance(parallelismHints, read_limit("timeout", timeout, zero=True))
        begun = self._context.begun
        for text in left_behind(begun.program.groups, unwatched(begun.stores), self._switches.hints):
            warnings.warn(text, RuntimeWarning, stacklevel=user_level())
        self._logger.info("topology %r runs with the parallelism hints %s", self.name, self._switches.all_hints)

    def savepoint(self, name: str, timeout: Duration | None = "5 minutes") -> SavepointInfo:
        """Make a named copy of the topology as of one committed batch of each group, and continue.

        The copy is stored beside the checkpoint, or under the filesLocation, and contains the positions of all streams
        and the values of all states, wherever they are kept. `forkTopology` makes another topology from it.

        The run plans no new batch, waits until everything that was planned is committed, and copies; a RichSpout is
        deactivated meanwhile. Of a state in memory or in Redis only the keys that changed during the copy are read in
        this pause. States in a database or in your own map, values that expire (``ttlSecs=``) and nonTransactional
        states are read wholly in the pause. If the process dies on the way, there is no savepoint, and the topology is
        as it was.

        Parameters
        ----------
        name : str
            The savepoint's name: letters, digits, ``.``, ``_`` and ``-``.
        timeout : duration or None
            How long to wait for the planned batches.

        Returns
        -------
        SavepointInfo
            The name, the txids, the number of entries of each state.

        Raises
        ------
        SavepointError
            There is a savepoint of this name; the topology has neither a checkpointLocation nor a filesLocation; or a
            group has ended with a batch that is not committed.
        TimeoutError
            The planned batches are not committed in this time. No savepoint was taken, and the run continues.
        TopologyConditionError
            The topology has ended, is being rebalanced, or takes another savepoint.

        Examples
        --------
        >>> import tempfile
        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
        >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with topology.start(engine="embedded", name="wc", checkpointLocation=folder) as running:
        ...         running.processAllAvailable()
        ...         saved = running.savepoint("before")
        >>> saved.txids, saved.entries
        ({'words': 2}, {'counts': 2})
        """
        self._check_other_thread("savepoint")
        return info_of(self._saving.take(name, read_limit("timeout", timeout, zero=True)))

    @abstractmethod
    def _check_other_thread(self, method: str) -> None:
        """Raise a TridentError if this thread belongs to the topology, which cannot wait for itself."""
