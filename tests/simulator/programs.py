"""The programs of a schedule: small descriptions that chance draws and changes, and the topologies made of them.

A description is a value: equal ones share one compiled program, in all schedules of a process.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

from tests.simulator import spouts
from tests.simulator.in_world import CONTENT, InWorld, Worlds, first_letter
from tests.simulator.memo import forget_programs, of_programs
from trident import Count, Evolution, InitialState, MapGet, Sum, TridentTopology
from trident.compiler.program import Program
from trident.compiler.stages import cut
from trident.plan.topology_protocol import TopologyPlan

NAMES = ("ads", "bids", "carts", "deals", "maps", "notes", "orders", "posts", "tags", "users", "visits", "zones")
"""Of streams. A name that was given up by a renaming is never given again."""
STATES = ("counts", "words")
OUTPUTS = ("left", "right", "third", "fourth", "fifth", "sixth")
OUT = ("leave", "ask", "look")
"""The kinds of lines that are outputs."""

Rows = list[tuple[str, int]]
"""Words and numbers."""


@dataclass(frozen=True)
class Stream:
    """A stream of the program. `token`: what its user takes it for; a renamed stream keeps it. `source`: where its
    tuples come from. `formerly`: what the program says of the name that it had before; "?" for nothing."""

    name: str
    token: str
    source: str
    formerly: str | None = "?"


@dataclass(frozen=True)
class Line:
    """One line of the program.

    kind: "count", a state of the words of these streams, or of the sums of their numbers; "leave", an output of their
    tuples; "ask", an output of a stream's tuples with what the state of `asked` had for their words; "look", the same
    as of the last batch that was committed there, which ties no streams; "total", a state of a later stage: the sum by
    first letter of what `asked` has after each batch.
    """

    kind: str
    name: str
    streams: tuple[str, ...] = ()
    """By their tokens."""
    asked: str = ""
    how: str = "count"
    was: str = ""
    """How a state was counted before, if the program declares that: `grown` makes its new values."""
    filled: bool = False
    """Whether a state begins with CONTENT."""


def grown(value: int) -> int | None:
    """What a value becomes when its state is counted otherwise from now on; None: its key goes."""
    return None if value % 5 == 3 else 2 * value + 1


@dataclass(frozen=True)
class Shape:
    """A whole program. `wide`: its tuples have one field more."""

    streams: tuple[Stream, ...]
    lines: tuple[Line, ...]
    wide: bool = False

    @property
    def program(self) -> Program:
        return program_of(self)

    @property
    def plan(self) -> TopologyPlan:
        """The topology from which the program was cut."""
        return _topology(self)

    def shown(self, state: str) -> Callable[[Any], Any]:
        """What makes of a stored value the one that users see: the same."""
        return lambda value: value

    def stream(self, token: str) -> Stream:
        return next(stream for stream in self.streams if stream.token == token)

    def by_name(self) -> dict[str, str]:
        """The token of each stream, by the stream's name."""
        return {stream.name: stream.token for stream in self.streams}

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(line.name for line in self.lines if line.kind in ("count", "total"))

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(line.name for line in self.lines if line.kind in OUT)

    def __str__(self) -> str:
        names = {stream.token: stream.name for stream in self.streams}
        sources = ", ".join(
            f"{s.name}={s.source}" + ("" if s.formerly == "?" else f" (formerly {s.formerly})") for s in self.streams
        )
        lines = "; ".join(_shown(line, names) for line in self.lines)
        return f"[{sources}] {lines}{' (wide)' if self.wide else ''}"


def _shown(line: Line, names: dict[str, str]) -> str:
    streams = "+".join(names[token] for token in line.streams)
    match line.kind:
        case "count":
            was = f" (was {line.was})" if line.was else ""
            return f"{line.name} = {line.how}({streams}){was}{' from a content' if line.filled else ''}"
        case "total":
            return f"{line.name} = totals of {line.asked}"
        case "ask":
            return f"{line.name} <- {streams} asks {line.asked}"
        case "look":
            return f"{line.name} <- {streams} looks at {line.asked}"
    return f"{line.name} <- {streams}"


# --- what is made of them -----------------------------------------------------------------------------------------


MANY = 500
"""The number of programs that are kept for other schedules; then all are forgotten."""
_made = 0


def forget_many() -> bool:
    """Forget all programs if there are many. Return whether they were."""
    global _made
    many = _made > MANY
    if many:
        _made = 0
        forget_programs()
    return many


