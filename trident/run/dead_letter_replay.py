"""The replay of dead letters: their tuples re-enter the stream of the running topology from which they came."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Row

from trident.base.callsite import site_of
from trident.base.errors import TopologyError, UserFunctionError
from trident.base.names import brief, did_you_mean
from trident.base.short_texts import raised
from trident.compiler.letter_marks import Mark, Marks
from trident.compiler.program import Group
from trident.plan.nodes import SpoutSource
from trident.reads.state_view import StateView
from trident.spouts.dead_letters import Letter, Look, ReplaySpout

Where = Callable[[Row], bool]
"""A function that decides whether to replay a letter, which it gets as a Row of the letter's fields."""


_ASKING = threading.RLock()
"""Held by one caller at a time, from the look at earlier requests until its own, so that no letter is in two requests.
`where` may call for a replay itself."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A call of `RunningTopology.replayDeadLetters`.

    `view` reads the letters' state, `committed` returns the last committed txid of the group that writes it. `into` is
    the step before which the letters enter; None means that each enters before its own step.
    """

    stream: str
    where: Where | None
    into: str | None
    view: StateView
    committed: Callable[[], int]

    def ask(self, groups: Sequence[Group]) -> int:
        """Request that the chosen letters re-enter, each directly before its step, and return their number.

        `groups` are the batch groups of the program.

        Letters of an earlier request that is not committed yet are left to that request: of two callers one counts
        them, and with different `into` they re-enter once.

        Raises TopologyError if a letter cannot re-enter, or if `where` is not a function, and UserFunctionError if
        `where` raises. In these cases no letter re-enters.
        """
        spouts = _replay_spouts(self.stream, (spout for group in groups for spout in group.spouts))
        if self.into is not None and self.into not in spouts:
            raise TopologyError(f"into={self.into!r}: {self._accepted(spouts)}{did_you_mean(self.into, spouts)}")
        marks, chosen = Marks.of(groups), dict[str, list[Letter]]()
        with _ASKING:
            # Before the state is read, which may still have the letters of a request that is committed meanwhile.
            asked = frozenset[str]().union(*(spout.asked for spout in spouts.values()))
            wanted = [letter for letter in self._chosen() if letter.id not in asked]
            if self.into is not None:
                _check_one_step(wanted, self.into, spouts, marks)
            for letter in wanted:
                step = self._step_of(letter, spouts, marks) if self.into is None else self.into
                chosen.setdefault(step, []).append((letter.id, letter.tuple))
            for step, letters in chosen.items():  # all are checked before the first request
                spouts[step].table(letters)
            return sum(spouts[step].ask(self._look(letters)) for step, letters in chosen.items())

    def _chosen(self) -> list[Row]:
        """Return the letters of the stream that `where` selects. Called once, in the user's thread."""
        if self.where is not None and not callable(self.where):
            problem = f"replayDeadLetters: where={brief(self.where)}: expected a function of a letter"
            raise TopologyError(f"{problem}, such as lambda letter: letter.error == 'ValueError'")
        _, letters = self._letters()
        return [
            letter
            for letter in letters
            if (self.where is None or _wanted(letter, self.where)) and letter.stream == self.stream
        ]

    def _step_of(self, letter: Row, spouts: Mapping[str, ReplaySpout], marks: Marks) -> str:
        """Return the step before which a letter enters: the step on which its tuple failed, on any branch.

        That step may have another number now. Raises TopologyError if it cannot be recognised.
        """
        label, mark = str(letter.step), Mark.in_id(letter.id)
        found = marks.may_be(label, mark, spouts)
        if len(found) == 1:
            return found[0]
        leading = [step for step in spouts if mark is not None and marks.leads_there(step, mark)]
        problem = "no step of the program has this label now"
        if label in spouts:
            problem = "the step that has this label now does not lead to the same states and outputs"
        there = f"; {' and '.join(leading)} may lead to these" if leading else ""
        raise TopologyError(
            f"dead letter {letter.id} comes from {label}, but {problem}; {self._accepted(spouts)}{there}. If one of "
            f"them replaces it, on the same branch, name it: "
            f"replayDeadLetters({self.stream!r}, into={[*leading, *spouts][0]!r}). On another branch the tuple "
            f"would count twice. Or exclude such letters with where="
        )

    def _accepted(self, spouts: Iterable[str]) -> str:
        return f"dead letters of {self.stream!r} are replayed into {', '.join(spouts)}"

    def _look(self, letters: Sequence[Letter]) -> Look:
        """Return a function that finds out which of the `letters` are still in the state.

        It calls no user code, because an error in user code would fail a batch.
        """
        ids = {id for id, _ in letters}

        def find() -> tuple[int, list[Letter]]:
            as_of, kept = self._letters()
            return as_of, [(letter.id, letter.tuple) for letter in kept if letter.id in ids]

        return find

    def _letters(self) -> tuple[int, list[Row]]:
        """Return all letters in the state by id, and the last txid that the read certainly includes."""
        before = self.committed()
        table = self.view.toArrow()  # latest values (of a non-transactional state) include at least batch `before`
        as_of = int((table.schema.metadata or {}).get(b"asOfTxid", before))
        rows = sorted(table.to_pylist(), key=lambda row: str(row["id"]))
        return as_of, [Row(id=row["id"], **row[table.column_names[-1]]) for row in rows]


