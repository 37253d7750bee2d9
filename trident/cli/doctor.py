"""``trident doctor``: find faults of this machine, its settings and its servers before a topology starts."""

import functools
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from trident.base.finding import Finding
from trident.base.json_values import to_json
from trident.cli.given_options import given_options
from trident.cli.program_options import (
    ProgramArguments,
    SparkArguments,
    maybe_program_options,
    set_option,
    spark_options,
    start_options,
)
from trident.cluster.driver_session import driver_session
from trident.cluster.program import load_topology
from trident.cluster.spark_confs import check_confs
from trident.configuration.start_options import StartOptions
from trident.doctor.checks import CHECKS, Diagnosis, diagnoses
from trident.doctor.examined_setup import ExaminedSetup
from trident.doctor.foreign_errors import said


@click.command()
@maybe_program_options
@start_options("engine")
@spark_options
@click.option("--spark", "with_spark", is_flag=True, help="Also start Spark, and examine sources from its workers.")
@click.option("--spark-secs", default=120.0, show_default=True, help="The time that Spark may take for that.")
@set_option
@click.option("--port", type=click.IntRange(1), help="The port at which the run is to be served.")
@click.option("--json", "as_json", is_flag=True, help="Print each finding as a line of JSON.")
def doctor(
    topology: ProgramArguments,
    options: StartOptions,
    spark: SparkArguments,
    with_spark: bool,
    spark_secs: float,
    settings: Sequence[str],
    port: int | None,
    as_json: bool,
) -> None:
    """Examine this machine, trident.toml, the checkpoint and the servers, and suggest a fix for each fault.

    With MODULE:TOPOLOGY, also examine the program: whether its options fit, and the sources, states and outputs that
    it names. Nothing is started and no log is taken. The exit code is 1 if a fault stops a start or may lose data,
    otherwise 0, also if there is advice.
    """
    began = time.monotonic()
    given = given_options(topology, options, settings)
    found: list[Diagnosis] = []
    program = None
    if topology.program:
        try:
            program = load_topology(topology.program)
        except Exception as error:  # whatever the user's module raises
            found.append(Diagnosis("program", _not_loaded(topology.program, error)))
    session = None
    if with_spark or spark.master is not None or spark.confs:
        check_confs(spark.settings)
        session = functools.partial(driver_session, topology.name, spark.master, spark.settings)
    setup = ExaminedSetup(
        topology.name, program, given, spark.profile, port=port, session=session, spark_secs=spark_secs
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the findings of a check include the warnings of a start
        found += diagnoses(setup)
    for diagnosis in found:
        click.echo(to_json(as_row(diagnosis)) if as_json else as_text(diagnosis))
    click.echo(f"{_counted(found)}; {len(CHECKS)} checks in {time.monotonic() - began:.1f} s", err=as_json)
    if any(diagnosis.finding.grave for diagnosis in found):
        click.get_current_context().exit(1)


def as_row(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as a row of the output with --json."""
    row = asdict(diagnosis.finding)
    return {"check": diagnosis.check, "level": "error" if row.pop("grave") else "warning", **row}


def as_text(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as lines for people."""
    row = as_row(diagnosis)
    lines = [f"{row['level'].upper()} {row['about']}", f"  found:  {row['found']}", f"  effect: {row['matters']}"]
    return "\n".join([*lines, f"  do:     {row['todo']}", ""])


def _not_loaded(program: str, error: Exception) -> Finding:
    todo = "Correct the program, or run trident doctor in its folder with its environment (the same Python)"
    return Finding(program, said(error), "the program cannot be loaded", todo)


def _counted(found: Sequence[Diagnosis]) -> str:
    if not found:
        return "nothing found"
    errors = sum(diagnosis.finding.grave for diagnosis in found)
    return f"{_plural(errors, 'error')} and {_plural(len(found) - errors, 'warning')}"


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
