"""The counts of each step in a committed batch, as progress events show them."""

from collections.abc import Iterable, Mapping
from typing import Any

from trident.base.user_code_notes import both
from trident.frozen.results import StepWork


def steps_of(works: Iterable[StepWork], dead: Mapping[str, int], skipped: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return for each step its name and the known counts: tuples in, out, failed and skipped, and seconds.

    Some steps run as several nodes in a row. Then the input of the first node and the output of the last node count.

    >>> steps_of([StepWork("words/1:each", 4, 3, 0.002)], {}, {"words/1:each": 1})
    [{'name': 'words/1:each', 'in': 4, 'out': 3, 'failed': 0, 'skipped': 1, 'seconds': 0.002}]
    >>> steps_of([StepWork("words/1:each", 4, None, None)], {"words/1:each": 2}, {})
    [{'name': 'words/1:each', 'in': 4, 'failed': 2, 'skipped': 0}]
    """
    joined: dict[str, StepWork] = {}
    for work in works:
        first = joined.get(work.step)
        joined[work.step] = work if first is None else _in_a_row(first, work)
    steps = {step: _as_dict(work) for step, work in joined.items()}
    for key, counts in (("failed", dead), ("skipped", skipped)):
        for step, tuples in counts.items():
            steps.setdefault(step, {"name": step})[key] = tuples
    return list(steps.values())


def _in_a_row(first: StepWork, last: StepWork) -> StepWork:
    seconds = [work.seconds for work in (first, last) if work.seconds is not None]
    return StepWork(
        first.step, first.entered, last.left, sum(seconds) if seconds else None, both(first.notes, last.notes)
    )


def _as_dict(work: StepWork) -> dict[str, Any]:
    seconds = None if work.seconds is None else round(work.seconds, 6)
    known = {"name": work.step, "in": work.entered, "out": work.left, "failed": 0, "skipped": 0, "seconds": seconds}
    notes = {} if work.notes is None else work.notes.as_dict()
    return {key: value for key, value in known.items() if value is not None} | notes
