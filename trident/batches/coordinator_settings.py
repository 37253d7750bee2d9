"""The settings of a group's coordinator."""

from dataclasses import dataclass

from trident.batches.retries import Retries
from trident_spouts.wait_strategy import WaitStrategy


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """The settings of a group's coordinator. Times are in seconds.

    pending: batches in flight at most (Trident's max.spout.pending).
    retries: the limits of the attempts at one batch before the group stops; a `hopeless` error stops it at the first.
    plans_ahead: whether a batch can be planned while the previous one is not frozen yet. False if a spout knows its
        position only after emission.
    replans: whether a failed attempt is planned again (an opaque spout) instead of read again.
    commitRetry: how long a commit is repeated before the group stops and leaves the batch frozen; None: for ever.
    idleFirst, idleMost: the first and the longest sleep of a group with idle sources.
    active: whether new batches are planned from the start on, and not only after ActivateAsked.
    wait: the wait strategy, which replaces these two times, and also decides how long to wait while `pending` batches
    are in flight; None: a commit ends that wait.
    """

    pending: int = 2
    retries: Retries = Retries()
    plans_ahead: bool = True
    replans: bool = False
    commitRetry: float | None = 300.0
    idleFirst: float = 0.001
    idleMost: float = 0.5
    active: bool = True
    wait: WaitStrategy | None = None
