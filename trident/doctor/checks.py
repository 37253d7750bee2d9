"""The checks of `trident doctor`, in their order. A new check is a function and a line here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from trident.base.errors import MissingPackageError, TridentError
from trident.base.finding import Finding
from trident.doctor.checkpoint import checkpoint, log
from trident.doctor.configuration import configuration
from trident.doctor.examined_setup import ExaminedSetup
from trident.doctor.files_location import files_location
from trident.doctor.foreign_errors import said
from trident.doctor.java import java, spark_home, worker_python
from trident.doctor.machine import names, open_files, port
from trident.doctor.missing_package import missing
from trident.doctor.packages import packages
from trident.doctor.program_parts import parts, program
from trident.doctor.workers import spark

Check = Callable[[ExaminedSetup], Iterable[Finding]]
"""A check of a setup, which yields the faults that it finds. Its name is that of the function."""

CHECKS: Sequence[Check] = (
    packages,
    configuration,
    java,
    spark_home,
    worker_python,
    open_files,
    names,
    port,
    checkpoint,
    files_location,
    log,
    program,
    parts,
    spark,
)


class Diagnosis(NamedTuple):
    """A finding, and the name of the check that found it."""

    check: str
    finding: Finding


def diagnoses(setup: ExaminedSetup, checks: Sequence[Check] = CHECKS) -> Iterator[Diagnosis]:
    """Yield the findings of all checks. If a check itself fails, that is a finding, and the other checks still run."""
    for check in checks:
        name = check.__name__
        try:
            for finding in check(setup):
                yield Diagnosis(name, replace(finding, found=finding.found.removeprefix(f"{finding.about}: ")))
        except MissingPackageError as error:
            yield Diagnosis(name, missing(f"the check {name}", error))
        except (TridentError, OSError, ValueError) as error:
            yield Diagnosis(name, Finding(f"the check {name}", said(error), "this was not examined", _UNFINISHED))


_UNFINISHED = "See the message: mostly a file, a right or a server of this machine that no other finding names"
