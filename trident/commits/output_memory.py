"""The memory of outputs in a run's log: their progress, and the attempts to hand a batch over."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trident.base.attempt import Lease
from trident.base.errors import FencedError
from trident.compiler.program import Group
from trident.log.group_records import History
from trident.log.protocol import OutputProgress, TransactionLog
from trident.plan.nodes import Sink, WriteParquet
from trident.plan.sinks import SINKS
from trident.recovery.acquisition import Begun
from trident.recovery.program_compatibility import Names

KEPT = tuple(kind for kind, traits in SINKS.items() if traits.keeps_progress)
"""The kinds of outputs whose progress the log keeps. Other outputs end with the process, or may skip batches."""


@dataclass(frozen=True, slots=True)
class LogMemory:
    """The memory of outputs in the log; see `OutputMemory`.

    `before` is the outputs' progress as the log has it, `known` the progress as this run will record it.
    """

    log: TransactionLog
    lease: Lease
    leaseSecs: float
    before: Mapping[str, OutputProgress]
    known: Mapping[str, OutputProgress]
    called: dict[str, int] = field(default_factory=dict, compare=False)
    """The last txid that this run handed over to each output, or tried to."""

    @classmethod
    def of(cls, begun: Begun, log: TransactionLog, leaseSecs: float) -> "LogMemory":
        before = log.outputs()
        return cls(log, begun.lease, leaseSecs, before, _progress(begun, log, before))

    def keep(self) -> None:
        """Record the progress in the log. Call this after all outputs have accepted the program."""
        if self.known != self.before:
            self.log.keep_outputs(self.lease, self.known)

    def issued(self, lease: Lease) -> bool:
        return self.log.issued(lease)

    def progress(self, output: str) -> OutputProgress:
        return self.known.get(output, OutputProgress())

    def attempt(self, output: str, txid: int, least: int) -> int:
        """Compare the lease and record the attempt; see `OutputMemory.attempt`.

        Attempt 0 needs no record: only this run can make it, because every later run finds the batch frozen and begins
        with 1. If this process was suspended so long that a standby may have taken the log, it compares the lease
        again.
        """
        first = least == 0 and self.called.get(output) != txid
        while True:
            began = time.monotonic()
            if not first:
                attempt = self.log.handing_over(self.lease, output, txid, max(least, 1))
            elif self.log.lease() == self.lease:
                attempt = 0
            else:
                raise FencedError("another driver has taken over the log; this driver stops")
            if time.monotonic() - began < self.leaseSecs / 2:
                self.called[output] = txid
                return attempt

    def warnings(self, begun: Begun) -> list[str]:
        """Return a warning for each output that is in the program again after it has missed batches.

        A Parquet output decides by itself: it refuses, or begins in an empty folder.
        """
        sinks = [sink for group in begun.program.groups for _, sink in _kept(group)]
        others = [sink.name for sink in sinks if not isinstance(sink, WriteParquet) and sink.name in self.before]
        return [
            f"output {name!r} is in the program again, but the program had no such output while batches {until + 1} to "
            f"{missed} were committed: its readers do not get these batches"
            for name in others
            if (until := self.before[name].until) is not None and (missed := self.known[name].missed) > until
        ]


def _progress(begun: Begun, log: TransactionLog, before: Mapping[str, OutputProgress]) -> dict[str, OutputProgress]:
    """Return the progress of each output of the log and of the program, as this run will record it."""
    groups, progress = log.members().outputs, dict[str, OutputProgress]()
    for name, last in before.items():
        group = groups.get(name, "")
        history = begun.histories.get(group)
        committed = log.last_committed(group) if history is None else history.committed
        progress[name] = replace(last, until=committed) if last.until is None else last
    for running in begun.program.groups:
        for output, sink in _kept(running):
            last = before.get(sink.name, OutputProgress())
            missed = _missed(output, last.until, begun.histories[running.name], begun.waiting[running.name])
            progress[sink.name] = OutputProgress(last.last, None, max(last.missed, missed))
    return progress


def _missed(output: str, until: int | None, history: History, waiting: Mapping[int, Names]) -> int:
    """Return the last batch that an output will not get; 0 if there is none.

    `until` is the last batch before the output was removed.

    A waiting batch misses the output if the program that froze the batch did not have the output.
    """
    if until is None:
        return 0
    without = [txid for txid, names in waiting.items() if output not in names.values()]
    return max([history.committed if history.committed > until else 0, *without])


def _kept(group: Group) -> list[tuple[str, Sink]]:
    """Return the outputs of a group whose progress the log keeps, each with the name of its frozen result."""
    sinks = [(output.name, output.step) for output in group.sinks if isinstance(output.step, Sink)]
    return [(name, sink) for name, sink in sinks if isinstance(sink, KEPT)]
