"""Notice at a start that steps between a state and the outputs that are built on it have changed.

A state that retracts rows must retract each row exactly as it was added. If a filter between the changes of a table
and their aggregate changes, the aggregate keeps rows that the new filter drops, and retracts rows that were never
added. The log keeps the rows that each state and output is made of, as its last program derived them
(`trident.plan.rows_read`). A start compares them. It refuses a change that makes a state wrong, and warns of one that
may.

A join by time keeps tuples that wait for tuples of the other side. If a stream is on the other side now, it would be
joined with its earlier tuples.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from trident.base.attempt import Lease
from trident.base.code_digest import same_code
from trident.base.errors import CodeChangedError, LogCorruptError, TopologyError
from trident.base.names import did_you_mean
from trident.compiler.program import Program
from trident.configuration.settings import Settings
from trident.log.group_records import History
from trident.log.protocol import Birth, LogReading, OutputProgress, TransactionLog
from trident.operations.table_indexes import has_index_name
from trident.plan.nodes import SIDES, Sink, StateWriter, TimeJoin
from trident.plan.row_derivation import STREAM
from trident.plan.rows_read import Reading, ReadRows, reading_of
from trident.recovery.state_locations import OF_PLACE, places_of

OF_STATE, OF_OUTPUT = "state ", "output "
"""The beginnings of the names of records in the log."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """A difference between the rows that fed a state or an output, and those of this program.

    `certain`: whether earlier rows certainly do not fit later ones. `field`: the value that it concerns.
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
    """Raise CodeChangedError if changed steps would make a state retract rows other than those that were added."""
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
    """Yield a warning for each state and output whose rows may not fit later ones. `outputs` is their progress."""
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
    """Return the states that fed each state in the previous program. States of earlier logs are not known."""
    states = {name.removeprefix(OF_STATE): of for name, of in _known(log).items() if name.startswith(OF_STATE)}
    return {name: {each for rows in reading.rows for each in rows.states} for name, reading in states.items()}


def outputs_of_changes(log: LogReading) -> dict[str, set[str]]:
    """Return the outputs that keep the rows of states and get only the changes of the rows, each with these states."""
    outputs = {name.removeprefix(OF_OUTPUT): of for name, of in _known(log).items() if name.startswith(OF_OUTPUT)}
    of_states = {name: {each for rows in of.rows for each in rows.states} for name, of in outputs.items()}
    return {name: states for name, states in of_states.items() if states}


def keep_steps(program: Program, log: TransactionLog, lease: Lease) -> None:
    """Record the rows that feed the states and outputs of a program, and the locations of states in tables."""
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
    """Yield each state with rows whose steps differ from those of the previous program."""
    known = _known(log)
    for node in (node for group in program.groups for node in group.states):
        was = known.get(OF_STATE + node.state.name)
        if was is None or not _has_rows(node.state.name, births, histories):
            continue
        now = reading_of(node)
        if now is None or now.kind != was.kind:
            continue  # another kind of state, whose stored shape is checked
        found = _differences(was, now, births, histories) + _of_streams(was, now, log)
        if now.kind == "sides":
            found += _of_sides(was, _with_names_of_before(now, was, program, log))
        if found:
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
        "sides": "The tuples that wait stay on the side to which they came, under their keys.",
    }[kind]


# --- differences ------------------------------------------------------------------------------------------------------


def _differences(
    was: Reading, now: Reading, births: Mapping[str, Birth], histories: Mapping[str, History]
) -> list[_Difference]:
    matched = _Matched.of(was, now)
    of_pair = {"tuples": _of_inputs, "sides": _of_keys}.get(was.kind)
    if of_pair is not None:
        return [each for one, other in matched.pairs for each in of_pair(one, other)]
    found = [each for one, other in matched.pairs for each in _of_rows(one, other, was.kind)]
    with_rows = {state for rows in matched.added for state in rows.states if _has_rows(state, births, histories)}
    added = [rows.origin for rows in matched.added if with_rows.intersection(rows.states)]
    found += _of_ways(matched, was.kind == "changes")
    return found + _of_origins(added, [rows.origin for rows in matched.gone if rows.origin != STREAM])


