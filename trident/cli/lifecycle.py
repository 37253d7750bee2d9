"""``trident submit``, and what is done with a topology then: ``list activate deactivate rebalance kill resume``."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from trident.base.errors import TopologyConditionError, TridentError
from trident.cli.output import format_option, show
from trident.cli.program_options import engine_option, log_at, log_option, log_to_stderr, program_options
from trident.cli.run import end_by_signals
from trident.cluster.stored_driver import drive
from trident.cluster.stored_topology import Home, Report, StoredTopology
from trident.cluster.submission import submit as stored_by_submit
from trident.plan.hints import named_hints

_F = TypeVar("_F", bound=Callable[..., Any])

_LOOK_SECONDS = 0.1
_END_SECONDS = 30.0
"""The seconds that a driver may take to end, beside the time for planned batches."""

_home = click.option(
    "--home", type=click.Path(file_okay=False, path_type=Path), help="Where topologies are stored. [env: TRIDENT_HOME]"
)
_timeout = click.option("--timeout", default=120.0, show_default=True, help="Seconds to wait for the driver.")


def _at(home: Path | None) -> Home:
    return Home() if home is None else Home(home.absolute())


def _pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise click.UsageError(f"{option} {name}: expected name=value")
    return {name: value for name, _, value in pairs}


def _counts(given: Iterable[str]) -> dict[str, int]:
    pairs = _pairs("partitions", given)
    for name, count in pairs.items():
        if not count.isdigit():
            raise click.UsageError(f"{name}={count}: expected a number of partitions")
    return {name: int(count) for name, count in pairs.items()}


@click.command()
@program_options
@engine_option
@_home
@click.option("--set", "settings", multiple=True, help="An option of the start: maxAttempts=3. May be repeated.")
@click.option("--profile", envvar="TRIDENT_PROFILE", help="The profile of trident.toml. [env: TRIDENT_PROFILE]")
@click.option("--master", help="The master of the driver's Spark: local[4], spark://host:7077, yarn, k8s://...")
@click.option("--spark-conf", "confs", multiple=True, help="A setting of its Spark: spark.executor.instances=4.")
@click.option("--include", multiple=True, help="A file or folder that is stored beside the program's own module.")
@click.option("--inactive", is_flag=True, help="Start it INACTIVE.")
@click.option("--no-start", is_flag=True, help="Only store it; `trident resume` starts a driver.")
@_timeout
def submit(
    program: str,
    name: str,
    checkpoint: str | None,
    log_url: str | None,
    log_prefix: str,
    engine: str | None,
    home: Path | None,
    settings: tuple[str, ...],
    profile: str | None,
    master: str | None,
    confs: tuple[str, ...],
    include: tuple[str, ...],
    inactive: bool,
    no_start: bool,
    timeout: float,
) -> None:
    """Store the TOPOLOGY in MODULE with its code and all options, and start a driver for it in the background.

    Before, it is checked: name, plan, guarantee, log, states, Spark. The driver starts from what is stored alone, so
    the program's own files may go. The checkpoint is in the home unless an option names another one.
    """
    options = _pairs("--set", settings)
    if checkpoint is not None:
        options["checkpointLocation"] = checkpoint
    if engine is not None:
        options["engine"] = engine
    place = _at(home)
    stored = stored_by_submit(
        place,
        program,
        name,
        options,
        log=log_at(log_url, log_prefix),
        profile=profile,
        master=master,
        confs=_pairs("--spark-conf", confs),
        include=include,
        active=not inactive,
    )
    if no_start:
        click.echo(f"topology {name!r} is stored in {stored.folder}", err=True)
        return
    with stored.said.open("ab") as said:
        driver = subprocess.Popen(
            [sys.executable, "-m", "trident", "resume", name, "--home", str(place.folder)],
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
@click.option("--standby", is_flag=True, help="Wait until the driver that holds the log has stopped or is silent.")
@log_option
def resume(name: str, home: Path | None, standby: bool, log_json: bool) -> None:
    """Run a stored topology in this process, from what is stored alone, until it is killed, or SIGTERM or Ctrl-C.

    It goes on where its last driver was. Supervisors call this: at a start of the machine, on another machine with
    --standby. If the topology fails, the exit code is 1.
    """
    log_to_stderr(log_json)
    end_by_signals()
    drive(_at(home).find(name), standby)


@click.command("list")
@_home
@format_option
def list_(home: Path | None, form: str | None) -> None:
    """List the stored topologies: condition, driver, the last committed txid of each batch group, the last error.

    DIED is a driver that ended without a word; `trident resume` goes on.
    """
    columns = ["topology", "condition", "driver", "committed", "error"]
    show([line_of(stored) for stored in _at(home).all()], columns, form)


def line_of(stored: StoredTopology) -> dict[str, Any]:
    report, driven = stored.report(), stored.is_driven()
    condition = "STARTING" if driven else "STORED"
    if report is not None:
        ended = report.condition in ("FAILED", "STOPPED")
        condition = report.condition if driven or ended else "DIED"
    return {
        "topology": stored.name,
        "condition": condition,
        "driver": f"{report.host}:{report.pid}" if report is not None and driven else None,
        "committed": report.committed if report is not None else {},
        "error": report.error if report is not None else None,
    }


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
    """Let a topology plan no new batch, until it is activated: also over restarts of its driver.

    What is planned is committed, and states and functions go on to answer.
    """
    _changed(_at(home), name, timeout, active=False)


@click.command()
@click.argument("name")
@click.argument("partitions", metavar="STEP=PARTITIONS...", nargs=-1, required=True)
@_home
@_timeout
def rebalance(name: str, partitions: tuple[str, ...], home: Path | None, timeout: float) -> None:
    """Change the numbers of partitions of a topology between two batches: words=8 for a stream, words/2=8 for a step.

    They hold for later drivers, too.
    """
    place = _at(home)
    stored = place.find(name)
    given = named_hints("partitions", _counts(partitions), stored.submitted().hints)
    wish = stored.wish()
    _changed(place, name, timeout, hints={**(wish.hints if wish else {}), **given})


@click.command()
@click.argument("name")
@click.option("--wait", default=30.0, show_default=True, help="Seconds to wait for batches that are planned.")
@_home
def kill(name: str, wait: float, home: Path | None) -> None:
    """Stop a topology's driver and remove what is stored of it. States and log stay.

    It plans no new batch, and commits what it has planned, for --wait seconds at most. A later submit of this name
    over the same checkpoint goes on there; `trident state drop` deletes a state.
    """
    place = _at(home)
    stored = place.find(name)
    place.change(name, kill=wait)
    until = time.monotonic() + wait + _END_SECONDS
    while stored.is_driven() and stored.folder.is_dir():
        if time.monotonic() > until:
            raise TopologyConditionError(
                f"the driver of topology {name!r} has not ended yet; it will as soon as it can: look at {stored.said}"
            )
        time.sleep(_LOOK_SECONDS)
    stored.remove()  # for a topology without a driver
    click.echo(f"topology {name!r} is killed", err=True)


def _changed(place: Home, name: str, timeout: float, **changes: Any) -> None:
    """Store a wish of an operator, and wait until the driver has carried it out."""
    stored = place.find(name)
    wish = place.change(name, **changes)
    if not stored.is_driven():
        click.echo(f"topology {name!r} has no driver; the next one starts so", err=True)
        return
    report = _awaited(stored, lambda report: report.number >= wish.number, timeout)
    if report.error is not None:
        raise TopologyConditionError(f"topology {name!r} was not changed: {report.error}")
    click.echo(f"topology {name!r} is {report.condition}", err=True)


def _awaited(
    stored: StoredTopology,
    told: Callable[[Report], bool],
    timeout: float,
    driver: "subprocess.Popen[bytes] | None" = None,
) -> Report:
    """Return the first report for which `told` is true. Raises TridentError if the driver ends or takes too long."""
    until = time.monotonic() + timeout
    while True:
        ended = driver is not None and driver.poll() is not None
        report = stored.report()
        if report is not None and told(report):
            return report
        if ended or (driver is None and not stored.is_driven()):
            why = report.error if report is not None and report.error else f"{stored.said} says why"
            raise TridentError(
                f"the driver of topology {stored.name!r} has ended: {why}. `trident resume` starts another one, "
                f"`trident kill` removes the topology"
            )
        if time.monotonic() > until:
            raise TopologyConditionError(
                f"the driver of topology {stored.name!r} has not done it within {timeout:g} s; it will as soon as it "
                f"can: look at {stored.said}"
            )
        time.sleep(_LOOK_SECONDS)
