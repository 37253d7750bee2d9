"""``trident submit``, and the later commands for a topology: ``list activate deactivate rebalance kill resume``."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from trident.base.errors import TopologyConditionError, TridentError
from trident.cli.output import format_option, show
from trident.cli.program_options import (
    ProgramArguments,
    SparkArguments,
    log_option,
    log_to_stderr,
    once,
    pairs,
    program_options,
    set_option,
    spark_options,
    start_options,
)
from trident.cli.run import end_by_signals
from trident.cluster.stored_driver import drive
from trident.cluster.stored_topology import Home, Report, StoredTopology
from trident.cluster.submission import submit as stored_by_submit
from trident.configuration.start_options import StartOptions
from trident.plan.parallelism_hints import named_hints

_F = TypeVar("_F", bound=Callable[..., Any])

_ENDED = ("FAILED", "STOPPED")
_LOOK_SECONDS = 0.1
_END_SECONDS = 30.0
"""The seconds that a driver may take to end, in addition to the time for planned batches."""

_home = click.option(
    "--home", type=click.Path(file_okay=False, path_type=Path), help="Where topologies are stored. [env: TRIDENT_HOME]"
)
_timeout = click.option("--timeout", default=120.0, show_default=True, help="Seconds to wait for the driver.")


def _at(home: Path | None) -> Home:
    return Home() if home is None else Home(home.absolute())


def _counts(given: Iterable[str]) -> dict[str, int]:
    counts = pairs("partitions", given)
    for name, count in counts.items():
        if not (count.isascii() and count.isdigit()):
            raise click.UsageError(f"{name}={count}: expected a number of partitions")
    return {name: int(count) for name, count in counts.items()}


@click.command()
@program_options
@start_options("engine", active="--inactive")
@_home
@set_option
@spark_options
@click.option("--include", multiple=True, help="A file or folder that is stored beside the program's own module.")
@click.option("--no-start", is_flag=True, help="Store it without starting a driver; `trident resume` starts one.")
@_timeout
def submit(
    topology: ProgramArguments,
    options: StartOptions,
    home: Path | None,
    settings: tuple[str, ...],
    spark: SparkArguments,
    include: tuple[str, ...],
    no_start: bool,
    timeout: float,
) -> None:
    """Store the TOPOLOGY in MODULE with its code and all options, and start a driver for it in the background.

    Before, it is checked: name, plan, guarantee, log, states, Spark. The driver starts only from the stored files, so
    the program's files may be deleted. The checkpoint is in the home unless an option names another one.
    """
    texts, name, log = pairs("--set", settings), topology.name, topology.log
    engine, active = options.get("engine"), options.get("active")
    own = {"checkpointLocation": topology.checkpoint, "engine": engine}
    once(texts, **own, log=log, active=active)
    place = _at(home)
    stored = stored_by_submit(
        place,
        topology.program,
        name,
        {**texts, **{option: text for option, text in own.items() if text is not None}},
        log=log,
        profile=spark.profile,
        master=spark.master,
        confs=spark.settings,
        include=include,
        active=active,
    )
    if no_start:
        click.echo(f"topology {name!r} is stored in {stored.folder}", err=True)
        return
    with open(os.open(stored.said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as said:
        driver = subprocess.Popen(
            [sys.executable, "-m", "trident", "resume", "--home", str(place.folder), "--", name],
            cwd=stored.folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    report = _awaited(stored, lambda report: report.condition != "FAILED", timeout, driver)
    click.echo(f"topology {name!r} is {report.condition}: process {report.pid}, {stored.said}", err=True)


@click.command()
@click.argument("name")
@_home
@click.option("--standby", is_flag=True, help="Wait until the log's driver has stopped or is silent.")
@log_option
def resume(name: str, home: Path | None, standby: bool, log_json: bool) -> None:
    """Run a stored topology in this process, using only its stored files, until a kill, SIGTERM or Ctrl-C.

    It continues from the last commit of its last driver. Supervisors call this: at a start of the machine, on another
    machine with --standby. If the topology fails, the exit code is 1.
    """
    log_to_stderr(log_json)
    end_by_signals()
    drive(_at(home).find(name), standby)


@click.command("list")
@_home
@format_option
def list_(home: Path | None, form: str | None) -> None:
    """List the stored topologies: condition, driver, the last committed txid of each batch group, the last error.

    DIED: the driver ended without a report; `trident resume` continues. DAMAGED: one of the stored files is unreadable.
    """
    columns = ["topology", "condition", "driver", "committed", "error"]
    show([line_of(stored) for stored in _at(home).all()], columns, form)


def line_of(stored: StoredTopology) -> dict[str, Any]:
    """Return the list's line for a topology. A damaged topology affects only its line."""
    condition, report, driver, error = "STORED", None, None, None
    try:
        driver, report = stored.driver(), stored.report()
        condition = _condition(report, driver)
        stored.submitted()
        if stored.is_killed():  # a kill was interrupted, or its driver has not noticed the kill
            condition = "KILLED"
    except (TridentError, OSError) as damage:
        condition, error = condition if driver else "DAMAGED", f"{type(damage).__name__}: {damage}"
    host = report.host if report is not None else socket.gethostname()
    return {
        "topology": stored.name,
        "condition": condition,
        "driver": None if driver is None else f"{host}:{driver or (report.pid if report else '?')}",
        "committed": report.committed if report is not None else {},
        "error": error or (report.error if report is not None else None),
    }


