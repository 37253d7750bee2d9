"""The watch over the log and the stores.

Once a second, also in an idle run, it checks for takeovers and lost writes.
"""

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from trident.base.attempt import Lease
from trident.base.errors import AttemptCancelledError, BatchTimeoutError, FencedError, LogMismatchError, StateError
from trident.base.interruptible_waits import Flag
from trident.batches import coordinator_events as on
from trident.batches.group_run import GroupRun
from trident.log.protocol import TransactionLog
from trident.recovery.incarnations import check_this_log
from trident.user_calls.daemon_threads import Threads
from trident.user_calls.watched_store import WatchedStore
from trident_state.store import Store
from trident_state.store_messages import GroupStatus

_SECONDS = 1.0
"""The seconds between two checks."""


class Watch:
    """Compares the leases in the log and the stores, and the stores' markers, with those of this run.

    A takeover by a later driver ends the run. A rewound store is healed.
    """

    def __init__(
        self,
        runs: Mapping[str, GroupRun],
        stores: Mapping[str, Store],
        log: TransactionLog,
        lease: Lease,
    ) -> None:
        self._runs = runs
        self._stores = stores
        self._log = log
        self._lease = lease
        self._own = Threads("trident-watch-own")
        self._silent: dict[str, str] = {}
        """The errors of states that do not answer, by state."""
        self._asked: dict[str, Future[None]] = {}
        """The newest check of each user's store, by state. The next check begins when it is done."""
        self._over = Flag()
        self._thread = threading.Thread(target=self._loop, name="trident-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._own.close(0)
        if threading.current_thread() is not self._thread and self._thread.is_alive():
            self._thread.join(timeout=5)

    def _loop(self) -> None:
        while not self._over.wait(_SECONDS):
            try:
                self.look()
            except Exception as error:
                self._break(error)

    def look(self) -> None:
        """Check the log and every store once."""
        # The log first: if another driver has taken the log, that explains any finding in the states.
        lease = self._log.lease()
        if lease != self._lease:
            epoch = lease.epoch if lease else 0
            self._break(FencedError(f"another driver (epoch {epoch}) has taken over the log; this driver stops"))
            return
        for run in self._runs.values():
            if run.done.is_set():
                continue
            for step in run.group.states:
                name = step.state.name
                if not isinstance(self._stores[name], WatchedStore):
                    self._look_at(run, name)
                elif name not in self._asked or self._asked[name].done():  # user code must not delay the watch
                    self._asked[name] = self._own.submit(self._look_at, run, name)

    def _look_at(self, run: GroupRun, state: str) -> None:
        committed = run.committed  # read before the markers: a batch committed between the two reads is not a rewind
        store = self._stores[state]
        try:
            groups = store.groups_of()
            if any(map(self._fenced, groups)):
                check_this_log(state, store.report(), self._log.uuid)  # after a reset, epochs begin at 1 again
                raise FencedError(f"another driver has taken over state {state!r}; this driver stops")
        except (FencedError, LogMismatchError) as error:
            run.post(on.Broken(error))
            return
        except AttemptCancelledError:  # the run ends
            return
        except (StateError, BatchTimeoutError) as error:
            # A store that does not answer does not end the run here. A group with a batch to commit gets the error in
            # its commit turn, which counts `commitRetrySecs`; an idle group has no batch to lose.
            run.turns.waiting_for = error
            level = (
                logging.INFO if self._silent.get(state) == str(error) else logging.WARNING
            )  # one warning, not one per second
            self._silent[state] = str(error)
            run.logger.log(level, "state %r does not answer: %s", state, error)
            if error.hopeless:
                run.post(on.Broken(error))
            return
        except Exception as error:
            run.post(on.Broken(error))
            return
        if self._silent.pop(state, None) is not None:
            run.logger.info("state %r answers again", state)
        # A missing or older lease also means that the store was rewound, to a time before this driver acquired it. A
        # heal may be requested every second: it checks first, and does not change a store that is up to date.
        if any(group.lease != self._lease or (group.marker or 0) < committed for group in groups):
            run.logger.warning(
                "state %r lost its last batches (%s); the driver restores it up to txid %d", state, groups, committed
            )
            run.heal(state)

    def _fenced(self, group: GroupStatus) -> bool:
        """Return whether a later driver holds the group.

        The lease of an earlier driver means that the store was rewound.
        """
        lease = group.lease
        return lease is not None and lease != self._lease and lease.epoch >= self._lease.epoch

    def _break(self, error: BaseException) -> None:
        for run in self._runs.values():
            run.post(on.Broken(error))
