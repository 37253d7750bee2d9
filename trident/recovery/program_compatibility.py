"""The decision whether a program may commit the batches that an earlier start froze.

Only this module decides it. The program may differ from the program that froze a batch: in the code of functions, in
the order of its lines, in a state that was dropped afterwards, and in an output that was removed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trident.base.errors import CodeChangedError
from trident.compiler.outline import Outline, Part, Step
from trident.compiler.program import Group, Program
from trident.compiler.step_descriptions import frozen_in_words
from trident.configuration.settings import Settings
from trident.log.group_records import History
from trident.log.protocol import Birth, TransactionLog
from trident.plan.nodes import LettersOf
from trident.plan.watermark_names import without_watermarks

Names = Mapping[str, str]
"""For each output of the program that froze a batch, its name in this program. Removed outputs are left out."""


def match_waiting_batches(
    program: Program,
    histories: Mapping[str, History],
    log: TransactionLog,
    births: Mapping[str, Birth],
    settings: Settings,
) -> dict[str, dict[int, Names]]:
    """Return, for each group and each waiting batch, the names that the batch's outputs have in this program.

    Raises CodeChangedError if a batch was frozen by a program that does not match this program.
    """
    present = {lead for group in program.groups for part in group.outline.parts for lead in part.leads}
    return {
        group.name: {txid: _names(group, txid, present, log, births, settings) for txid in histories[group.name].frozen}
        for group in program.groups
    }


def _names(
    group: Group, txid: int, present: set[str], log: TransactionLog, births: Mapping[str, Birth], settings: Settings
) -> Names:
    """Return the names that one batch's outputs have in this program.

    `present`: the states and outputs of the whole program, because an output that moved to another group was not
    removed.
    """
    record = log.batch(group.name, txid)
    then = Outline.decode(record.outline) if record is not None and record.outline else Outline((), ())
    leads = [lead for part in then.parts for lead in part.leads]
    states = {lead.removeprefix("state ") for lead in leads if lead.startswith("state ")}
    dropped = {name for name in states if name not in births or births[name].txid >= txid}
    gone = {lead for lead in leads if lead.startswith("output ") and lead not in present}
    gone |= {f"state {name}" for name in dropped}
    match = _Match.of(then, group.outline, gone)
    if match.differs is None:
        _check_returned(group, txid, then, gone, log)
        return match.names
    kept, drop = sorted(states - dropped), _Drop(log, settings)
    missing = [lead for lead in (f"state {name}" for name in kept) if lead not in present]
    ways = [f"Start the previous program once, which commits the batch, then this one. {drop.for_former(kept)}"]
    if missing and _Match.of(then, group.outline, {*gone, *missing}).differs is None:
        ways.append(f"Or drop the states that this program lacks, then start this program: {drop.all_of(missing)}")
    raise CodeChangedError(
        f"batch {txid} of group {group.name!r} is frozen but not committed, and another program froze it: "
        f"{match.differs}. Nothing was written. {'. '.join([*ways, f'Or {settings.way_out}'])}"
    )


def _check_returned(group: Group, txid: int, then: Outline, gone: set[str], log: TransactionLog) -> None:
    """Raise CodeChangedError if a later stage lacks the rows of an output of this program.

    A program without the output has frozen that stage, and crashed before it committed the batch. The rows cannot be
    computed any more, because the states may hold the batch already.
    """
    for stage in group.stages[1:]:
        frozen = log.frozen(group.name, txid, stage.number)
        parts = [part for part in then.parts if part.stage == stage.number and set(part.leads) - gone]
        for part in parts:
            # A stage without dead letters freezes none of them.
            if frozen is not None and part.name not in frozen and not part.name.endswith(LettersOf.ending):
                raise CodeChangedError(
                    f"batch {txid} of group {group.name!r} waits for its commit, and a program without "
                    f"{' and '.join(sorted(set(part.leads) - gone))} froze its stage {stage.number}, so that the batch "
                    f"has no rows for it. Nothing was written. Start that program once more, which commits the batch "
                    f"without these rows, then this one"
                )


@dataclass(frozen=True, slots=True)
class _Drop:
    """The calls that drop states, in words for messages."""

    log: TransactionLog
    settings: Settings

    def for_former(self, kept: Sequence[str]) -> str:
        """Return the advice for the case that the former program fails at a state or an output.

        The user must drop that state or remove that output; then the former program can commit the batch.
        """
        states = without_watermarks(kept)
        drops = [self._one(state) for state in states[:3]] + (["..."] if len(states) > 3 else [])
        ways = [f"drop the state on which it fails ({' or '.join(drops)})"] if drops else []
        ways.append("remove the output on which it fails")
        return f"If it can no longer commit, first {', or '.join(ways)}"

    def all_of(self, leads: Iterable[str]) -> str:
        return " and ".join(map(self._one, without_watermarks([lead.removeprefix("state ") for lead in leads])))

    def _one(self, state: str) -> str:
        """Return the call that drops one state.

        The call needs no force=True, because a refused start holds no lease.
        """
        return self.settings.drop(state, "checkpoint" if self.log.manifest(state) else "server")


# --- matching parts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Match:
    """The result of comparing two outlines.

    `names`: for each output of the first outline, its name in the second. `differs`: the first difference, in
    words; None if the outlines match.
    """

    names: Names
    differs: str | None

    @staticmethod
    def of(then: Outline, now: Outline, gone: set[str]) -> "_Match":
        """Compare two outlines.

        `gone`: the states and outputs that may be missing in the second outline. A part that leads only to these may be
        left over on either side.
        """
        names = dict[str, str]()
        positions = _by_graph_position(now.parts, gone)
        for position, parts in _by_graph_position(then.parts, gone).items():
            names |= _paired(parts, positions.get(position, []))
        for part in then.parts:
            if part.name not in names and set(part.leads) - gone:
                return _Match(names, _differs(then, part, now, gone))
        matched = set(names.values())
        for part in now.parts:
            if part.name not in matched and set(part.leads) - gone:
                return _Match(names, f"this program also has {_described(now, part)}")
        return _Match(names, None)


def _by_graph_position(parts: Sequence[Part], gone: set[str]) -> dict[tuple[object, ...], list[Part]]:
    """Return the parts by their position in the graph.

    Two parts have the same position if they are in branches of equal form.
    """
    alike: dict[tuple[object, ...], list[Part]] = defaultdict(list)
    for part in parts:
        alike[part.stage, part.schema, part.shape, frozenset(set(part.leads) - gone)].append(part)
    return dict(alike)


def _paired(then: Sequence[Part], now: Sequence[Part]) -> dict[str, str]:
    """Return the name in `now` of each part of `then`. All parts are at one position of the graph.

    If each side has only one part, both are the same part, even if its functions have changed. If there are several,
    two are the same part if their branches have the same names. If several parts have the same names, at least one is
    left unpaired.
    """
    if len(then) == len(now) == 1:
        return {then[0].name: now[0].name}
    was, is_ = ({part.branch: part.name for part in parts} for parts in (then, now))
    return {was[branch]: is_[branch] for branch in was.keys() & is_.keys()}


# --- messages --------------------------------------------------------------------------------------------------------


def _differs(then: Outline, part: Part, now: Outline, gone: set[str]) -> str:
    """Return in words how this program differs from the frozen program in `part`."""
    froze = f"it froze {_described(then, part)}"
    if twins := _by_graph_position(now.parts, gone).get(next(iter(_by_graph_position([part], gone)))):
        branches = " and ".join(sorted("/".join(twin.branch) for twin in twins))
        return (
            f"{froze} in the branch {'/'.join(part.branch)}, but in this program the branches with these steps are "
            f"{branches}: give the branches their previous names, or restore the outputs that distinguished them"
        )
    other = next((candidate for candidate in now.parts if candidate.name == part.name), None)
    if other is None:
        return f"{froze}, but this program has none with that name"
    differences = []
    if part.stage != other.stage:
        differences.append(f"it was computed in stage {part.stage}, and is now computed in stage {other.stage}")
    if part.schema != other.schema:
        differences.append(f"its fields are now {other.schema}")
    if set(part.leads) - gone != set(other.leads) - gone:
        differences.append(f"it now leads to {_leads(other)}")
    if part.shape != other.shape:
        differences.append(_other_steps(then.above(part), now.above(other)))
    return f"{froze}, but it is different in this program: {', and '.join(differences)}"


def _other_steps(then: Sequence[Step], now: Sequence[Step]) -> str:
    """Return in words how the steps before an output differ between the program that froze the batch and this one."""
    lost, new = [step.shape for step in then], [step.shape for step in now]
    for shape in list(lost):  # a multiset difference: a shape may occur several times
        if shape in new:
            lost.remove(shape)
            new.remove(shape)
    if not lost and not new:
        return "the steps before it now have another order or other fields"
    if lost and new:
        return f"of the steps before it, {_listed(lost)} became {_listed(new)}"
    return f"the steps before it {'now include' if new else 'no longer include'} {_listed(new or lost)}"


def _listed(shapes: Sequence[str]) -> str:
    shown = [*shapes[:3], *(["..."] if len(shapes) > 3 else [])]
    return " and ".join(f"`{shape}`" if shape != "..." else shape for shape in shown)


def _described(outline: Outline, part: Part) -> str:
    words = frozen_in_words(part.name)
    named = f"state {part.name!r}" if words == part.name else words
    return f"{named} ({part.schema}; {outline.above(part)[-1].name}; it leads to {_leads(part)})"


def _leads(part: Part) -> str:
    return ", ".join(part.leads) or "nothing"
