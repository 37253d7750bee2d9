"""The versions of Python and of the packages that the library needs."""

import re
from collections.abc import Iterable
from importlib import metadata

from trident.base.finding import Finding
from trident.doctor.examined_setup import ExaminedSetup

DISTRIBUTION = "trident-pyspark"

_BOUND = re.compile(r"(>=|<=|<|>|==)\s*([\d.]+)")


def packages(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for packages that are missing, or have an unsupported version."""
    for requirement in metadata.requires(DISTRIBUTION) or ():
        # otherwise it belongs to an extra: the part that uses it reports it if it is missing
        if ";" not in requirement:
            yield from unmet(requirement)


def unmet(requirement: str) -> Iterable[Finding]:
    """Yield a finding if a requirement is not met on this machine.

    >>> [finding.found for finding in unmet("no-such-distribution>=1")]
    ['it is not installed; trident-pyspark needs no-such-distribution>=1']
    """
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    todo = f"pip install '{requirement}'"
    try:
        there = metadata.version(name[0])
    except metadata.PackageNotFoundError:
        yield Finding(name[0], f"it is not installed; {DISTRIBUTION} needs {requirement}", "imports fail", todo)
        return
    if not all(_holds(there, sign, bound) for sign, bound in _BOUND.findall(requirement)):
        found = f"{name[0]} {there} is installed; {DISTRIBUTION} needs {requirement}"
        yield Finding(name[0], found, "calls may fail, or return results that were not tested", todo)


def _holds(there: str, sign: str, bound: str) -> bool:
    ours, limit = _numbers(there), _numbers(bound)
    width = max(len(ours), len(limit))
    ours, limit = ours + [0] * (width - len(ours)), limit + [0] * (width - len(limit))
    return {">=": ours >= limit, "<=": ours <= limit, "<": ours < limit, ">": ours > limit, "==": ours == limit}[sign]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3]]
