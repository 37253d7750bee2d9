"""Notice at a start that the steps between a state and what is built on it are others than before.

A state that takes rows away must lose each row as it got it. If a filter between the changes of a table and an
aggregate of them changes, the aggregate keeps rows that the new filter drops, and loses rows that it never got. The log
keeps the rows that each state and output is made of, as its last program derived them (`trident.plan.readings`). A
start compares them. It refuses what makes a state wrong, and warns of what may.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from trident.base.attempt import Lease
from trident.base.code_digest import same_code
from trident.base.errors import CodeChangedError, LogCorruptError, TopologyError
from trident.base.names import did_you_mean
from trident.compiler.program import Program
from trident.configuration.settings import Settings
from trident.log.group_records import History
from trident.log.protocol import Birth, LogReading, OutputProgress, TransactionLog
from trident.operations.references import has_index_name
from trident.plan.derived_rows import STREAM
from trident.plan.nodes import Sink, StateWriter
from trident.plan.readings import Reading, ReadRows, reading_of
from trident.recovery.state_places import OF_PLACE, places_of

OF_STATE, OF_OUTPUT = "state ", "output "
"""The beginnings of the names of records in the log."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """A difference between the rows that a state or an output was made of, and those of this program.

    `certain`: whether rows that came before do not fit those that come. `field`: the value that it is about.
    """

    text: str
    certain: bool
    field: str = ""


def check_accepted(program: Program, settings: Settings) -> None:
    """Raise TopologyError if `acceptSteps` names a state that the program lacks."""
    states = [node.state.name for group in program.groups for node in group.states]
    for name in settings.acceptSteps or ():
        if name not in states:
            raise TopologyError(f"acceptSteps: the topology has no state {name!r}{did_you_mean(name, states)}")


def check_steps(
    program: Program,
    births: Mapping[str, Birth],
    histories: Mapping[str, History],
    log: LogReading,
    settings: Settings,
) -> None:
    """Raise CodeChangedError if a state would lose other rows than it got, because steps before it have changed."""
    for state, found in _changed_states(program, births, histories, log):
        certain = [each.text for each in found if each.certain]
        if certain and state.state.name not in (settings.acceptSteps or ()):
            raise _refused(state, certain, settings)


def changed_steps(
    program: Program,
    births: Mapping[str, Birth],
    histories: Mapping[str, History],
    outputs: Mapping[str, OutputProgress],
    log: LogReading,
) -> Iterator[str]:
    """Yield a warning for each state and output whose rows may not fit those that come. `outputs` is their progress."""
    for state, found in _changed_states(program, births, histories, log):
        yield (
            f"state {state.state.name!r} {_joined(found)}. {_consequence(state)} If the results are the same, nothing "
            f"is to be done; this is said once"
        )
    known = _known(log)
    for sink in _sinks(program):
        now, was = reading_of(sink), known.get(OF_OUTPUT + sink.name)
        if now is None or was is None or not outputs.get(sink.name, OutputProgress()).last:
            continue
        if found := _differences(was, now, births, histories):
            yield (
                f"output {sink.name!r} {_joined(found)}. Rows that are there and do not come any more stay there: "
                f"delete them, or give the output another place and another name=. This is said once"
            )


def states_behind(log: LogReading) -> dict[str, set[str]]:
    """Return the states that each state was made of in the program before. States of earlier logs are not known."""
    states = {name.removeprefix(OF_STATE): of for name, of in _known(log).items() if name.startswith(OF_STATE)}
    return {name: {each for rows in reading.rows for each in rows.states} for name, reading in states.items()}


def keep_steps(program: Program, log: TransactionLog, lease: Lease) -> None:
    """Record the rows that the states and outputs of a program are made of, and the places of states in tables."""
    before = log.readings()
    steps = {OF_STATE + node.state.name: reading_of(node) for group in program.groups for node in group.states}
    steps |= {OF_OUTPUT + sink.name: reading_of(sink) for sink in _sinks(program)}
    now = {name: msgspec.json.encode(reading) for name, reading in steps.items() if reading is not None}
    moved = {OF_PLACE + node.state.name for group in program.groups for node in group.states}
    kept = {name: body for name, body in before.items() if name not in moved} | now | places_of(program)
    if kept != before:
        log.keep_readings(lease, kept)


def _sinks(program: Program) -> list[Sink]:
    return [output.step for group in program.groups for output in group.sinks if isinstance(output.step, Sink)]


def _known(log: LogReading) -> dict[str, Reading]:
    try:
        rows = {name: body for name, body in log.readings().items() if not name.startswith(OF_PLACE)}
        return {name: msgspec.json.decode(body, type=Reading) for name, body in rows.items()}
    except msgspec.DecodeError as error:
        raise LogCorruptError(f"the log is damaged: the record of changed steps cannot be read: {error}") from error


def _changed_states(
    program: Program, births: Mapping[str, Birth], histories: Mapping[str, History], log: LogReading
) -> Iterator[tuple[StateWriter, list[_Difference]]]:
    """Yield each state with rows whose steps differ from those of the program before."""
    known = _known(log)
    for node in (node for group in program.groups for node in group.states):
        was = known.get(OF_STATE + node.state.name)
        if was is None or not _has_rows(node.state.name, births, histories):
            continue
        now = reading_of(node)
        if now is not None and (found := _differences(was, now, births, histories) + _of_streams(was, now, log)):
            yield node, found


def _has_rows(state: str, births: Mapping[str, Birth], histories: Mapping[str, History]) -> bool:
    """Return whether a state may have rows of earlier batches."""
    birth = births.get(state)
    if birth is None or not birth.founded:
        return False
    history = histories.get(birth.group)
    return bool(birth.filled) or (history is not None and birth.txid < history.last_frozen)


def _consequence(node: StateWriter) -> str:
    reading = reading_of(node)
    kind = "tuples" if reading is None else reading.kind
    return {
        "changes": "Rows that came are taken away as the new steps give them; if these differ, the difference stays.",
        "rows": "Rows that came stay as they are until their keys come again.",
        "tuples": "The values of earlier batches stay as they are.",
    }[kind]


# --- differences ------------------------------------------------------------------------------------------------------


def _differences(
    was: Reading, now: Reading, births: Mapping[str, Birth], histories: Mapping[str, History]
) -> list[_Difference]:
    if was.kind != now.kind:
        return []  # another kind of state, whose stored shape is checked
    matched = _Matched.of(was, now)
    if was.kind == "tuples":
        return [each for one, other in matched.pairs for each in _of_inputs(one, other)]
    found = [each for one, other in matched.pairs for each in _of_rows(one, other, was.kind)]
    with_rows = {state for rows in matched.added for state in rows.states if _has_rows(state, births, histories)}
    added = [rows.origin for rows in matched.added if with_rows.intersection(rows.states)]
    found += _of_ways(matched, was.kind == "changes")
    return found + _of_origins(added, [rows.origin for rows in matched.gone if rows.origin != STREAM])


@dataclass(frozen=True, slots=True)
class _Matched:
    """The rows of two programs: those of equal origins in pairs, and those that only one of the programs has."""

    pairs: Sequence[tuple[ReadRows, ReadRows]]
    gone: Sequence[ReadRows]
    added: Sequence[ReadRows]

    @classmethod
    def of(cls, was: Reading, now: Reading) -> "_Matched":
        """Match rows. Several may have one origin, so rows whose steps are equal come together first."""
        pairs, gone, added = list[tuple[ReadRows, ReadRows]](), [*was.rows], [*now.rows]
        for key in (_text, _origin):
            for one in [*gone]:
                other = next((rows for rows in added if key(rows) == key(one)), None)
                if other is not None:
                    pairs.append((one, other))
                    gone.remove(one)
                    added.remove(other)
        return cls(pairs, gone, added)


def _of_ways(matched: _Matched, certain: bool) -> list[_Difference]:
    """Return the differences of ways from a known stream: a merge of its branches has one more, or one less."""
    known = {one.stream for one, _ in matched.pairs if one.origin == STREAM} - {""}
    return [
        _Difference(f"gets {_passing(rows.conditions)} of stream {rows.stream!r} on one way {way}", certain)
        for way, ways in (("more", matched.added), ("less", matched.gone))
        for rows in ways
        if rows.stream in known
    ]


def _origin(rows: ReadRows) -> object:
    return rows.origin


def _text(rows: ReadRows) -> object:
    return rows.origin, rows.conditions, rows.keys, rows.values


def _of_origins(added: Sequence[str], gone: Sequence[str]) -> list[_Difference]:
    """Return the difference of origins: those that have rows and were none before, and those that are none any more."""
    if added:
        before = f", and was made of {' and '.join(gone)}" if gone else " too"
        return [_Difference(f"is now made of {' and '.join(added)}{before}", True)]
    if gone:
        return [_Difference(f"is not made of {' and '.join(gone)} any more, whose rows stay in it", False)]
    return []


def _of_streams(was: Reading, now: Reading, log: LogReading) -> list[_Difference]:
    """Return the difference of streams that have had tuples, and whose changes did not reach the state before.

    A stream that was renamed has its former name in the log, so it is none of them.
    """
    before = {rows.stream for rows in was.rows if rows.origin == STREAM}
    if now.kind == "tuples" or now.kind != was.kind or "" in before:  # records of before have no names of streams
        return []
    known = log.members().streams
    names = dict.fromkeys(rows.stream for rows in now.rows if rows.stream not in {"", *before})
    older = [name for name in names if name in known and known[name].position is not None]
    certain = now.kind == "changes"
    return [_Difference(f"is now made of stream {name!r} too, which has had tuples", certain) for name in older]


def _of_rows(one: ReadRows, other: ReadRows, kind: str) -> list[_Difference]:
    """Return the differences of rows of one origin that are taken away again."""
    certain = not {*one.has} - {*other.has}  # otherwise fields of the source may only have other names now
    found = list[_Difference]()
    if one.conditions != other.conditions:
        text = f"gets {_passing(other.conditions)}, and got {_passing(one.conditions)}"
        found.append(_Difference(text, certain))
    for name in one.keys.keys() & other.keys.keys():
        if one.keys[name] != other.keys[name]:
            text = f"has {other.keys[name]} as its key {name!r}, and had {one.keys[name]}"
            found.append(_Difference(text, certain))
    found += _of_values(one, other, certain and kind == "changes")
    if not found and (names := _other_code(one, other)):
        found.append(_Difference(f"has another function {names}", False))
    return found


def _of_inputs(one: ReadRows, other: ReadRows) -> list[_Difference]:
    """Return the differences of aggregates of tuples that are never taken away: other fields of the same source."""
    if {*one.has} - {*other.has}:
        return []  # fields of the source may only have other names now
    changed = {name for name, inputs in one.inputs.items() if other.inputs.get(name, inputs) != inputs}
    return [each for each in _of_values(one, other, False) if each.field in changed]


def _of_values(one: ReadRows, other: ReadRows, certain: bool) -> list[_Difference]:
    return [
        _Difference(
            f"makes {name!r} of {other.values[name] or 'rows'}, and made it of {value or 'rows'}", certain, name
        )
        for name, value in one.values.items()
        if other.values.get(name, value) != value
    ]


def _other_code(one: ReadRows, other: ReadRows) -> str:
    """Return the places of users' functions whose code differs, in words; "" if there are none."""
    names = [
        name
        for name in one.codes.keys() & other.codes.keys()
        if not all(same_code(a, b) for a, b in zip(one.codes[name], other.codes[name], strict=False))
    ]
    return " and ".join(f"for {name!r}" if name else "that decides which rows come" for name in sorted(names))


