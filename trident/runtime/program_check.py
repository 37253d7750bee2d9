"""Whether the program that starts is the one that froze the batches which wait to be committed.

The one place where this is decided. What may differ: the code of functions, the order of lines, a state that was
dropped, an output that was removed.
"""

from collections.abc import Mapping, Sequence

from trident.base.errors import CodeChangedError
from trident.compiler.outline import Outline, Part
from trident.compiler.program import Group, Program
from trident.runtime.coordinator import History
from trident.runtime.log import Birth, TransactionLog

Names = Mapping[str, str]
"""An output's name in this program, by its name in the program that froze a batch; without those that are gone."""


def waiting_names(
    program: Program,
    histories: Mapping[str, History],
    log: TransactionLog,
    births: Mapping[str, Birth],
    way_out: str,
) -> dict[str, dict[int, Names]]:
    """Return, by group and waiting batch, which output of this program each output of the batch is.

    Raises CodeChangedError where another program froze one of them.
    """
    there = {lead for group in program.groups for part in group.outline.parts for lead in part.leads}
    return {
        group.name: {txid: _names(group, txid, there, log, births, way_out) for txid in histories[group.name].frozen}
        for group in program.groups
    }


def _names(
    group: Group, txid: int, there: set[str], log: TransactionLog, births: Mapping[str, Birth], way_out: str
) -> Names:
    """`there`: the states and outputs of the whole program. An output that is in another group now is not removed."""
    record = log.batch(group.name, txid)
    then = Outline.decode(record.outline).parts if record is not None and record.outline else ()
    if then == group.outline.parts:
        return {part.name: part.name for part in then}
    gone = {lead for part in then for lead in part.leads if lead.startswith("output ") and lead not in there}
    gone |= {f"state {name}" for name in _states(then) if name not in births or births[name].txid >= txid}
    names, left = dict[str, str](), list(group.outline.parts)
    for part in then:
        found = [other for other in left if _same(part, other, gone)]
        if len(found) > 1:
            found = [other for other in found if other.code == part.code]
        if len(found) == 1:
            names[part.name] = found[0].name
            left.remove(found[0])
        elif set(part.leads) - gone:
            other = next((each for each in left if each.name == part.name), None)
            here = "nothing of that name" if other is None else _told(other)
            raise _changed(group, txid, f"it froze {_told(part)}, and this program has {here}", way_out)
    for part in left:
        if set(part.leads) - gone:
            raise _changed(group, txid, f"this program has {_told(part)} beside what it froze", way_out)
    return names


def _states(parts: Sequence[Part]) -> set[str]:
    return {lead.removeprefix("state ") for part in parts for lead in part.leads if lead.startswith("state ")}


def _same(part: Part, other: Part, gone: set[str]) -> bool:
    alike = (part.stage, part.schema, part.shape) == (other.stage, other.schema, other.shape)
    return alike and set(part.leads) - gone == set(other.leads) - gone


def _told(part: Part) -> str:
    return f"{part.name!r} ({part.schema}; it leads to {', '.join(part.leads) or 'nothing'})"


def _changed(group: Group, txid: int, what: str, way_out: str) -> CodeChangedError:
    return CodeChangedError(
        f"batch {txid} of group {group.name!r} is frozen and not committed, and another program froze it: {what}. "
        f"Nothing was written. Start the former program once, so that the batch commits, then this one. Where it "
        f"cannot commit any more: a state that stands in its way begins anew with dropState(...), an output that does "
        f"may be removed; or {way_out}"
    )
