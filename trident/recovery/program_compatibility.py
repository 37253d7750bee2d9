"""Whether the program that starts is the one that froze the batches which wait to be committed.

The one place where this is decided. What may differ: the code of functions, the order of lines, a state that was
dropped, an output that was removed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trident.base.errors import CodeChangedError
from trident.compiler.outline import Outline, Part, Step
from trident.compiler.program import Group, Program
from trident.compiler.runners import frozen_in_words
from trident.log.history import History
from trident.log.protocol import Birth, TransactionLog
from trident.recovery.settings import Settings

Names = Mapping[str, str]
"""An output's name in this program, by its name in the program that froze a batch; without those that are gone."""


def waiting_names(
    program: Program,
    histories: Mapping[str, History],
    log: TransactionLog,
    births: Mapping[str, Birth],
    settings: Settings,
) -> dict[str, dict[int, Names]]:
    """Return, by group and waiting batch, which output of this program each output of the batch is.

    Raises CodeChangedError where another program froze one of them.
    """
    there = {lead for group in program.groups for part in group.outline.parts for lead in part.leads}
    return {
        group.name: {txid: _names(group, txid, there, log, births, settings) for txid in histories[group.name].frozen}
        for group in program.groups
    }


def _names(
    group: Group, txid: int, there: set[str], log: TransactionLog, births: Mapping[str, Birth], settings: Settings
) -> Names:
    """`there`: the states and outputs of the whole program. An output that is in another group now is not removed."""
    record = log.batch(group.name, txid)
    then = Outline.decode(record.outline) if record is not None and record.outline else Outline((), ())
    states = {lead.removeprefix("state ") for part in then.parts for lead in part.leads if lead.startswith("state ")}
    dropped = {name for name in states if name not in births or births[name].txid >= txid}
    gone = {lead for part in then.parts for lead in part.leads if lead.startswith("output ") and lead not in there}
    gone |= {f"state {name}" for name in dropped}
    match = _Match.of(then, group.outline, gone)
    if match.differs is None:
        return match.names
    living, drop = sorted(states - dropped), _Drop(log, settings)
    enough = [lead for lead in (f"state {name}" for name in living) if lead not in there]
    ways = [f"Start the former program once, so that the batch commits, then this one. {drop.for_former(living)}"]
    if enough and _Match.of(then, group.outline, {*gone, *enough}).differs is None:
        ways.append(f"Or give up what this program lacks, and start this one then: {drop.all_of(enough)}")
    raise CodeChangedError(
        f"batch {txid} of group {group.name!r} is frozen and not committed, and another program froze it: "
        f"{match.differs}. Nothing was written. {'. '.join([*ways, f'Or {settings.way_out}'])}"
    )


@dataclass(frozen=True, slots=True)
class _Drop:
    """Says how states are dropped."""

    log: TransactionLog
    settings: Settings

    def for_former(self, living: Sequence[str]) -> str:
        """Where the former program itself fails at a state. It commits the batch without one that was dropped."""
        drops = [self._one(state) for state in living[:3]] + (["..."] if len(living) > 3 else [])
        ways = [f"give up the state that it fails at ({' or '.join(drops)})"] if drops else []
        ways.append("remove from it the output that it fails at")
        return f"Where it cannot commit any more, first {', or '.join(ways)}"

    def all_of(self, leads: Iterable[str]) -> str:
        return " and ".join(self._one(lead.removeprefix("state ")) for lead in leads)

    def _one(self, state: str) -> str:
        """What drops a state once this start has given the log back: no driver holds it then."""
        return self.settings.drop(state, "checkpoint" if self.log.manifest(state) else "server")


# --- which part is which ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Match:
    """Two outlines compared: what the outputs of the first one are called in the second, and in words the first thing
    in which they differ, if any."""

    names: Names
    differs: str | None

    @staticmethod
    def of(then: Outline, now: Outline, gone: set[str]) -> "_Match":
        """Compare. `gone`: the states and outputs that need not be there any more; what leads to these alone may be
        left over on both sides."""
        names = dict[str, str]()
        alike_now = _by_place(now.parts, gone)
        for place, parts in _by_place(then.parts, gone).items():
            names |= _paired(parts, alike_now.get(place, []))
        for part in then.parts:
            if part.name not in names and set(part.leads) - gone:
                return _Match(names, _differs(then, part, now, gone))
        matched = set(names.values())
        for part in now.parts:
            if part.name not in matched and set(part.leads) - gone:
                return _Match(names, f"this program has {_told(now, part)} beside what it froze")
        return _Match(names, None)