@of_programs
def program_of(shape: Shape) -> Program:
    """The program, cut by the real compiler."""
    global _made
    _made += 1
    return cut(_topology(shape))


@of_programs
def _topology(shape: Shape) -> TridentTopology:
    topology = TridentTopology()
    streams = {stream.token: spouts.new_stream(topology, stream, shape.wide) for stream in shape.streams}
    states: dict[str, Any] = {}
    for line in shape.lines:
        if line.kind == "total":
            letters = states[line.asked].newValuesStream(everyChange=True).each("word", first_letter, "letter string")
            letters = letters.groupBy("letter")
            states[line.name] = letters.persistentAggregate(InWorld(line.name), "value", Sum(), "value", name=line.name)
            continue
        tuples = [streams[token] for token in line.streams]
        merged = tuples[0] if len(tuples) == 1 else topology.merge(*tuples)
        if line.kind == "count":
            how: Any = (Count(),) if line.how == "count" else ("seq", Sum())
            grouped = merged.groupBy("word")
            named = {"name": line.name, **_begun(line)}
            states[line.name] = grouped.persistentAggregate(InWorld(line.name), *how, "value", **named)
        elif line.kind in ("ask", "look"):
            loose: Any = {"asOf": "committed"} if line.kind == "look" else {}
            asking = merged.stateQuery(states[line.asked], "word", MapGet(), "before", **loose)
            asking.foreachArrow(handing(line.name), name=line.name)
        else:
            merged.foreachArrow(handing(line.name), name=line.name)
    return topology


def _begun(line: Line) -> dict[str, Any]:
    """What the program says of a state's beginning."""
    evolve = Evolution(was="long", by=line.was.capitalize(), value=grown) if line.was else None
    content = {"word": [*CONTENT], "value": pa.array(CONTENT.values(), pa.int64())}
    initial = InitialState(lambda: pa.table(content)) if line.filled else None
    return {
        **({} if evolve is None else {"evolve": evolve}),
        **({} if initial is None else {"initialState": initial}),
    }


@cache
def handing(output: str) -> Any:
    """The function of an output: it tells the world."""

    def hand(table: Any, txid: int, attempt: int) -> None:
        Worlds.now.handed(output, table, txid, attempt)

    return hand


# --- chance -------------------------------------------------------------------------------------------------------


def first(chance: Random, sources: list[str], loose: bool = False, counts: bool = False) -> Shape:
    """The program that a schedule begins with. `loose`: one of its lines looks at a state of another group, whose
    batches commit between the tries of a turn. `counts`: it has a state that can evolve."""
    while True:
        shape = _first(chance, sources)
        looks = not loose or any(line.kind == "look" and apart(shape, line) for line in shape.lines)
        if looks and (not counts or any(line.kind == "count" for line in shape.lines)):
            return shape


def apart(shape: Shape, line: Line) -> bool:
    """Whether the state that a line asks is fed by other groups than the line's own."""
    feeds = next((other.streams for other in shape.lines if other.name == line.asked), ())
    return not any({*line.streams} & group and {*feeds} & group for group in groups_of(shape))


def _first(chance: Random, sources: list[str]) -> Shape:
    names = chance.sample(NAMES, chance.choice((1, 2, 2, 3)))
    streams = tuple(Stream(name, name, chance.choice(sources)) for name in names)
    shape = Shape(streams, ())
    for _ in range(chance.choice((1, 2, 3, 4))):
        shape = _more(shape, chance)
    return _whole(shape, chance)


def _more(shape: Shape, chance: Random) -> Shape:
    """One line more."""
    lines = shape.lines
    counts = [line.name for line in lines if line.kind == "count"]
    free = [name for name in STATES if name not in shape.states]
    kind = chance.choice(("count", "count", "leave", "leave", "ask", "ask", "ask", "look", "look", "total"))
    if kind == "count" and free:
        how = "sum" if chance.random() < 0.3 else "count"
        return replace(shape, lines=(*lines, Line("count", chance.choice(free), _some(shape, chance), how=how)))
    if kind == "total" and counts and "totals" not in shape.states:
        return replace(shape, lines=(*lines, Line("total", "totals", asked=chance.choice(counts))))
    name = _free_output(shape, chance)
    if name is None:
        return shape
    if kind in ("ask", "look") and counts:
        asking = [line.asked for line in lines if line.kind == kind and line.asked in counts]
        line = Line(kind, name, (chance.choice(shape.streams).token,), (asking or counts)[0])
    else:
        line = Line("leave", name, _some(shape, chance))
    return replace(shape, lines=(*lines, line))


