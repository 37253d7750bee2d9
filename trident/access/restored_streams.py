"""The positions at which the streams of a restored topology continue."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from trident.base.errors import SavepointError, TopologyError
from trident.base.names import did_you_mean
from trident.log.protocol import StreamRecord
from trident.recovery.savepoint import Savepoint
from trident.spouts.dead_letters import ReplaySpout


@dataclass(frozen=True)
class RestoredStreams:
    """Chooses the position at which each stream continues."""

    saved: Savepoint
    anew: Collection[str]
    kept: Collection[str]

    def records(self, known: Mapping[str, StreamRecord]) -> dict[str, StreamRecord]:
        """Return the records of all streams; `known` are those of the log. Raises SavepointError or TopologyError."""
        self._check_names(known)
        records = dict[str, StreamRecord]()
        for name in {**self.saved.streams, **known}:
            if name in self.anew:
                continue
            record = self._kept(name, known) if name in self.kept else self._restored(name, known)
            if record is not None:
                records[name] = record
        return records

    def _kept(self, name: str, known: Mapping[str, StreamRecord]) -> StreamRecord:
        now, saved = known[name], self.saved.streams.get(name)
        return (
            now if saved is None else replace(saved.record, position=now.position, source=now.source, began=now.began)
        )

    def _restored(self, name: str, known: Mapping[str, StreamRecord]) -> StreamRecord | None:
        """Return the savepoint's record of a stream, or the log's if no batch of it is frozen; None to forget it."""
        saved = self.saved.streams.get(name)
        if saved is None:
            now = known[name]
            if any(former in self.saved.streams for former in now.former):  # the savepoint has its former name
                return None
            if now.position is None:
                return now
            raise SavepointError(
                f"stream {name!r} is not in savepoint {self.saved.name!r}, and the states of the savepoint lack its "
                f"tuples. To read it again from the beginning of its source, write anew=[{name!r}]; to continue at its "
                f"present position, without the tuples until now, keepPositions=[{name!r}]. Nothing was changed"
            )
        self._check_name(name, known)
        moved = name in known and known[name].position != saved.record.position
        replays = saved.record.source == ReplaySpout.__qualname__  # it begins with the letters of the restored state
        if saved.record.position is None and moved and not replays:
            raise SavepointError(
                f"stream {name!r} had no position yet when savepoint {self.saved.name!r} was taken, so it would begin "
                f"as a new stream does, perhaps at the end of its source. If that is right, write anew=[{name!r}]; to "
                f"continue at its present position, without the tuples until now, keepPositions=[{name!r}]. Nothing "
                f"was changed"
            )
        if not saved.record.active and moved:
            raise SavepointError(
                f"the program lacked stream {name!r} when savepoint {self.saved.name!r} was taken, so it is unknown "
                f"whether its source can return the tuples since then again. To continue at its present position, "
                f"without these tuples, write keepPositions=[{name!r}]; to read everything again from another source, "
                f"anew=[{name!r}]. Nothing was changed"
            )
        if not saved.forkable:
            raise SavepointError(
                f"stream {name!r} reads from {saved.source}, which cannot return its tuples again: its messages are "
                f"acknowledged, or its server keeps the position. To restore the states without the tuples since the "
                f"savepoint, write keepPositions=[{name!r}]; if you gave the stream another source, to be read from "
                f"its beginning, anew=[{name!r}]. (A spout of your own that only reads says so with forkable = True, "
                f"before the savepoint is taken.) Nothing was changed"
            )
        return saved.record

    def _check_name(self, name: str, known: Mapping[str, StreamRecord]) -> None:
        """Raise SavepointError if a stream of the savepoint has another name now, and its former name is another's."""
        renamed = next((now for now, record in known.items() if name in record.former and now != name), None)
        if renamed is not None and name in known:
            raise SavepointError(
                f"stream {name!r} of savepoint {self.saved.name!r} is called {renamed!r} now, and another stream has "
                f"the name {name!r}, so the restore would give one stream the position of the other. First start the "
                f"last program once with a third name for the stream that is called {name!r} now, newStream(..., "
                f"formerly={name!r}); then restore. Nothing was changed"
            )

    def _check_names(self, known: Mapping[str, StreamRecord]) -> None:
        for option, names in (("anew", self.anew), ("keepPositions", self.kept)):
            for name in sorted({*names} - known.keys()):
                raise TopologyError(
                    f"{option}={name!r}: the topology has no stream of this name{did_you_mean(name, known)}. Nothing "
                    f"was changed"
                )
        for name in sorted({*self.anew} & {*self.kept}):
            raise TopologyError(
                f"anew and keepPositions both name stream {name!r}: name it in one. Nothing was changed"
            )
