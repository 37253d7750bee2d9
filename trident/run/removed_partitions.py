"""Warnings of count windows with tuples in partitions that the program no longer has, where they wait."""

import logging
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import StateError
from trident.compiler.program import Group
from trident.compiler.windows.count_windows import HEAD
from trident.plan.nodes import StateWriter, sources_of, walk
from trident.plan.parallelism_hints import Hints
from trident.plan.partitions import partition_counts
from trident.plan.states import state_traits
from trident.plan.window_schema import PART, PARTITION
from trident_state.store import Store

logger = logging.getLogger(__name__)


def left_behind(groups: Iterable[Group], stores: Mapping[str, Store], hints: Hints) -> Iterator[str]:
    """Yield a warning for each window by count that has tuples of partitions that the program no longer has.

    Each partition has a separate series of windows. With fewer partitions, the removed partitions get no more tuples,
    so their open windows never become complete.
    """
    for step in (step for group in groups for step in group.states):
        slide = state_traits(step).slide_by_partition(step)
        if slide is None:
            continue
        count = _partitions_before(step, hints)
        try:
            waiting = sum(_waiting(page, count, slide) for page in stores[step.state.name].scan(None))
        except StateError as error:  # a plain map cannot list its keys; a warning must not prevent a start
            logger.info(
                "state %r: cannot find out whether tuples wait in partitions that no longer exist: %s",
                step.state.name,
                error,
            )
            continue
        if waiting:
            yield (
                f"state {step.state.name!r}: {step.step} has separate windows in each partition, and {waiting} of its "
                f"tuples wait in partitions that no longer exist: the step now has {count}. These tuples come into a "
                f"window only if the step has as many partitions as before. For one series of windows over all tuples, "
                f"write global_() before the window"
            )


def _partitions_before(step: StateWriter, hints: Hints) -> int:
    """Return the number of partitions of a window's input."""
    (source,) = sources_of(step)
    return partition_counts(walk(source), hints=hints)[id(source)] or 1


def _waiting(page: pa.Table, count: int, slide: int) -> int:
    """Return how many tuples of a page of the state wait in partitions from number `count` on."""
    heads = page.filter(pc.equal(page.column(PART), HEAD))
    seen = pc.struct_field(heads.column(heads.num_columns - 1), "seen").to_pylist()
    partitions = heads.column(PARTITION).to_pylist()
    return sum(tuples % slide for tuples, partition in zip(seen, partitions, strict=True) if partition >= count)
