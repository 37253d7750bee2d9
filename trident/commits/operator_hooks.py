"""The hooks of stateful operations that are called in a commit turn, outside the update of their state.

They are called in the commit turn's thread for user code, like all user code of a turn, before and after everything
that the turn writes.
"""

from collections.abc import Iterable
from functools import partial

from trident.base.errors import AttemptCancelledError
from trident.base.log_fields import RunLogger
from trident.commits.user_code import UserCode
from trident.compiler.states.stateful import call_hook, has_hook
from trident.plan.nodes import StateWriter


class OperatorHooks:
    """Calls ``preCommit`` and ``ackCommit`` of a group's stateful operations. The commit thread calls it."""

    def __init__(self, steps: Iterable[StateWriter], code: UserCode, logger: RunLogger) -> None:
        steps = tuple(steps)
        self._preparing = [step for step in steps if has_hook(step, "preCommit")]
        self._acknowledging = [step for step in steps if has_hook(step, "ackCommit")]
        self._code, self._logger = code, logger
        self._begun: set[StateWriter] = set()
        """The steps whose operation has processed a batch in this run, and so knows its checkpoint."""

    def begun(self, step: StateWriter) -> None:
        """Record that an operation has processed a batch in this run."""
        self._begun.add(step)

    def before_writes(self, steps: Iterable[StateWriter], txid: int) -> None:
        """Call `preCommit` of the operations, because their frozen changes are written next.

        An error fails the turn, and the turn is repeated.
        """
        for step in steps if self._preparing else ():
            if step in self._preparing:
                self._code.call(step, txid, partial(call_hook, step, "preCommit", txid))

    def committed(self, txid: int) -> None:
        """Call `ackCommit` of the operations, because a batch is committed.

        An error is only logged: the batch stays committed.
        """
        for step in self._acknowledging:
            if step not in self._begun:  # its first batch begins with the acknowledgement of the previous batch
                continue
            try:
                self._code.call(step, txid, partial(call_hook, step, "ackCommit", txid))
            except AttemptCancelledError:  # the run ends; the next run calls it again
                return
            except Exception:
                self._logger.warning("%s failed in ackCommit(%d)", step.step, txid, exc_info=True)