def _passing(conditions: Sequence[str]) -> str:
    return f"the rows that pass {' and '.join(conditions)}" if conditions else "all rows"


# --- messages ---------------------------------------------------------------------------------------------------------


def _joined(found: Sequence[_Difference]) -> str:
    return "; it ".join(each.text for each in found)


def _refused(node: StateWriter, found: Sequence[str], settings: Settings) -> CodeChangedError:
    name = node.state.name
    return CodeChangedError(
        f"{node.step} ({node.site.location}): state {name!r} {'; it '.join(found)}. The state would keep rows that it "
        f"does not get any more, and lose rows that it never got. Restore the step; or, with the changed step, give "
        f"the state another name= and {_beginning(node)}; or, if the rows are the same, start once with "
        f"acceptSteps=[{name!r}]; or {settings.way_out}. Nothing was written"
    )


def _beginning(node: StateWriter) -> str:
    """Return the option with which a new state gets what the present one would have."""
    reading = reading_of(node)
    states = sorted({state for rows in reading.rows for state in rows.states} if reading is not None else ())
    if (table := next((state for state in states if has_index_name(node.state.name, state)), None)) is not None:
        return f"backfill=True, by giving both to state {table!r}, whose index it is"
    if not states:
        return "backfill=True"
    return f"its values as of now, initialState=, computed from an export of {' and '.join(map(repr, states))}"