def _by_place(parts: Sequence[Part], gone: set[str]) -> dict[tuple[object, ...], list[Part]]:
    """Return the parts that the graph alone does not tell apart."""
    alike: dict[tuple[object, ...], list[Part]] = defaultdict(list)
    for part in parts:
        alike[part.stage, part.schema, part.shape, frozenset(set(part.leads) - gone)].append(part)
    return dict(alike)


def _paired(then: Sequence[Part], now: Sequence[Part]) -> dict[str, str]:
    """Pair parts at one place of the graph. One that is alone on both sides is the same one, whatever its functions do
    now. Of several, each is the one that has all that told it from the others in the program that froze."""
    if len(then) == len(now) == 1:
        return {then[0].name: now[0].name}
    names, left = dict[str, str](), list(now)
    differing = {key for part in then for key in part.traits}
    keys = sorted(key for key in differing if len({part.traits.get(key) for part in then}) > 1)
    for part in then:
        found = next((other for other in left if _is(part, other, keys)), None)
        if found is not None:
            names[part.name] = found.name
            left.remove(found)
    return names


def _is(part: Part, other: Part, keys: Sequence[str]) -> bool:
    """Whether both have these traits. Parts that have all in common hold the same tuples, so that any of them will do,
    unless something of them is unknown: then their order tells, as long as the program's text is the same."""
    if any(part.traits.get(key) != other.traits.get(key) for key in keys):
        return False
    return part.text == other.text and (not part.text or part.name == other.name)


# --- in words ---------------------------------------------------------------------------------------------------------


def _differs(then: Outline, part: Part, now: Outline, gone: set[str]) -> str:
    """Say in what a part that was frozen is not there any more."""
    froze = f"it froze {_told(then, part)}"
    twins = _by_place(now.parts, gone).get(next(iter(_by_place([part], gone))), [])
    if twins:
        return f"{froze}, and {_other_traits(then, part, now, twins, gone)}"
    other = next((each for each in now.parts if each.name == part.name), None)
    if other is None:
        return f"{froze}, and this program has no such thing"
    differences = []
    if part.stage != other.stage:
        differences.append(f"it was made in stage {part.stage}, and is made in stage {other.stage} now")
    if part.schema != other.schema:
        differences.append(f"its fields are {other.schema} now")
    if set(part.leads) - gone != set(other.leads) - gone:
        differences.append(f"it leads to {_leads(other)} now")
    if part.shape != other.shape:
        differences.append(_other_steps(then.above(part), now.above(other)))
    return f"{froze}, and this program has it otherwise: {', and '.join(differences)}"


def _other_steps(then: Sequence[Step], now: Sequence[Step]) -> str:
    """Say which steps above differ."""
    lost, new = [step.shape for step in then], [step.shape for step in now]
    for shape in [shape for shape in lost if shape in new]:
        if shape in new:
            lost.remove(shape)
            new.remove(shape)
    if not lost and not new:
        return "the steps above it stand in another order or give other fields now"
    return f"of the steps above it, {_listed(lost)} became {_listed(new)}"


def _listed(shapes: Sequence[str]) -> str:
    shown = [*shapes[:3], *(["..."] if len(shapes) > 3 else [])]
    return " and ".join(f"`{shape}`" if shape != "..." else shape for shape in shown) or "nothing"


def _other_traits(then: Outline, part: Part, now: Outline, twins: Sequence[Part], gone: set[str]) -> str:
    """Say why none of the parts that are alike for the graph is this one."""
    if part.text and any(part.traits == twin.traits for twin in twins):
        return (
            "nothing tells it from another such part of its program but values that are known by their type only; so "
            "only the very same program text may commit it"
        )
    alike = next(iter(_by_place(twins, gone).values()))
    keys = sorted({*part.traits, *(key for twin in alike for key in twin.traits)})
    others = [key for key in keys if part.traits.get(key) not in {twin.traits.get(key) for twin in alike}]
    steps, what = then.above(part), []
    for key in others or keys:
        at, _, trait = key.split(":", 2)
        what.append(f"{trait.replace('code', 'the code', 1)} in {steps[int(at)].name}")
    shown = "; ".join([*what[:3], *(["..."] if len(what) > 3 else [])]) or "their number"
    found = "which no part of this program has as it was" if others else "which go together otherwise now"
    return f"its program had several such parts, told apart by their functions and values alone: {shown}, {found}"


def _told(outline: Outline, part: Part) -> str:
    words = frozen_in_words(part.name)
    named = f"state {part.name!r}" if words == part.name else words
    return f"{named} ({part.schema}; {outline.above(part)[-1].name}; it leads to {_leads(part)})"


def _leads(part: Part) -> str:
    return ", ".join(part.leads) or "nothing"