def _replay_spouts(stream: str, sources: Iterable[SpoutSource]) -> dict[str, ReplaySpout]:
    """Return the spouts through which letters return into this stream, each by the step before which they enter.

    Raises TopologyError if the stream has no such spout.
    """
    replays = [source.spout for source in sources if isinstance(source.spout, ReplaySpout)]
    streams = sorted({spout.stream for spout in replays})
    if stream not in streams:
        way_out = (
            (f"they can be replayed into {', '.join(streams)}")
            if streams
            else "call stream.replayable() where the letters should re-enter"
        )
        raise TopologyError(f"no dead letters are replayed into {stream!r}{did_you_mean(stream, streams)}; {way_out}")
    return {spout.step: spout for spout in replays if spout.stream == stream}


def _has_step(letter: Row, spouts: Mapping[str, ReplaySpout], marks: Marks) -> bool:
    """Return whether the step with a letter's label is that of the letter."""
    return marks.may_be(letter.step, Mark.in_id(letter.id), spouts) == [letter.step]


def _check_one_step(letters: Sequence[Row], into: str, spouts: Mapping[str, ReplaySpout], marks: Marks) -> None:
    """Raise TopologyError if the letters of one call with `into` come from several steps, and one of these is another.

    A letter whose own step the program still has would then enter before the step that replaces another one.
    """
    own = {letter.id for letter in letters if _has_step(letter, spouts, marks)}
    kept = next((letter for letter in letters if letter.id in own and letter.step != into), None)
    if kept is None:
        return
    other = next((letter for letter in letters if letter.step != kept.step or letter.id not in own), None)
    if other is not None:
        raise TopologyError(
            f"into={into!r}: the chosen letters come from several steps: {kept.id} from {kept.step}, which the program "
            f"still has, and {other.id} from {other.step}{' of an earlier program' if other.id not in own else ''}. "
            f"Choose with where=, by their step or txid, the letters that enter before {into}, and replay the others "
            f"with another call"
        )


def _wanted(letter: Row, where: Where) -> bool:
    try:
        return bool(where(letter))
    except Exception as error:
        # A Row raises errors of PySpark for a missing field.
        unknown = isinstance(error, AttributeError | LookupError | PySparkException)
        fields = f"a letter has the fields {', '.join(letter.__fields__)}; " if unknown else ""
        raise UserFunctionError(
            f"replayDeadLetters: where {raised(error)}; {fields}the letter was {brief(letter)} [{site_of(where)}]"
        ) from error