def _free_output(shape: Shape, chance: Random) -> str | None:
    free = [name for name in OUTPUTS if name not in shape.outputs]
    return chance.choice(free) if free else None


def _some(shape: Shape, chance: Random) -> tuple[str, ...]:
    """One stream, or several that are merged."""
    tokens = [stream.token for stream in shape.streams]
    most = min(len(tokens), chance.choice((1, 1, 2, 2, 3)))
    return tuple(chance.sample(tokens, most))


def _whole(shape: Shape, chance: Random) -> Shape:
    """A program in which every line has what it reads, and every stream is read."""
    tokens = {stream.token for stream in shape.streams}
    lines = list[Line]()
    for line in shape.lines:
        streams = tuple(token for token in line.streams if token in tokens)
        if streams or line.kind == "total":
            lines.append(replace(line, streams=streams))
    lines.sort(
        key=lambda line: {"total": 1, "ask": 1, "look": 1}.get(line.kind, 0)
    )  # a line asks what stands before it
    counts = {line.name for line in lines if line.kind == "count"}
    lines = [line for line in lines if not line.asked or line.asked in counts]
    shape = replace(shape, lines=tuple(lines))
    for token in tokens - {token for line in lines for token in line.streams}:
        name = _free_output(shape, chance)
        if name is None:
            shape = replace(shape, streams=tuple(s for s in shape.streams if s.token != token))
        else:
            shape = replace(shape, lines=(*shape.lines, Line("leave", name, (token,))))
    return shape


