"""What must be so, whatever the program is and becomes: told by what was frozen, and by nothing of the library.

- a tuple is in one batch of its stream's history: a stream is what its user takes it for, by whatever name;
- an output gets the rows that a batch was frozen with, the same ones at each time, and 0 as `attempt` only where nobody
  can have had them;
- a state is the sum of the batches that were frozen by programs that had it, since it began; whoever reads it from
  outside sees it as one of these batches left it.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulator.flows import Flow
from tests.simulator.in_world import CONTENT, first_letter
from tests.simulator.meanings import Batch, difference
from tests.simulator.programs import OUT, Line, Shape, groups_of, grown
from tests.simulator.scheduler import Wrong

Values = dict[Any, Any]
Given = dict[str, list[tuple[str, int]]]
"""The tuples of a batch, by their streams' tokens."""


@dataclass
class State:
    """A state from its beginning to its end."""

    line: Line
    now: Any = field(default_factory=dict)
    after: dict[int, list[Any]] = field(default_factory=dict)
    """By txid. Two at one txid: the state went on in a group that counts otherwise."""
    fed: set[str] = field(default_factory=set)
    """The streams that fed it, in any program."""
    versions: list[tuple[Any, int, Values]] = field(default_factory=list)
    """What it held after each of its batches, in the order in which they were frozen: group, txid and values."""
    missed: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """Of each stream that fed it: the first batch that it did not get, because the program did not feed it so."""
    first: Values = field(default_factory=dict)
    """What it held before its first batch."""
    born: int = 0
    """The last txid that was frozen in any group when it began; before that it held nothing."""

    @classmethod
    def begun(cls, line: Line, fed: set[str], born: int) -> "State":
        """A state that begins as this line of a program has it."""
        first = dict(CONTENT) if line.filled else {}
        return cls(line, dict(first), fed=fed, first=first, born=born)

    def as_of(self, txid: int) -> list[Any]:
        """What it may have held after a batch."""
        earlier = [at for at in self.after if at <= txid]
        if earlier:
            return self.after[max(earlier)]
        return [self.first] if txid >= self.born else [self.first, {}]

    def evolve(self, line: Line, txid: int) -> None:
        """The first batch of a program that counts it otherwise is frozen: its values are others before that batch."""
        held = _grown(self.now)
        self.after[txid - 1] = [*self.as_of(txid - 1), held]
        if self.versions:
            self.versions.append((*self.versions[-1][:2], held))
        else:
            self.first = held
        self.line, self.now = line, dict(held)


@dataclass
class Frozen:
    """A frozen batch."""

    given: Given
    leaving: dict[str, Counter[Any]]
    """What each output must be handed: words and numbers."""
    before: dict[str, tuple[State, Values]]
    """Of each output that asks: the state, and what it held before the batch."""
    looked: dict[str, State] = field(default_factory=dict)
    """Of each output that looks at another group's state: the state."""
    committed: bool = False
    time: float = 0.0
    """When the batch was planned, in seconds since 1970."""


