"""The tags of a topology: the methods `tag`, `tags` and `dropTag` of a running topology and of an opened one."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from trident.base.errors import (
    SnapshotMovedError,
    StateError,
    StateNotFoundError,
    TagExistsError,
    TagNotFoundError,
    TxidNotKeptError,
)
from trident.base.names import check_name, did_you_mean
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.committed_reads import ReadSource
from trident.reads.state_view import StateView
from trident.reads.tags import keeps_no_tags
from trident.reads.txid_reads import check_kept
from trident_state.store import Tagging, tags_of
from trident_state.tags import StateTag


@dataclass(frozen=True)
class Tag:
    """A named txid of each batch group, which the states keep until the tag is dropped.

    `txids`: by batch group. `states`: the states that can be read as of the tag. `made`: when it was made, in UTC.
    `missing`: states that lack the tag, because the program ended while it was made or dropped; call `tag` or `dropTag`
    again.
    """

    name: str
    txids: dict[str, int]
    states: tuple[str, ...]
    made: datetime
    missing: tuple[str, ...] = ()

    def asDict(self) -> dict[str, Any]:
        """Return the fields of this object as a dict."""
        return asdict(self)


class TopologyTags:
    """The tags of the states of one topology. Each state keeps its own part of a tag, in its store.

    The parts are made in the order of the states' names and dropped in the reverse order. So if two callers use the
    same name, the one whose tag reaches the first state wins, and the other finds that tag. Thread-safe.
    """

    def __init__(self, source: ReadSource, states: Sequence[str], view: Callable[[str], StateView]) -> None:
        self._source, self._states, self._view = source, tuple(sorted(states)), view

    def tag(self, name: str, asOf: AsOfBatch | None, states: Iterable[str] | None) -> Tag:
        """Make a tag, or complete one; see `Tagged.tag`."""
        check_name("a tag", name)
        self._source.check()
        chosen = self._chosen(states)
        known = self._parts().get(name)
        if known is not None:
            part = self._to_complete(name, known, None if asOf is None else self._txids(chosen, asOf))
        else:
            part = StateTag(name, -1, self._txids(chosen, asOf), tuple(chosen), round(1000 * time.time()))
        present = [state for state in part.states if state in self._states]
        for state in present:
            check_kept(self._source, state, part.txids[self._source.group_of(state)])
            if known is not None and state not in known:
                self._check_not_anew(state, part)
        for state in present:
            self._keep(state, part)
        return _shown(part, dict.fromkeys(present, part))

    def tags(self) -> list[Tag]:
        """Return the tags; see `Tagged.tags`."""
        self._source.check()
        parts = self._parts()
        return [_shown(next(iter(parts[name].values())), parts[name]) for name in sorted(parts)]

    def drop(self, name: str) -> None:
        """Drop a tag; see `Tagged.dropTag`."""
        self._source.check()
        parts = self._parts()
        if name not in parts:
            raise TagNotFoundError(
                f"no tag {name!r}{did_you_mean(name, parts)}; the tags are {', '.join(sorted(parts)) or 'none'}"
            )
        for state in reversed(parts[name]):
            self._store(state).untag(name)

    def _chosen(self, states: Iterable[str] | None) -> list[str]:
        named = self._named(states)
        able = [state for state in named if tags_of(self._source.store(state)) is not None]
        if not named:
            raise StateError("the topology has no state to tag")
        if len(able) < len(named):
            hint = f". Name the states to tag: states={able}" if able and states is None else ""
            raise StateError(f"{keeps_no_tags([state for state in named if state not in able])}{hint}")
        return able

    def _named(self, states: Iterable[str] | None) -> list[str]:
        named = [states] if isinstance(states, str) else list(self._states if states is None else states)
        unknown = next((state for state in named if state not in self._states), None)
        if unknown is not None:
            raise StateNotFoundError(
                f"no state {unknown!r}{did_you_mean(unknown, self._states)}; the states are {', '.join(self._states)}"
            )
        return sorted(set(named))

    def _txids(self, states: Sequence[str], asOf: AsOfBatch | None) -> dict[str, int]:
        """Return the txid of each batch group as of which to tag. The first state of a group decides."""
        txids = dict[str, int]()
        for state in states:
            if (group := self._source.group_of(state)) not in txids:
                view = self._view(state) if asOf is None else self._view(state).asOf(asOf)
                txids[group] = view.asOfTxid or 0
        if len(txids) > 1 and isinstance(asOf, int):
            raise StateError(
                f"asOf={asOf}: the states belong to the batch groups {', '.join(sorted(txids))}, each of which counts "
                f"its own txids; give a time, such as asOf='2026-11-26 09:00', or name "
                f"only states of one group in states="
            )
        return txids

    def _parts(self) -> dict[str, dict[str, StateTag]]:
        """Return the parts of each tag, by its name and the state, in the order of the states."""
        parts = dict[str, dict[str, StateTag]]()
        for state in self._states:
            for tag in tags_of(self._source.store(state)) or ():
                parts.setdefault(tag.name, {})[state] = tag
        return parts

    def _to_complete(self, name: str, known: dict[str, StateTag], txids: dict[str, int] | None) -> StateTag:
        part = next(iter(known.values()))
        missing = [state for state in part.states if state in self._states and state not in known]
        if not missing or (txids is not None and any(part.txids.get(group) != txid for group, txid in txids.items())):
            raise TagExistsError(
                f"the tag {name!r} exists already, as of txid {_listed(part.txids)}. A tag does not move: give another "
                f"name, or drop it first (dropTag)"
            )
        return part

    def _check_not_anew(self, state: str, part: StateTag) -> None:
        """Raise TagExistsError for a state that may have been dropped and recreated after the tag was created.

        The tag would be completed without the state's former rows. A state that was empty at the tag is refused, too.
        """
        txid = part.txids[self._source.group_of(state)]
        if not self._view(state).asOf(txid).toArrow(limit=1).num_rows:
            raise TagExistsError(
                f"the tag {part.name!r} exists already, and lacks state {state!r}, which is empty as of txid {txid}: "
                f"perhaps it was dropped and has begun again since. Give another name, or drop the tag first (dropTag)"
            )

    def _keep(self, state: str, part: StateTag) -> None:
        txid = part.txids[self._source.group_of(state)]
        try:
            self._store(state).tag(StateTag(part.name, txid, part.txids, part.states, part.made))
        except SnapshotMovedError as error:
            raise TxidNotKeptError(
                f"{error}. It was kept when this call began; other states may have the tag already: drop the tag "
                f"(dropTag), and tag a later batch"
            ) from error

    def _store(self, state: str) -> Tagging:
        store: Any = self._source.store(state)
        return store  # type: ignore[no-any-return]


def _shown(part: StateTag, held: dict[str, StateTag]) -> Tag:
    states = tuple(state for state in part.states if state in held)
    missing = tuple(state for state in part.states if state not in held)
    return Tag(part.name, dict(part.txids), states, datetime.fromtimestamp(part.made / 1000, UTC), missing)


def _listed(txids: dict[str, int]) -> str:
    return ", ".join(f"{txid} of {group}" for group, txid in sorted(txids.items()))


class Tagged:
    """A topology whose batches can be tagged."""

    tagging: TopologyTags
    """The tags of this topology's states."""

    def tag(self, name: str, asOf: AsOfBatch | None = None, *, states: Iterable[str] | None = None) -> Tag:
        """Keep the state of the last committed batch, or of an earlier one, under a name until it is dropped.

        ``state.asOf("tag:month-end")`` reads as of it, as do ``asOf=`` everywhere else, SQL, servers and commands. All
        states of a batch group get the same txid. A tag costs the space of the files that hold the states as of it, and
        holds up no batch. If the program ends while a tag is made, the tag misses some of its states
        (`Tag.missing`); the same call completes it, as of the same txids.

        Parameters
        ----------
        name : str
            Letters a to z, digits, "-", "_" and ".".
        asOf : int, str or datetime, optional
            An earlier batch that is kept, as ``state(name).asOf`` takes it. By default the last committed one.
        states : list of str, optional
            The states to tag. By default all; then all must keep tags, which only a `DeltaMapState` does.

        Returns
        -------
        Tag
            The name, the txid of each batch group, and the states.

        Raises
        ------
        TagExistsError
            There is a complete tag of this name: a tag does not move.
        TxidNotKeptError
            A state does not keep the batch of `asOf`.
        StateError
            A state keeps no tags. Nothing was tagged.

        Examples
        --------
        >>> import tempfile
        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import DeltaMapState
        >>> from trident.testing.local import start_local
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
        >>> folder = tempfile.TemporaryDirectory()
        >>> kept = DeltaMapState.opaque(f"{folder.name}/states")
        >>> _ = words.groupBy("word").persistentAggregate(kept, Count(), "count", name="counts")
        >>> with start_local(topology, name="tagged", checkpointLocation=folder.name) as running:
        ...     running.processAllAvailable()
        ...     print(running.tag("first", asOf=1).txids, [tag.name for tag in running.tags()])
        ...     print(running.state("counts").asOf("tag:first")["dog"], running.state("counts")["dog"])
        ...     running.dropTag("first")
        {'words': 1} ['first']
        1 2
        >>> folder.cleanup()
        """
        return self.tagging.tag(name, asOf, states)

    def tags(self) -> list[Tag]:
        """Return the tags of the states, in the order of their names."""
        return self.tagging.tags()

    def dropTag(self, name: str) -> None:
        """Drop a tag: its batch is then kept no longer than others, and its files are deleted later.

        Raises TagNotFoundError if there is no tag of this name. If the program ends meanwhile, the same call drops the
        rest.
        """
        self.tagging.drop(name)