class Changes:
    """How the program of a schedule changes. It remembers what was taken away, to put it back."""

    def __init__(self, chance: Random, shape: Shape, sources: list[str], evolving: Random | None = None) -> None:
        self._chance, self._sources, self._evolving = chance, sources, evolving
        self._names = [name for name in NAMES if name not in shape.by_name()]
        self._gone: list[Stream] = []
        self._gone_lines: list[Line] = []
        self._lacking = set[str]()
        self._earlier = [shape]

    def change(self, shape: Shape, lacking: set[str]) -> tuple[str, Shape]:
        """Another program, and how it is another one. `lacking`: states that missed a batch."""
        self._lacking = lacking & {line.name for line in self._gone_lines} - {*shape.states}
        for _ in range(20):
            what = self._chance.choices(list(_CHANGES), _WEIGHTS)[0]
            if self._gone and self._chance.random() < 0.5:
                what = "stream put back"
            elif self._lacking and self._chance.random() < 0.8:
                what = "line put back"
            if self._evolving is not None and self._evolving.random() < 0.5:
                what = "state evolves"
            changed = _CHANGES[what](self, shape)
            if changed is not None:
                if what != "rolled back" and self._chance.random() < 0.6:
                    changed = _plain(changed)
                changed = _whole(_said(changed), self._chance)
                if self._evolving is not None:
                    changed = filled(changed, self._evolving, shape)
                if changed.streams and _plain(changed) != _plain(shape):
                    self._earlier.append(changed)
                    return what, changed
        return "nothing", shape

    def _rolled_back(self, shape: Shape) -> Shape | None:
        """A former program is started again, as it was written then: streams are back in the lines and groups that they
        had, while others may have taken their tuples."""
        able = [former for former in self._earlier[-4:] if _sources(former) == _sources(former, shape)]
        return self._chance.choice(able) if able else None

    # --- streams -------------------------------------------------------------------------------------------------

    def _rename(self, shape: Shape) -> Shape | None:
        if not self._names:
            return None
        old, name = self._chance.choice(shape.streams), self._names.pop(self._chance.randrange(len(self._names)))
        return replace(shape, streams=tuple(replace(s, name=name) if s is old else s for s in shape.streams))

    def _add(self, shape: Shape) -> Shape | None:
        if len(shape.streams) > 3 or not self._names:
            return None
        name = self._names.pop(self._chance.randrange(len(self._names)))
        stream = Stream(name, name, self._chance.choice(self._sources))
        shape = replace(shape, streams=(*shape.streams, stream))
        return self._merge_into(shape, stream.token) if self._chance.random() < 0.4 else shape

    def _remove(self, shape: Shape) -> Shape | None:
        if len(shape.streams) < 2:
            return None
        gone = self._chance.choice(shape.streams)
        self._gone.append(gone)
        self._gone_lines += [line for line in shape.lines if line.streams == (gone.token,)]
        return replace(shape, streams=tuple(s for s in shape.streams if s is not gone))

    def _back(self, shape: Shape) -> Shape | None:
        """A stream that was removed is there again, with its lines or others."""
        here = {name for stream in shape.streams for name in (stream.token, stream.name)}
        self._gone = [stream for stream in self._gone if not {stream.token, stream.name} & here]  # a former program's
        if not self._gone:
            return None
        stream = self._gone.pop(self._chance.randrange(len(self._gone)))
        shape = replace(shape, streams=(*shape.streams, stream))
        names = {line.name for line in shape.lines}
        if self._chance.random() < 0.6:
            mine = [line for line in self._gone_lines if line.streams == (stream.token,) and line.name not in names]
            return replace(shape, lines=(*shape.lines, *{line.name: line for line in mine}.values()))
        return self._merge_into(shape, stream.token)

    def _merge(self, shape: Shape) -> Shape | None:
        return self._merge_into(shape, self._chance.choice(shape.streams).token)

    def _merge_into(self, shape: Shape, token: str) -> Shape | None:
        """A line takes another stream in, which makes one group of two."""
        able = [line for line in shape.lines if line.kind in ("count", "leave") and token not in line.streams]
        if not able:
            return None
        chosen = self._chance.choice(able)
        merged = replace(chosen, streams=(*chosen.streams, token))
        return replace(shape, lines=tuple(merged if line is chosen else line for line in shape.lines))

    def _moved(self, shape: Shape) -> Shape | None:
        """The lines of a stream alone are taken out, and another line takes its tuples: it is in another group then."""
        able = [line.streams[0] for line in shape.lines if line.kind == "count" and len(line.streams) == 1]
        if not able:
            return None
        token = self._chance.choice(able)
        return self._merge_into(replace(shape, lines=tuple(x for x in shape.lines if token not in x.streams)), token)

    def _split(self, shape: Shape) -> Shape | None:
        able = [line for line in shape.lines if len(line.streams) > 1]
        if not able:
            return None
        chosen = self._chance.choice(able)
        out = self._chance.choice(chosen.streams)
        less = replace(chosen, streams=tuple(token for token in chosen.streams if token != out))
        return replace(shape, lines=tuple(less if line is chosen else line for line in shape.lines))

    def _source(self, shape: Shape) -> Shape | None:
        """Another source under a stream's name, with the same kind of spout."""
        old = self._chance.choice(shape.streams)
        others = [name for name in self._sources if name != old.source and name[0] == old.source[0]]
        if not others:
            return None
        new = self._chance.choice(others)
        return replace(shape, streams=tuple(replace(s, source=new) if s is old else s for s in shape.streams))

    # --- lines ---------------------------------------------------------------------------------------------------

    def _swap(self, shape: Shape) -> Shape | None:
        """The order of the lines is another one; of what each of them means, nothing."""
        lines = list(shape.lines)
        if len(lines) < 2:
            return None
        self._chance.shuffle(lines)
        lines = lines if lines != list(shape.lines) else lines[::-1]
        return replace(shape, lines=tuple(lines))

    def _schema(self, shape: Shape) -> Shape | None:
        return replace(shape, wide=not shape.wide)

    def _how(self, shape: Shape) -> Shape | None:
        """A state's aggregator is another one."""
        able = [line for line in shape.lines if line.kind == "count"]
        if not able:
            return None
        chosen = self._chance.choice(able)
        other = replace(chosen, how="sum" if chosen.how == "count" else "count", was="")
        return replace(shape, lines=tuple(other if line is chosen else line for line in shape.lines))

    def _line_added(self, shape: Shape) -> Shape | None:
        return _more(shape, self._chance)

    def _line_removed(self, shape: Shape) -> Shape | None:
        """Of a state, with those that ask it."""
        if not shape.lines:
            return None
        states = [line for line in shape.lines if line.name in shape.states]
        gone = self._chance.choice(states or shape.lines if self._chance.random() < 0.5 else shape.lines)
        self._gone_lines.append(gone)
        return replace(shape, lines=tuple(line for line in shape.lines if line is not gone))

    def _line_back(self, shape: Shape) -> Shape | None:
        names = {line.name for line in shape.lines}
        able = [line for line in self._gone_lines if line.name not in names]
        if not able:
            return None
        line = self._chance.choice([line for line in able if line.name in self._lacking] or able)
        self._gone_lines.remove(line)
        return replace(shape, lines=(*shape.lines, line))

    def _output_renamed(self, shape: Shape) -> Shape | None:
        able = [line for line in shape.lines if line.kind in OUT]
        name = _free_output(shape, self._chance)
        if not able or name is None:
            return None
        chosen = self._chance.choice(able)
        return replace(shape, lines=tuple(replace(line, name=name) if line is chosen else line for line in shape.lines))

    def _loosened(self, shape: Shape) -> Shape | None:
        """A query that tied streams ties them no more, or the other way round: groups part and merge."""
        able = [line for line in shape.lines if line.kind in ("ask", "look")]
        if not able:
            return None
        chosen = self._chance.choice(able)
        other = replace(chosen, kind="look" if chosen.kind == "ask" else "ask")
        return replace(shape, lines=tuple(other if line is chosen else line for line in shape.lines))

    def _evolved(self, shape: Shape) -> Shape | None:
        """A state is counted otherwise from now on, and keeps what it holds."""
        able = [line for line in shape.lines if line.kind == "count"]
        if not able:
            return None
        chosen = self._chance.choice(able)
        how = "sum" if chosen.how == "count" else "count"
        other = replace(chosen, how=how, was=chosen.how)
        return replace(shape, lines=tuple(other if line is chosen else line for line in shape.lines))