@dataclass(frozen=True, slots=True)
class _Matched:
    """The rows of two programs: pairs with equal origins, and those that only one of the programs has."""

    pairs: Sequence[tuple[ReadRows, ReadRows]]
    gone: Sequence[ReadRows]
    added: Sequence[ReadRows]

    @classmethod
    def of(cls, was: Reading, now: Reading) -> "_Matched":
        """Match rows. Several may have one origin, so rows with equal steps are paired first."""
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
    """Return the differences in the paths from a known stream: a merge of its branches has one more, or one less."""
    known = {one.stream for one, _ in matched.pairs if one.origin == STREAM} - {""}
    return [
        _Difference(f"gets {_passing(rows.conditions)} of stream {rows.stream!r} on one way {way}", certain)
        for way, ways in (("more", matched.added), ("less", matched.gone))
        for rows in ways
        if rows.stream in known
    ]


def _origin(rows: ReadRows) -> object:
    return rows.origin, rows.side


def _text(rows: ReadRows) -> object:
    return rows.origin, rows.side, rows.conditions, rows.keys, rows.values


def _of_origins(added: Sequence[str], gone: Sequence[str]) -> list[_Difference]:
    """Return the difference of origins: those that feed rows now but did not before, and those that no longer do."""
    if added:
        before = f", and was made of {' and '.join(dict.fromkeys(gone))}" if gone else " too"
        return [_Difference(f"is now made of {' and '.join(dict.fromkeys(added))}{before}", True)]
    if gone:
        return [
            _Difference(f"is not made of {' and '.join(dict.fromkeys(gone))} any more, whose rows stay in it", False)
        ]
    return []


def _of_streams(was: Reading, now: Reading, log: LogReading) -> list[_Difference]:
    """Return the difference of streams that had tuples whose changes did not reach the state before.

    A stream that was renamed has its former name in the log, so it is none of them.
    """
    before = {rows.stream for rows in was.rows if rows.origin == STREAM}
    if now.kind in ("tuples", "sides") or "" in before:  # earlier records have no names of streams
        return []
    known = log.members().streams
    names = dict.fromkeys(rows.stream for rows in now.rows if rows.stream not in {"", *before})
    older = [name for name in names if name in known and known[name].position is not None]
    certain = now.kind == "changes"
    return [_Difference(f"is now made of stream {name!r} too, which has had tuples", certain) for name in older]


def _of_rows(one: ReadRows, other: ReadRows, kind: str) -> list[_Difference]:
    """Return the differences of rows of one origin that may be retracted."""
    certain = _same_names(one, other)
    found = list[_Difference]()
    if one.conditions != other.conditions:
        text = f"gets {_passing(other.conditions)}, and got {_passing(one.conditions)}"
        found.append(_Difference(text, certain))
    found += _of_keys(one, other)
    found += _of_values(one, other, certain and kind == "changes")
    if not found and (names := _other_code(one, other)):
        found.append(_Difference(f"has another function {names}", False))
    return found


def _same_names(one: ReadRows, other: ReadRows) -> bool:
    """Return whether the source still has each field. Otherwise the fields may only have been renamed."""
    return not {*one.has} - {*other.has}


def _of_keys(one: ReadRows, other: ReadRows) -> list[_Difference]:
    return _of_other_keys(one, other, one.keys.keys() & other.keys.keys(), _same_names(one, other))


def _of_other_keys(one: ReadRows, other: ReadRows, names: Collection[str], certain: bool) -> list[_Difference]:
    side = f" of the {one.side} side" if one.side else ""
    return [
        _Difference(f"has {other.keys[name]} as its key {name!r}{side}, and had {one.keys[name]}", certain)
        for name in one.keys
        if name in names and one.keys[name] != other.keys[name]
    ]


def _of_inputs(one: ReadRows, other: ReadRows) -> list[_Difference]:
    """Return the differences of aggregates of tuples that are never retracted: other fields of the same source.

    A key that is computed may be the same after another computation; one that is a field is that of the other field.
    """
    if not _same_names(one, other):
        return []
    fields = {name for name, key in one.keys.items() if {key, other.keys.get(name, "")} <= {*other.has}}
    changed = {name for name, inputs in one.inputs.items() if other.inputs.get(name, inputs) != inputs}
    found = _of_other_keys(one, other, fields, False)
    return found + [each for each in _of_values(one, other, False) if each.field in changed]


def _of_values(one: ReadRows, other: ReadRows, certain: bool) -> list[_Difference]:
    return [
        _Difference(
            f"makes {name!r} of {other.values[name] or 'rows'}, and made it of {value or 'rows'}", certain, name
        )
        for name, value in one.values.items()
        if other.values.get(name, value) != value
    ]


def _other_code(one: ReadRows, other: ReadRows) -> str:
    """Return the locations of users' functions whose code differs, in words; "" if there are none."""
    names = [
        name
        for name in one.codes.keys() & other.codes.keys()
        if not all(same_code(a, b) for a, b in zip(one.codes[name], other.codes[name], strict=False))
    ]
    return " and ".join(f"for {name!r}" if name else "that decides which rows come" for name in sorted(names))


