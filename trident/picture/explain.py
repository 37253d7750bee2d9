"""A topology as text: its steps, the batch groups and stages they run in, its states and what is promised for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trident.base.types import ddl
from trident.operations.error_policy import DeadLetter
from trident.plan.guarantee import guarantee_of
from trident.plan.nodes import (
    HeldState,
    LettersOf,
    Node,
    RequestSource,
    Split,
    StateQuery,
    StateWriter,
    StaticState,
    sources_of,
    walk,
)
from trident.plan.partitions import keeps_partitions, partition_counts
from trident.plan.split_schema import shown_streams
from trident.plan.state_schema import keys_of
from trident.plan.traits import summary_of

_WIDEST = 60


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a whole topology beside its steps. By a node's id: the DRPC function whose answer it gives, and
    who runs it. `stages` are lines as they are printed."""

    answers: Mapping[int, str] = field(default_factory=dict)
    runners: Mapping[int, str] = field(default_factory=dict)
    stages: Sequence[str] = ()


def explain_nodes(roots: Sequence[Node], known: Known | None = None) -> str:
    """The steps below these nodes, stream by stream; then the stages; then the states."""
    nodes, known = walk(*roots), known or Known()
    partitions = _partitions(nodes)
    lines: list[str] = []
    for label, steps in _by_stream(nodes).items():
        lines += [_headline(label, steps[0]), *_steps(steps, known, partitions)]
    lines += known.stages
    updated = [node for node in nodes if isinstance(node, StateWriter)]
    asked = [node.updated for node in nodes if isinstance(node, StateQuery)]
    states = list(dict.fromkeys([*updated, *asked]))
    if states:
        lines.append("states")
        for node in states:
            lines += _state(node)
    return "\n".join(lines)


def fields_of(node: Node) -> str:
    """The fields that leave a step; of a split those of each stream."""
    return shown_streams(node) if isinstance(node, Split) else ddl(node.schema)


def _partitions(nodes: Sequence[Node]) -> dict[int, str]:
    """How many partitions there are, where a step makes that another number than before it."""
    counts, found = partition_counts(nodes), {}
    for node in nodes:
        count = counts[id(node)]
        if count is not None and not (
            keeps_partitions(node) and {counts[id(source)] for source in sources_of(node)} == {count}
        ):
            found[id(node)] = f"in {count} partition{'s' if count > 1 else ''}"
    return found


def policy_of(node: Node) -> str:
    """What becomes of tuples on which a step's function fails."""
    policy = getattr(node, "onError", None)
    if policy == "skip":
        return "skips what fails"
    if isinstance(policy, DeadLetter):
        after = f" after {policy.attempts} attempt{'s' if policy.attempts > 1 else ''}" if policy.attempts else ""
        return f"dead letters{after}"
    return f"dead letters of {node.source.step.partition(':')[0]}" if isinstance(node, LettersOf) else ""


def _by_stream(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.step.rpartition("/")[0] if "/" in node.step else node.step, []).append(node)
    return found


def _headline(label: str, first: Node) -> str:
    if isinstance(first, RequestSource):
        return f"DRPC function {first.function}({ddl(first.schema)})"
    return f"stream {label}"


def _steps(steps: Sequence[Node], known: Known, partitions: Mapping[int, str]) -> list[str]:
    width = min(_WIDEST, max(len(step.step) for step in steps))
    fields = min(_WIDEST, max(len(fields_of(step)) for step in steps))
    lines = []
    before: Node | None = None
    for step in steps:
        notes = [known.runners.get(id(step), ""), summary_of(step), policy_of(step), partitions.get(id(step), "")]
        if sources_of(step) and sources_of(step) != (before,):
            notes.append("<- " + ", ".join(_short(source) for source in sources_of(step)))
        if id(step) in known.answers:
            notes.append("is the answer")
        line = f"  {step.step:<{width}}  {fields_of(step):<{fields}}  {'; '.join(note for note in notes if note)}"
        lines.append(line.rstrip())
        before = step
    return lines


def _short(node: Node) -> str:
    """A step's stream and number."""
    return node.step.partition(":")[0]


def _state(node: HeldState) -> list[str]:
    keys = ddl(keys_of(node))
    value = ddl(node.schema).removeprefix(keys).removeprefix(", ")
    if isinstance(node, StaticState):
        where = f"topology {node.writer} writes it" if node.writer else "nobody writes it"
        return [f"  {node.state.name}: static, {node.state.factory!r}; ({keys}) -> {value}", f"    only read: {where}"]
    guarantee = guarantee_of(node)
    spouts = ", ".join(f"{stream} ({kind.value})" for stream, kind in guarantee.spouts)
    lasts = {
        "process": "ends with the process",
        "checkpoint": "survives with a checkpointLocation",
        "server": "survives in its store",
    }[node.state.factory.survives]
    return [
        f"  {guarantee.state}: {guarantee.kind.value}, {guarantee.store}; ({keys}) -> {value}",
        f"    promised: {guarantee}; {lasts}",
        f"    from: {spouts}",
        f"    Trident: {guarantee.trident}",
    ]