def filled(shape: Shape, dice: Random, before: Shape | None = None) -> Shape:
    """The program in which new states begin with a content, by chance."""
    there = () if before is None else before.states
    lines = []
    for line in shape.lines:
        new = line.kind == "count" and line.name not in there
        lines.append(replace(line, filled=dice.random() < 0.5) if new else line)
    return replace(shape, lines=tuple(lines))


def _plain(shape: Shape) -> Shape:
    """The program that says nothing of former names."""
    return replace(shape, streams=tuple(replace(stream, formerly="?") for stream in shape.streams))


def _said(shape: Shape) -> Shape:
    """The program that says of former names what may stay in the code: nothing of a stream that is new, nor of a name
    that another stream has."""
    here = {stream.name for stream in shape.streams}
    kept = [
        stream if stream.formerly not in {None, *here} else replace(stream, formerly="?") for stream in shape.streams
    ]
    return replace(shape, streams=tuple(kept))


def _sources(shape: Shape, now: Shape | None = None) -> dict[str, str]:
    """Where the tuples of its streams come from; `now`: of those that this program has too, as they do there."""
    here = {} if now is None else {stream.token: stream.source for stream in now.streams}
    return {stream.token: here.get(stream.token, stream.source) for stream in shape.streams}


_CHANGES: dict[str, Any] = {
    "stream renamed": Changes._rename,
    "stream added": Changes._add,
    "stream removed": Changes._remove,
    "stream put back": Changes._back,
    "merged": Changes._merge,
    "split": Changes._split,
    "another source": Changes._source,
    "lines swapped": Changes._swap,
    "another schema": Changes._schema,
    "another aggregator": Changes._how,
    "line added": Changes._line_added,
    "line removed": Changes._line_removed,
    "line put back": Changes._line_back,
    "output renamed": Changes._output_renamed,
    "rolled back": Changes._rolled_back,
    "stream moved": Changes._moved,
    "query loosened": Changes._loosened,
    "state evolves": Changes._evolved,
}
_WEIGHTS = (3, 3, 8, 6, 5, 4, 2, 8, 2, 1, 3, 6, 3, 2, 8, 4, 3, 0)


def groups_of(shape: Shape) -> Iterator[frozenset[str]]:
    """The streams that share txids, by their tokens: connected by a line, or by a state that is asked
    as of the batch before."""
    parts = [{stream.token} for stream in shape.streams]
    written = {line.name: line.streams for line in shape.lines}
    for line in shape.lines:
        tied = {*line.streams, *(() if line.kind == "look" else written.get(line.asked, ()))}
        together = [part for part in parts if part & tied]
        parts = [part for part in parts if not part & tied] + [set[str]().union(*together)]
    yield from (frozenset(part) for part in parts if part)