def _passing(conditions: Sequence[str]) -> str:
    return f"the rows that pass {' and '.join(conditions)}" if conditions else "all rows"


# --- joins by time ----------------------------------------------------------------------------------------------------


def _of_sides(was: Reading, now: Reading) -> list[_Difference]:
    """Return a difference for the rows that were on only one side and are now only on the other.

    Rows are known by their streams and states. If these are on both sides, as in a join of two branches of one stream,
    rows are known by all that their steps do.
    """
    for known_by in (_sources, _branch):
        before, after = _by_side(was, known_by), _by_side(now, known_by)
        found = [
            _Difference(f"has {_described(rows)} on its {side} side, and had that on its {other} side", True)
            for side, other in (SIDES, SIDES[::-1])
            for each, rows in after[side].items()
            if each in before[other] and each not in before[side] and each not in after[other]
        ]
        if found:
            return found
    return []


def _by_side(reading: Reading, known_by: Callable[[ReadRows], Hashable]) -> dict[str, dict[Hashable, ReadRows]]:
    return {side: {known_by(rows): rows for rows in reading.rows if rows.side == side} for side in SIDES}


def _sources(rows: ReadRows) -> Hashable:
    return rows.states, rows.above


def _branch(rows: ReadRows) -> Hashable:
    values, codes = sorted(rows.values.items()), sorted(rows.codes.items())
    return rows.origin, _sources(rows), rows.conditions, tuple(values), tuple(codes)


def _described(rows: ReadRows) -> str:
    streams = [f"stream {name!r}" for name in rows.above]
    source = " and ".join(streams) if streams and not rows.states else rows.origin
    return f"{_passing(rows.conditions)} of {source}" if rows.conditions else source


def _with_names_of_before(now: Reading, was: Reading, program: Program, log: LogReading) -> Reading:
    """Return the rows of this program with the names that their streams have in the previous program's record."""
    before = {stream for rows in was.rows for stream in rows.above}
    spouts = {spout.stream: spout for group in program.groups for spout in group.spouts}
    known, names = log.members().streams, dict[str, str]()
    for name, spout in spouts.items():
        former = [*(known[name].former if name in known else ()), spout.formerly or ""]
        older = [each for each in former if each in before and each not in spouts]
        names[name] = older[-1] if older and name not in before else name
    rows = [replace(each, above=tuple(sorted(names.get(name, name) for name in each.above))) for each in now.rows]
    return Reading(now.kind, tuple(rows))


# --- messages ---------------------------------------------------------------------------------------------------------


def _joined(found: Sequence[_Difference]) -> str:
    return "; it ".join(each.text for each in found)


def _refused(node: StateWriter, found: Sequence[str], settings: Settings) -> CodeChangedError:
    name = node.state.name
    if isinstance(node, TimeJoin):
        return CodeChangedError(
            f"{node.step} ({node.site.location}): state {name!r} {'; it '.join(found)}. The tuples that wait in it "
            f"would be joined with wrong ones. Restore the step; or, with the changed step, give the state another "
            f"name= or drop it with {settings.drop(name, node.state.factory.survives)}, so that it begins without "
            f"them; or, if the sides and keys are as before, start once with acceptSteps=[{name!r}]; or "
            f"{settings.way_out}. Nothing was written"
        )
    return CodeChangedError(
        f"{node.step} ({node.site.location}): state {name!r} {'; it '.join(found)}. The state would keep rows that no "
        f"longer arrive, and retract rows that it never received. Restore the step; or, with the changed step, "
        f"{_beginning(node, settings)}; or, if the rows are the same, start once with acceptSteps=[{name!r}]; or "
        f"{settings.way_out}. Nothing was written"
    )


def _beginning(node: StateWriter, settings: Settings) -> str:
    """Return the call or the options that give a new state the rows that the present one would have."""
    name, reading = node.state.name, reading_of(node)
    states = sorted({state for rows in reading.rows for state in rows.states} if reading is not None else ())
    if (table := next((state for state in states if has_index_name(name, state)), None)) is not None:
        dropped = settings.drop(name, node.state.factory.survives)
        return f"drop the index with {dropped}, so that the next start makes it from the rows of state {table!r}"
    if not states:
        return "give the state another name= and backfill=True"
    exported = " and ".join(map(repr, states))
    return (
        f"give the state another name= and its values as of now, initialState=, computed from an export of {exported}"
    )