def _condition(report: Report | None, driver: int | None) -> str:
    """Return the condition of a topology with this report and this driver (None: no driver, 0: an unknown process)."""
    if driver is None:
        return "STORED" if report is None else report.condition if report.condition in _ENDED else "DIED"
    spoke = report is not None and (driver in (0, report.pid) or report.host != socket.gethostname())
    return report.condition if report is not None and spoke else "STARTING"


@click.command()
@click.argument("name")
@_home
@_timeout
def activate(name: str, home: Path | None, timeout: float) -> None:
    """Let a topology plan new batches again."""
    _changed(_at(home), name, timeout, active=True)


@click.command()
@click.argument("name")
@_home
@_timeout
def deactivate(name: str, home: Path | None, timeout: float) -> None:
    """Stop planning new batches for a topology, until it is activated, even over restarts of its driver.

    Planned batches are committed, and states and functions continue to answer.
    """
    _changed(_at(home), name, timeout, active=False)


@click.command()
@click.argument("name")
@click.argument("partitions", metavar="STEP=PARTITIONS...", nargs=-1, required=True)
@_home
@_timeout
def rebalance(name: str, partitions: tuple[str, ...], home: Path | None, timeout: float) -> None:
    """Change the numbers of partitions of a topology between two batches: words=8 for a stream, words/2=8 for a step.

    They apply to later drivers, too.
    """
    place = _at(home)
    stored = place.find(name)
    given = named_hints("partitions", _counts(partitions), stored.submitted().hints)
    wish = stored.wish()
    _changed(place, name, timeout, hints={**(wish.hints if wish else {}), **given})


@click.command()
@click.argument("name")
@click.option("--wait", default=30.0, show_default=True, help="Seconds to wait for planned batches.")
@_home
def kill(name: str, wait: float, home: Path | None) -> None:
    """Stop a topology's driver and remove its stored files. States and log stay.

    It plans no new batch, and commits planned batches, for --wait seconds at most. A later submit of this name over the
    same checkpoint continues there; `trident state drop` deletes a state.
    """
    place = _at(home)
    stored = place.find(name)
    wish = place.change(name, kill=wait)
    until = time.monotonic() + wait + _END_SECONDS
    while stored.is_killed(wish.id) and stored.is_driven():
        if time.monotonic() > until:
            raise TopologyConditionError(f"the driver of topology {name!r} is still stopping; its log is {stored.said}")
        time.sleep(_LOOK_SECONDS)
    stored.remove(wish.id)  # if the topology has no driver
    click.echo(f"topology {name!r} is killed", err=True)


def _changed(place: Home, name: str, timeout: float, **changes: Any) -> None:
    """Store an operator's request (a `Wish`), and wait until the driver has carried it out."""
    stored = place.find(name)
    wish = place.change(name, **changes)
    if not stored.is_driven():
        click.echo(f"topology {name!r} has no driver; the change applies to the next one", err=True)
        return
    report = _awaited(stored, lambda report: report.number >= wish.number, timeout)
    if report.error is not None:
        raise TopologyConditionError(f"topology {name!r} was not changed: {report.error}")
    click.echo(f"topology {name!r} is {report.condition}", err=True)


def _way_out(name: str, why: str) -> str:
    """Return how to continue after the end of a driver. A driver that lacks a module cannot be started again."""
    if why.startswith(f"{ModuleNotFoundError.__name__}: "):
        return f"`trident resume` would fail in the same way; `trident kill {name}` frees the name for another submit"
    return "`trident resume` starts another one, `trident kill` removes the topology"


def _awaited(
    stored: StoredTopology,
    told: Callable[[Report], bool],
    timeout: float,
    driver: "subprocess.Popen[bytes] | None" = None,
) -> Report:
    """Return the first report for which `told` returns true.

    Raises TridentError if the driver ends or takes too long.
    """
    until = time.monotonic() + timeout
    while True:
        ended = driver.poll() is not None if driver is not None else not stored.is_driven()
        report = stored.report()  # read after that check, because the driver's last report counts
        if report is not None and told(report):
            return report
        if ended:
            why = report.error if report is not None and report.error else f"{stored.said} says why"
            raise TridentError(f"the driver of topology {stored.name!r} has ended: {why}. {_way_out(stored.name, why)}")
        if time.monotonic() > until:
            raise TopologyConditionError(
                f"the driver of topology {stored.name!r} has not applied the change within {timeout:g} s, but will "
                f"still do so. Its log is {stored.said}"
            )
        time.sleep(_LOOK_SECONDS)
