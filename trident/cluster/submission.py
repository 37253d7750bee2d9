"""The submission of a topology: it makes all checks that are possible before a run, and then stores the topology."""

import contextlib
import io
import os
import platform
import socket
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyspark

from trident.base.errors import LogError, SparkSetupError, TopologyError
from trident.base.java import use_bundled_java, why_no_java
from trident.base.names import did_you_mean
from trident.base.redis_address import redacted
from trident.base.user_config import check_user_values, plain_secrets
from trident.base.version import __version__
from trident.cluster.code_archive import code_of, digest, load_from, pack
from trident.cluster.driver_session import is_later
from trident.cluster.program import local_paths
from trident.cluster.spark_confs import check_confs
from trident.cluster.stored_topology import Home, StoredTopology, Submitted, Wish
from trident.compiler.engine_choice import check_engine
from trident.compiler.program import Program, hints_in_groups
from trident.compiler.stages import cut
from trident.configuration.file import check_value
from trident.configuration.file_locations import folder
from trident.configuration.layers import configured, joined, user_values
from trident.configuration.options_elsewhere import elsewhere
from trident.configuration.start_options import OUTSIDE
from trident.log import RedisLog
from trident.log.protocol import LogAbsentError
from trident.log.snapshot_home import NoHome
from trident.plan.guarantee import check_exactly_once
from trident.plan.parallelism_hints import named_hints
from trident.plan.spout_options import with_spout_options
from trident.plan.topology_protocol import TopologyPlan
from trident.topology import TridentTopology
from trident_state.state_shape import StateIdentity

OF_WISHES = ("active", "parallelismHints")
"""The options of a start that operators change later. Their values become the first wish."""

_importing = threading.Lock()
"""Held while a submit of this process imports code, because imported modules belong to the whole process."""

_SECONDS = 5.0
"""The seconds that a server may take to answer at a submission."""


def submit(
    home: Home,
    program: str,
    name: str,
    options: Mapping[str, str],
    *,
    log: RedisLog | None = None,
    profile: str | None = None,
    master: str | None = None,
    confs: Mapping[str, str] | None = None,
    include: Iterable[str] = (),
    active: bool | None = None,
    hints: Mapping[str, int] | None = None,
) -> StoredTopology:
    """Store a topology from which drivers can then start. If a check fails, nothing is stored.

    Parameters
    ----------
    options : options of a start as text, in the form of environment variables. They outrank the other layers, which are
    read now: later drivers take all options from the stored files. log : the location of the transaction log, if it is
    in Redis. master, confs : the Spark of the drivers. include : files and folders that are stored in addition to the
    program's module or package. active, hints : the operators' first wish; None: the values of the options.

    Raises
    ------
    TopologyActiveError
        The name is taken, now or at the end of the checks. If two calls submit the same name, one of them fails.
    TopologyError, GuaranteeError, LogError, StateError, SparkSetupError
        A start would fail because of the topology, an option, the log, a state or Spark.
    """
    home.check_free(name)
    chosen = _options(home, name, profile, options, log)
    kept = _stored(chosen)
    confs = dict(confs or {})
    check_confs(confs)
    check_spark(chosen["engine"], master, confs)
    with home.staged(name) as stored:
        with _importing:
            pack(stored.code, program, include)
            with code_of(stored.code):
                topology = load_from(stored.code, program)
                changed = with_spout_options(topology, chosen["spouts"])
                own = hints_in_groups(_checked(changed, name, chosen).groups)
                plan = _explained(topology, chosen["engine"])
                paths = local_paths(changed)
        os.chmod(stored.code, 0o600)
        id = uuid4().hex
        stored.write(
            "topology.json",
            Submitted(
                name=name,
                id=id,
                program=program,
                submitted=datetime.now(UTC).isoformat(timespec="seconds"),
                digest=digest(stored.code),
                options=kept,
                master=master,
                confs=confs,
                versions={
                    "trident": __version__,
                    "pyspark": pyspark.__version__,
                    "python": platform.python_version(),
                },
                plan=plan,
                hints=own,
                folder=os.getcwd(),
                paths=paths,
            ),
        )
        wanted = named_hints("parallelismHints", {**(chosen["parallelismHints"] or {}), **(hints or {})}, own)
        stored.write("wish.json", Wish(active=chosen["active"] if active is None else active, hints=wanted, id=id))
        with stored.code.open("rb") as file:
            os.fsync(file.fileno())
    return home.at(name)


