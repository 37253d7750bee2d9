"""Where tuples leave a group: every frozen batch is handed over in the commit turn, after every state holds it.

What comes out here may come again: after a failure, a crash, a commit that was lost. It is then the same rows.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from trident.base.errors import LogError, MissingSessionError, OutputError, OutputUnavailableError, TridentError
from trident.compiler.engine import Engine, Result
from trident.compiler.frames import Frames
from trident.compiler.freeze import read_frozen
from trident.compiler.program import Group
from trident.compiler.spark_errors import translated
from trident.plan.nodes import ForeachBatch, Sink

HandOver = Callable[[Sink, Result, int], None]
"""Gives a batch's frozen rows to an output; returns when they are there."""

_NEVER_PASSING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
"""OSErrors that no patience cures: what else there is (a connection, a timeout, a full disk) may go away."""


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

    `found` is the last txid that was frozen before this run: whoever froze it may have handed it over. Raises
    MissingSessionError where an output wants DataFrames and the engine makes none.
    """

    def __init__(self, group: Group, engine: Engine, folder: Path, scratch: Path, found: int) -> None:
        self._frames: Frames | None = None
        self._outlets: dict[Sink, Outlet] = {}
        try:
            for output in group.sinks:
                assert isinstance(output.step, Sink)
                self._outlets[output.step] = self._open(output.step, engine, folder, scratch, found)
        except BaseException:
            self.close()
            raise

    def __call__(self, sink: Sink, result: Result, txid: int) -> None:
        """Hand a batch over; see `HandOver`."""
        self._outlets[sink].take(result, txid)

    def close(self) -> None:
        """Let go of what was made for the run."""
        if self._frames is not None:
            self._frames.close()

    def _open(self, sink: Sink, engine: Engine, folder: Path, scratch: Path, found: int) -> Outlet:
        if not sink.frame:
            return _Handing(sink, lambda result: contextlib.nullcontext(_whole(result, folder)), found)
        if self._frames is None:
            self._frames = frames_of(engine, sink)
        return _Handing(sink, self._lending(sink, self._frames, scratch / "outputs"), found)

    def _lending(self, sink: Sink, frames: Frames, scratch: Path) -> "Lend":
        @contextlib.contextmanager
        def lend(result: Result) -> Iterator[Any]:
            try:
                yield frames.frame(result, sink.schema, scratch)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

        return lend


def frames_of(engine: Engine, sink: Sink) -> Frames:
    """What makes DataFrames of frozen rows on this engine."""
    make = getattr(engine, "frames", None)
    if make is None:
        raise MissingSessionError(
            f"{sink.step} ({sink.site.place}) hands DataFrames over, and there is no Spark session here; "
            "start the topology with start(spark), or take the batches as Arrow tables with foreachArrow"
        )
    found: Frames = make()
    return found


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
                passing = isinstance(cause, OSError) and not isinstance(cause, _NEVER_PASSING)
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


def _whole(result: Result, folder: Path) -> pa.Table:
    if isinstance(result, pa.Table):
        return result
    return pa.concat_tables([result.schema.empty_table(), *read_frozen(folder, result)])
