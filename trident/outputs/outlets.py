"""Where tuples leave a group: every frozen batch is handed over in the commit turn, after every state holds it.

What comes out here may come again: after a failure, a crash, a commit that was lost. It is then the same rows.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from trident.base.errors import LogError, MissingSessionError, OutputError, OutputUnavailableError, TridentError
from trident.compiler.engine import Engine, Result
from trident.compiler.program import Group
from trident.compiler.spark.errors import translated
from trident.compiler.spark.frozen_files import read_whole
from trident.compiler.spark.frozen_frames import Frames
from trident.compiler.spark.parquet_files import NEVER_PASSING
from trident.outputs.best_effort import BestEffortOutlet, Tells
from trident.outputs.parquet_outlet import ParquetOutlet, RunIdentity
from trident.plan.nodes import BestEffort, ForeachBatch, Sink, WriteParquet

HandOver = Callable[[Sink, Result, int], None]
"""Gives a batch's frozen rows to an output; returns when they are there."""


def no_sinks(sink: Sink, result: Result, txid: int) -> None:
    """What a group without outputs hands over to."""
    raise TypeError(f"{sink.step}: this group was started without its outputs")


class Outlet(Protocol):
    """One output at work."""

    def take(self, result: Result, txid: int) -> None:
        """Take a batch's rows. Raises OutputError."""
        ...


class Outlets:
    """The outputs of one group, opened for a run.

    Raises MissingSessionError where an output wants DataFrames and the engine makes none, OutputError where a place
    cannot be taken.
    """

    def __init__(
        self, group: Group, engine: Engine, folder: Path, scratch: Path, run: RunIdentity, tell: Tells
    ) -> None:
        self._tell, self._group = tell, group.name
        self._branches: list[BestEffortOutlet] = []
        self._whole = partial(read_whole, folder)
        self._engine, self._folder, self._scratch, self._run = engine, folder, scratch, run
        self._frames: Frames | None = None
        self._outlets: dict[Sink, Outlet] = {}
        try:
            for output in group.sinks:
                assert isinstance(output.step, Sink)
                self._outlets[output.step] = self._open(output.step)
        except BaseException:
            self.close()
            raise

    def __call__(self, sink: Sink, result: Result, txid: int) -> None:
        """Hand a batch over; see `HandOver`."""
        self._outlets[sink].take(result, txid)

    def cancel(self) -> None:
        """Stop the Spark jobs of a function that has the batch."""
        if self._frames is not None:
            self._frames.cancel()

    def close(self) -> None:
        """Let go of what was made for the run."""
        for branch in self._branches:
            branch.close()
        if self._frames is not None:
            self._frames.close()

    def _open(self, sink: Sink) -> Outlet:
        if isinstance(sink, BestEffort):
            return self._branch(sink)
        if isinstance(sink, WriteParquet):
            workers = self._made if self._engine.frames else None
            return ParquetOutlet(sink, self._run, self._folder, workers)
        if not sink.frame:
            return _Handing(sink, lambda result: contextlib.nullcontext(self._whole(result)), self._run.found)
        if self._engine.frames is None:
            raise MissingSessionError(
                f"{sink.step} ({sink.site.location}) hands DataFrames over, and there is no Spark session here; "
                "start the topology with start(spark), or take the batches as Arrow tables with foreachArrow"
            )
        return _Handing(sink, self._lending(sink, self._made(), self._scratch / "outputs"), self._run.found)

    def _branch(self, sink: BestEffort) -> BestEffortOutlet:
        def serve(group: Group) -> Outlets:
            return Outlets(group, self._engine, self._folder, self._scratch / sink.name, self._run, self._tell)

        scratch = self._scratch / "branches"
        found = BestEffortOutlet(
            sink,
            self._engine,
            scratch,
            self._run.epoch,
            self._whole,
            serve,
            self._tell,
            self._group,
        )
        self._branches.append(found)
        return found

    def _made(self) -> Frames:
        """The engine's DataFrames of frozen rows, made when the first output asks for them."""
        if self._frames is None:
            assert self._engine.frames is not None, "asked for by outputs that workers write"
            self._frames = self._engine.frames()
        return self._frames

    def _lending(self, sink: Sink, frames: Frames, scratch: Path) -> "Lend":
        @contextlib.contextmanager
        def lend(result: Result) -> Iterator[Any]:
            try:
                yield frames.frame(result, sink.schema, scratch)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

        return lend


Lend = Callable[[Result], contextlib.AbstractContextManager[Any]]


class _Handing:
    """A user's function, called with every batch."""

    def __init__(self, sink: ForeachBatch, lend: Lend, found: int) -> None:
        self._sink, self._lend, self._found = sink, lend, found
        self._tried = (0, 0)
        """The txid that is being handed over, and how often it was."""

    def take(self, result: Result, txid: int) -> None:
        attempt = self._attempt(txid)
        where = f"{self._sink.step}: {self._sink.function_site}"
        with self._lend(result) as given:
            try:
                self._sink.function(given, txid, attempt)
            except (Exception, SystemExit) as error:
                cause = translated(error)
                if isinstance(cause, LogError) or (isinstance(cause, TridentError) and cause.hopeless):
                    raise cause from None
                passing = isinstance(cause, OSError) and not isinstance(cause, NEVER_PASSING)
                kind = OutputUnavailableError if passing else OutputError
                raise _failed(where, cause, txid, attempt, kind) from error

    def _attempt(self, txid: int) -> int:
        """0 where nobody can have handed the batch over before."""
        known, count = self._tried
        attempt = count if known == txid else int(txid <= self._found)
        self._tried = (txid, attempt + 1)
        return attempt


def _failed(where: str, cause: BaseException, txid: int, attempt: int, kind: type[OutputError]) -> OutputError:
    what = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return kind(f"{where} raised {what}; it was called with batch {txid}, attempt {attempt}")
