"""The test by which Spark's executors show that they reach the store of the frozen files, and its results in a run."""

import logging
import secrets
import threading
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trident.base.errors import TridentError
from trident.compiler.partition_functions import Batches
from trident.files.store import FileStore
from trident.frozen.files import ANSWER, PROBE

logger = logging.getLogger(__name__)


class ReachedStores:
    """The stores of files that the executors of one run reach, as far as is known. Threads may share it.

    The test cannot prove that all executors reach a store: a few take part, and others join later. So a file that an
    executor has written, and the driver does not find (`miss`), counts for more than the test.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached: dict[str, bool] = {}

    def reaches(self, session: SparkSession, files: FileStore, needed: bool = False) -> bool:
        """Return whether the executors reach a store. They are tested once in a run.

        If they did not reach it, and only they can do the work (`needed`), they are tested again.
        """
        with self._lock:
            reached = self._reached.get(files.address)
            if reached is None or (needed and not reached):
                reached = self._reached[files.address] = reachable(session, files)
            return reached

    def miss(self, files: FileStore) -> None:
        """Record that the driver does not find a file that an executor wrote into a store."""
        with self._lock:
            self._reached[files.address] = False


def reachable(spark: SparkSession, files: FileStore, tasks: int = 4) -> bool:
    """Return whether the executors reach the same store of files as the driver.

    Each executor reads a probe file, and writes an answer file into the same store. If an executor reports why it
    cannot, the reason is logged.
    """
    token = secrets.token_hex(8)
    probe = f"{PROBE}{token}"
    answers: list[str] = []
    files.create(probe, token.encode())
    try:
        asked: DataFrame = (
            spark.range(tasks).repartition(tasks).mapInArrow(Probe(files, token), "name string, why string")
        )
        said = asked.toArrow().to_pylist()
        answers = [row["name"] for row in said if row["name"]]
        reasons = {row["why"]: None for row in said if row["why"]}
        for why in reasons:
            logger.warning(
                "an executor does not reach %s: %s; large results are sent to the driver", files.address, why
            )
        return len(said) > 0 and not reasons and all(_holds(files, name, token) for name in answers)
    finally:
        files.delete([probe, *answers])


def _holds(files: FileStore, name: str, token: str) -> bool:
    try:
        return bytes(files.read(name)) == token.encode()
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class Probe:
    """A function that reads the probe file and writes an answer file. It yields that file's name, or why it failed."""

    files: FileStore
    token: str

    def __call__(self, batches: Batches) -> Batches:
        for _ in batches:
            pass
        name, why = f"{ANSWER}{secrets.token_hex(8)}", None
        try:
            self.files.create(name, bytes(self.files.read(f"{PROBE}{self.token}")))
        except (OSError, TridentError) as error:
            why = str(error)
        yield pa.RecordBatch.from_pydict(
            {"name": pa.array([None if why else name], pa.string()), "why": pa.array([why], pa.string())}
        )