def read_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a start that --set gave as texts. Raises TopologyError for a wrong name or value."""
    chosen = {}
    for option, text in given.items():
        if option not in OUTSIDE:
            if hint := elsewhere(option, tuple(OUTSIDE)):
                raise TopologyError(f"--set {option}: this option cannot be set here: {hint}")
            raise TopologyError(
                f"--set {option}: there is no such option{did_you_mean(option, OUTSIDE)}; the options are "
                f"{', '.join(OUTSIDE)}"
            )
        chosen[option] = check_value("--set", option, OUTSIDE[option].of_text(text))
    return chosen


def _options(
    home: Home, name: str, profile: str | None, given: Mapping[str, str], log: RedisLog | None
) -> dict[str, Any]:
    """Return every option of a start, after all layers.

    If no layer names the log's location, the log is in the home.
    """
    set_here = read_settings(given)
    chosen = {option: joined(option, each.value, set_here) for option, each in configured(name, profile).items()}
    chosen["user"] = {key: each.value for key, each in user_values(name, profile).items()} or None
    if log is not None:
        chosen["log"] = log
    if chosen["checkpointLocation"] is None and chosen["log"] is None:
        chosen["checkpointLocation"] = str(home.checkpoints)
    if chosen["checkpointLocation"] is not None:  # the driver may work in another folder
        chosen["checkpointLocation"] = str(folder(chosen["checkpointLocation"]))
    return chosen


def _stored(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON. Raises TopologyError for a password, because others could read it in the file."""
    kept = {option: value for option, value in options.items() if option not in OF_WISHES}
    for key in plain_secrets(kept["user"] or {}):
        raise TopologyError(f"user.{key} is a secret, which would be stored: write env:NAME or file:path")
    for stream, given in (kept["spouts"] or {}).items():
        check_user_values(f"spouts.{stream}", given)  # JSON has no other values, such as times
        for key in plain_secrets(given):
            raise TopologyError(f"spouts.{stream}.{key} has a secret, which would be stored: write env:NAME")
    log = kept["log"]
    if log is not None:
        if redacted(log.url) != log.url:
            raise TopologyError("the log's url has a password, which would be stored: write env:NAME or file:path")
        kept["log"] = asdict(log)
    return kept


def _explained(topology: TridentTopology, engine: Any) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        topology.explain(engine)
    return text.getvalue()


def _checked(topology: TopologyPlan, name: str, options: Mapping[str, Any]) -> Program:
    """Return the program of a topology, after checks that it can start with these options."""
    program = cut(topology, options["debug"])
    if not program.groups and not program.requests:
        raise TopologyError("nothing to run: no stream ends in a state or an output, and there is no DRPC function")
    check_engine(options["engine"], None, topology.nodes)
    if options["requireExactlyOnce"]:
        check_exactly_once(topology)
    _check_log(name, options["log"])
    if options["checkpointLocation"] is not None:
        _check_folder(options["checkpointLocation"])
    for step in (step for group in program.groups for step in group.states):
        factory = step.state.factory
        if factory.survives == "server":
            identity = StateIdentity(name, step.state.name, "")
            with contextlib.closing(factory.open(identity, program.shapes[step.state.name], NoHome())) as store:
                store.report()
    return program


def _check_log(name: str, log: RedisLog | None) -> None:
    """Raise LogError if the server of a log does not answer."""
    if log is not None:
        with contextlib.suppress(LogAbsentError), contextlib.closing(log.look(name)):
            pass


def _check_folder(place: str) -> None:
    """Raise LogError if a folder cannot be written or created.

    It is not created here: the driver creates it, with access only for its user.
    """
    path = Path(place)
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".trident-", dir=existing):
            pass
    except OSError as error:
        raise LogError(f"checkpointLocation {place} cannot be written: {error.strerror}") from None


def check_spark(engine: str, master: str | None, confs: Mapping[str, str]) -> None:
    """Raise TopologyError or SparkSetupError if a driver could not start this Spark.

    A local Spark needs Java on this machine; a standalone master must answer. YARN and Kubernetes are not checked.
    """
    if is_later(engine, master, confs):
        return
    if engine == "embedded":
        if master is not None or confs:
            raise TopologyError("engine='embedded' runs without Spark: remove --master and --spark-conf")
        return
    if master is not None and master.startswith("sc://"):
        raise TopologyError(
            f"--master {master}: Spark Connect keeps uploaded code per session, and a run creates sessions of its own, "
            f"which would lack the program's code; name the cluster's master instead"
        )
    if master is None or (master.startswith("local") and not master.startswith("local-cluster")):
        _check_local(master, confs)
    elif master.startswith("spark://") and not any(map(_answers, master.removeprefix("spark://").split(","))):
        raise SparkSetupError(f"--master {master}: no Spark master answers at this address")


def _check_local(master: str | None, confs: Mapping[str, str]) -> None:
    if "spark.executor.instances" in confs:
        raise TopologyError(
            "spark.executor.instances needs a cluster, and a local Spark is one process; give --master, or local[n] "
            f"for n tasks at once (--master is {master or 'local'})"
        )
    use_bundled_java()
    if (why := why_no_java()) is not None:
        raise SparkSetupError(why)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _SECONDS):
            return True
    except (OSError, ValueError):
        return False