class History:
    """Everything that was frozen since the last reset."""

    def __init__(self) -> None:
        self.streams: dict[str, set[int]] = {}
        """The numbers that were frozen, by the stream's token."""
        self.batches: dict[tuple[Any, int], Frozen] = {}
        self.states: dict[str, State] = {}
        self.handed: dict[str, dict[int, Counter[Any]]] = {}
        """By output and txid."""
        self.answered: dict[str, dict[int, Counter[Any]]] = {}
        """The same with the answers of loose queries."""
        self.looked: dict[str, tuple[State, int]] = {}
        """Of each output that looks: the state, and how many of its versions an answer has seen at least."""
        self.ended: set[tuple[Any, int]] = set()
        """The batches that were committed, though a power loss may have taken the word away."""
        self.known: set[str] = set()
        """The states that programs began with, and that were not dropped since."""
        self.absent: set[str] = set()
        """Those of them without which a batch was frozen."""
        self.begins = 0
        """The last txid of the savepoint with which this history begins: no power loss makes its batches wait."""
        self.restored = 0
        """The txid of the empty batch with which a restored topology continues; 0 for any other."""
        self.forgot = False
        """Whether an older copy of the log was put back."""
        self.dropped = 0
        """How many states were dropped or begun anew, so that what was asked of them is another matter."""
        self.evolving: dict[str, Line] = {}
        """The lines of the last program that declare how a state was counted before, by the state."""

    # --- what is told --------------------------------------------------------------------------------------------

    def began(self, shape: Shape) -> None:
        """A program began: its states are there from now on, though no batch has reached them."""
        self.known |= {*shape.states}
        self.evolving = {line.name: line for line in shape.lines if line.was}
        self.founded(shape, shape.states)

    def founded(self, shape: Shape, names: Collection[str]) -> None:
        """States of a program were created, though its start may not come to its end."""
        if isinstance(shape, Flow):
            self._begin(shape)
        for line in shape.lines:
            if line.name in names and line.name not in self.states:
                self.states[line.name] = State.begun(line, _feeding(shape, line.name), self._frozen)

    def restored_at(self, txid: int) -> None:
        """The topology has gone back to the savepoint with which this history begins, by an empty batch."""
        self.restored = self.begins = txid
        for state in self.states.values():
            state.after[txid] = [state.now]

    @property
    def last(self) -> int:
        """The txid of the last batch of a program that stays what it is."""
        return max(self.restored, len(self.batches) and max(txid for _, txid in self.batches))

    @property
    def _frozen(self) -> int:
        return max((txid for _, txid in self.batches), default=0)

    def froze(self, group: Any, txid: int, shape: Shape, given: Given, time: float = 0.0) -> None:
        """A batch of this time is frozen."""
        if (group, txid) in self.batches:
            raise Wrong(f"batch {txid} of group {group!r} froze twice")
        last = max([*(at for name, at in self.batches if name == group), self.restored]) or txid - 1
        if txid != last + 1:
            raise Wrong(f"batch {txid} of group {group!r} froze after batch {last}")
        for token, rows in given.items():
            numbers = {seq for _, seq in rows}
            seen = self.streams.setdefault(token, set())
            if len(numbers) != len(rows) or numbers & seen:
                raise Wrong(
                    f"batch {txid} of group {group!r}: tuples of stream {shape.stream(token).name!r} froze that were "
                    f"frozen before: {sorted(numbers & seen)}"
                )
            seen |= numbers
        self.absent |= self.known - {*shape.states}
        if isinstance(shape, Flow):
            self.batches[group, txid] = Frozen(given, {}, {}, time=time)
            self._tell(shape, txid)
            return
        mine = {token for token in given}
        for line in shape.lines:
            state = self.states.get(line.name)
            if state is not None and line.was == state.line.how != line.how and mine & set(line.streams):
                state.evolve(line, txid)
        before = {name: (state, dict(state.now)) for name, state in self.states.items()}
        leaving, asked = dict[str, Counter[Any]](), dict[str, tuple[State, Values]]()
        looked = dict[str, State]()
        together = next((group for group in groups_of(shape) if group & set(given)), frozenset[str]())
        for line in shape.lines:
            if line.kind in OUT and mine & set(line.streams):
                leaving[line.name] = Counter(row for token in line.streams for row in given.get(token, ()))
                if line.kind == "ask" and line.asked in before:
                    asked[line.name] = before[line.asked]
                elif line.kind == "look" and line.asked in before:
                    feeds = next((other.streams for other in shape.lines if other.name == line.asked), ())
                    if {*feeds} & together:  # a state of its own group is committed up to the batch before
                        asked[line.name] = before[line.asked]
                    else:
                        looked[line.name] = before[line.asked][0]
        self._fold(group, txid, shape, given)
        self.batches[group, txid] = Frozen(given, leaving, asked, looked)

    def _begin(self, flow: Flow) -> None:
        """The states of a program that stays what it is and begins some of them with a content."""
        for name, held in flow.after([]).items():
            if held and isinstance(held, dict) and name not in self.states:
                self.states[name] = State(Line("flow", name), held, first=held)

    def _tell(self, flow: Flow, txid: int) -> None:
        """What the states of a program hold that stays what it is: told anew of all batches."""
        for name, held in flow.after(self.timed).items():
            state = self.states.setdefault(name, State(Line("flow", name)))
            state.now, state.after[txid] = held, [held]

    def _fold(self, group: Any, txid: int, shape: Shape, given: Given) -> None:
        mine = set(given)
        written = dict[str, tuple[State, Values]]()
        for line in shape.lines:
            if line.kind == "count" and mine & set(line.streams):
                delta: Values = {}
                for token in line.streams:
                    for word, seq in given.get(token, ()):
                        delta[word] = delta.get(word, 0) + (seq if line.how == "sum" else 1)
                written[line.name] = self._add(line, group, txid, delta, shape)
        for line in shape.lines:
            if line.kind == "total" and line.asked in written:
                state, changed = written[line.asked]
                delta = {}
                for word in changed:
                    letter = first_letter(word)
                    delta[letter] = delta.get(letter, 0) + state.now[word]
                self._add(line, group, txid, delta, shape)
        for name, state in self.states.items():
            for token in state.fed - _feeding(shape, name):
                if given.get(token):
                    state.missed.setdefault(token, (group, txid))

    def _add(self, line: Line, group: Any, txid: int, delta: Values, shape: Shape) -> tuple[State, Values]:
        fed = _feeding(shape, line.name)
        state = self.states.setdefault(line.name, State.begun(line, set(), self._frozen))
        # Of a stream that feeds it no longer, by the word of a program that was begun, it may miss what it likes.
        missed = {token: batch for token, batch in state.missed.items() if token in fed}
        if missed:
            raise Wrong(
                f"state {line.name!r} takes batch {txid} of group {group!r}, and of its streams it never got the "
                f"batches {missed}"
            )
        if not state.after:
            # A state that a server lost before its first batch may begin as something else: it held nothing.
            state.line = line
        if state.line.how != line.how or state.line.kind != line.kind:
            raise Wrong(f"state {line.name!r} goes on as {line.how}, and began as {state.line.how}")
        state.fed |= fed
        for key, value in delta.items():
            state.now[key] = state.now.get(key, 0) + value
        state.after.setdefault(txid, []).append(dict(state.now))
        state.versions.append((group, txid, dict(state.now)))
        return state, delta

    def committed(self, group: Any, txid: int, shape: Shape) -> None:
        """A batch is committed, by a driver of this program: every output that is still there had its rows."""
        batch = self.batches.get((group, txid))
        if batch is None:
            raise Wrong(f"batch {txid} of group {group!r} is committed, and never froze")
        for name, rows in batch.leaving.items():
            if name in shape.outputs and txid not in self.handed.get(name, {}):
                raise Wrong(f"batch {txid} of group {group!r} is committed, and output {name!r} never got {dict(rows)}")
        batch.committed = True
        self.ended.add((group, txid))

    def succeeded(self, group: Any, txid: int) -> None:
        """Spouts hear that a batch is committed. Its log may have been replaced by an older copy since."""
        last = max([*(at for name, at in self.batches if name == group), self.restored]) or txid
        if txid > last and not self.forgot:
            raise Wrong(f"the spouts of group {group!r} hear success({txid}), and batch {last} is the last that froze")

    def put_back(self, frozen: int, committed: int) -> None:
        """The log of a program that stays what it is was replaced by an older copy."""
        self.forgot = True
        for key in [key for key in self.batches if key[1] > frozen]:
            for token, rows in self.batches.pop(key).given.items():
                self.streams[token] -= {seq for _, seq in rows}
        for (_, txid), batch in self.batches.items():
            batch.committed = txid <= committed
        for state in self.states.values():
            state.after = {txid: held for txid, held in state.after.items() if txid <= frozen}
            state.now = state.after[frozen][0] if frozen else state.first

    def up_to(self, txid: int) -> "History":
        """What was frozen up to this batch, all of it committed, of a program that stays what it is."""
        copy = History()
        copy.begins = txid
        copy.known = {*self.known}
        copy.batches = {key: replace(batch, committed=True) for key, batch in self.batches.items() if key[1] <= txid}
        for batch in copy.batches.values():
            for token, rows in batch.given.items():
                copy.streams.setdefault(token, set()).update(seq for _, seq in rows)
        for name, state in self.states.items():
            after = {at: held for at, held in state.after.items() if at <= txid}
            now = after[max(after)][0] if after else state.first
            copy.states[name] = State(state.line, now, after, first=state.first, born=state.born)
        return copy

    def given_out(self, group: Any, output: str, txid: int, attempt: int | None, rows: list[Any]) -> None:
        """An output is handed a batch. `attempt` is None for a driver that was taken over: it knows nothing."""
        batch = self.batches.get((group, txid))
        where = f"output {output!r}, batch {txid} of group {group!r}, attempt {attempt}"
        if batch is None:
            raise Wrong(f"{where}: this batch never froze")
        got = Counter((row[0], row[1]) for row in rows)
        if output not in batch.leaving:
            raise Wrong(f"{where}: was frozen by a program without this output, and gets {dict(got)}")
        if got != batch.leaving[output]:
            raise Wrong(f"{where}: gets {dict(got)}, and ought to get {dict(batch.leaving[output])}")
        if output in batch.before and self.states.get(batch.before[output][0].line.name) is batch.before[output][0]:
            held = batch.before[output][1]
            wrong = [row for row in rows if len(row) > 2 and row[-1] != held.get(row[0])]
            if wrong:
                raise Wrong(f"{where}: {wrong} as of the batch before, which left {held}")
        known = self.handed.setdefault(output, {})
        if txid in known:
            if known[txid] != got:
                raise Wrong(f"{where}: gets {dict(got)}, and got {dict(known[txid])} under this txid before")
            if attempt == 0:
                raise Wrong(f"{where}: it was handed over before")
        known[txid] = got
        state = batch.looked.get(output)
        if state is not None:
            self._check_looked(output, txid, rows, state, where)

    def _check_looked(self, output: str, txid: int, rows: list[Any], state: State, where: str) -> None:
        """The answers are those of the first time, and all as one committed batch left the state: the same as the last
        one that was looked at, or a later one."""
        told = self.answered.setdefault(output, {})
        answers = Counter((row[0], row[1], row[-1]) for row in rows)
        if told.setdefault(txid, answers) != answers:
            raise Wrong(f"{where}: gets {dict(answers)}, and got {dict(told[txid])} under this txid before")
        if self.states.get(state.line.name) is not state or state.missed:
            return  # dropped meanwhile
        former, seen = self.looked.get(output, (state, 0))
        versions: list[Values] = [state.first]
        versions += [held for group, at, held in state.versions if (group, at) in self.ended]
        for at in range(seen if former is state else 0, len(versions)):
            # A program that counts it otherwise sees the other values before its first batch there.
            held = [versions[at], *([_grown(versions[at])] if state.line.name in self.evolving else [])]
            if any(all(row[-1] == each.get(row[0]) for row in rows) for each in held):
                self.looked[output] = state, at
                return
        raise Wrong(f"{where}: {dict(answers)} is no committed batch's, of {versions}, from {seen} on")

    def dropped_state(self, name: str) -> None:
        self.known.discard(name)
        self.absent.discard(name)
        if self.states.pop(name, None) is not None:
            self.dropped += 1

    # --- what is asked -------------------------------------------------------------------------------------------

    @property
    def timed(self) -> list[Batch]:
        """The batches of a program that stays what it is, with their times."""
        return [Batch.of(batch.given, txid, batch.time) for (_, txid), batch in self.batches.items()]

    @property
    def waiting(self) -> list[tuple[Any, int]]:
        """The batches that are frozen and not committed."""
        return [key for key, batch in self.batches.items() if not batch.committed]

    @property
    def lacking(self) -> set[str]:
        """The states that missed a batch."""
        return {name for name, state in self.states.items() if state.missed}

    def check(self, state: str, found: Values, txid: int | None, who: str) -> None:
        """A read as of a txid, or (None) of what the last batch left."""
        known = self.states.get(state)
        if known is None:
            if found and not (state in self.known and found == CONTENT):  # it is being created
                raise Wrong(f"{who} read {state!r} as {found}, and no batch went into it")
            return
        if txid is None:
            line = self.evolving.get(state)
            right = [_grown(known.now) if line is not None and line.was == known.line.how != line.how else known.now]
        else:
            right = known.as_of(txid)
        wrong = [difference(held, found) for held in right]
        if all(wrong):
            raise Wrong(f"{who} read {state!r} as of txid {txid} as {found}, and ought to find {right}: {wrong[0]}")


def _grown(held: Values) -> Values:
    """What a state holds after its values became others."""
    values = {key: grown(value) for key, value in held.items()}
    return {key: value for key, value in values.items() if value is not None}


def _feeding(shape: Shape, state: str) -> set[str]:
    """The streams that feed a state in this program; none if the program has no such state."""
    lines = {line.name: line for line in shape.lines}
    if state not in shape.states:
        return set()
    line = lines[state]
    return {*(line.streams or lines[line.asked].streams)}
