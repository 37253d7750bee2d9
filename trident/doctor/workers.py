"""Spark: whether it starts and runs Python, and whether its workers reach the servers that they read or write."""

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trident.base.errors import TridentError
from trident.base.finding import Examined, Finding
from trident.configuration.file_locations import files_place
from trident.doctor.examined_setup import ExaminedSetup
from trident.doctor.file_store import StoreTrial
from trident.doctor.foreign_errors import said
from trident.doctor.program_parts import parts_of
from trident.doctor.worker_examination import COLUMNS, Examination

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_BATCH = "no batch runs on Spark"


def spark(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for a Spark that does not start or run Python, and servers that its workers cannot reach.

    Only on request.
    """
    if setup.session is None:
        return
    answer: queue.SimpleQueue[list[Finding] | Exception] = queue.SimpleQueue()
    # A separate thread, because a Spark without executors waits for ever.
    threading.Thread(target=_ask, args=(setup, answer), name="trident-doctor-spark", daemon=True).start()
    try:
        found = answer.get(timeout=setup.spark_secs)
    except queue.Empty:
        todo = "Look at Spark's output above and its web page: the master must answer, and executors be free. Raise "
        todo += "--spark-secs if it is only slow"
        yield Finding("Spark", f"no Python task ended within {setup.spark_secs:g} s", _NO_BATCH, todo)
        return
    if isinstance(found, Exception):
        todo = "See Spark's output above. Mostly it is the master's address, Java, or a package that workers lack: "
        todo += "install trident-pyspark where workers run (guide, Deployment)"
        yield Finding("Spark", said(found), _NO_BATCH, todo)
        return
    yield from found


def _ask(setup: ExaminedSetup, answer: "queue.SimpleQueue[list[Finding] | Exception]") -> None:
    assert setup.session is not None
    try:
        with setup.session() as session:
            answer.put(list(_found(setup, session)))
    except Exception as error:  # Spark's and the workers' errors, of any class
        answer.put(error)


def _found(setup: ExaminedSetup, session: "SparkSession") -> Iterator[Finding]:
    asked = tuple(_asked(setup))
    rows = session.range(2).repartition(2).mapInArrow(Examination(asked), COLUMNS).toArrow().to_pylist()
    for row in {tuple(row.values()): row for row in rows}.values():
        finding = Finding(**row)
        found = finding.found.removeprefix(f"{finding.about}: ")
        yield replace(finding, about=f"Spark's workers: {finding.about}", found=found)


def _asked(setup: ExaminedSetup) -> Iterator[tuple[str, Examined]]:
    """Yield the parts that workers read or write, and the store of large results."""
    for about, part in parts_of(setup):
        if _in_workers(part):
            yield about, part
    try:
        place = files_place(setup.options.get("filesLocation"), setup.options.get("filesStorage"))
    except TridentError:  # which the check `files_location` reports
        return
    if place is not None:
        matters = "results of large batches pass through the driver's memory, and executors cannot write states"
        yield "filesLocation", StoreTrial(place, place.address, matters)


def _in_workers(part: object) -> bool:
    """Return whether workers, not only the driver, read this source or may write this state."""
    is_source = hasattr(part, "schema") and not getattr(part, "driverReads", False)
    return is_source or getattr(part, "writers", "driver") != "driver"
