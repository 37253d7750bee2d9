"""The counts of each step in a committed batch, as progress events show them."""

from collections.abc import Iterable, Mapping
from typing import Any

from trident.frozen.results import StepWork


def steps_of(works: Iterable[StepWork], dead: Mapping[str, int], skipped: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return for each step its name and the known counts: tuples in, out, failed and skipped, and seconds.

    Some steps run as several nodes in a row. Then the input of the first node and the output of the last node count.

    >>> steps_of([StepWork("words/1:each", 4, 3, 0.002)], {}, {"words/1:each": 1})
    [{'name': 'words/1:each', 'in': 4, 'out': 3, 'failed': 0, 'skipped': 1, 'seconds': 0.002}]
    >>> steps_of([], {"words/1:each": 2}, {})
    [{'name': 'words/1:each', 'failed': 2}]
    """
    steps: dict[str, dict[str, Any]] = {}
    for work in works:
        if work.step in steps:
            steps[work.step]["out"] = work.left
            steps[work.step]["seconds"] = round(steps[work.step]["seconds"] + work.seconds, 6)
            continue
        steps[work.step] = {
            "name": work.step,
            "in": work.entered,
            "out": work.left,
            "failed": 0,
            "skipped": 0,
            "seconds": round(work.seconds, 6),
        }
    for key, counts in (("failed", dead), ("skipped", skipped)):
        for step, tuples in counts.items():
            steps.setdefault(step, {"name": step})[key] = tuples
    return list(steps.values())
