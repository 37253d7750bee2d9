"""A topology as text: its steps, the batch groups and stages that run them, its states and their guarantees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trident.base.change_kinds import CHANGE
from trident.base.spark_types import ddl
from trident.operations.error_policy import DeadLetter
from trident.plan.guarantee import guarantee_of
from trident.plan.nodes import (
    HeldState,
    LettersOf,
    Node,
    RequestSource,
    StateQuery,
    StateWriter,
    StaticState,
    asked_by,
    sources_of,
    walk,
)
from trident.plan.parallelism_hints import Hints
from trident.plan.partitions import keeps_partitions, partition_counts
from trident.plan.split_schema import shown_streams, streams_of
from trident.plan.state_schema import keys_of
from trident.plan.traits import summary_of
from trident_state.store import Sharing

_WIDEST = 60


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about a whole topology that its nodes do not hold.

    `answers` maps the id of a node to the DRPC function that it answers, `runners` the id of a node to its runner.
    `writers` maps the id of a step to the writers of its state, a key of `_WRITERS`; without an entry the factory
    decides. `why_driver` maps the id of a step that updates or queries a state to the reason why the driver always does
    it, although executors could reach the state. `stages` are the lines about batch groups and stages, ready to be
    printed. `hints` take the place of the program's numbers of partitions.
    """

    answers: Mapping[int, str] = field(default_factory=dict)
    runners: Mapping[int, str] = field(default_factory=dict)
    writers: Mapping[int, str] = field(default_factory=dict)
    why_driver: Mapping[int, str] = field(default_factory=dict)
    stages: Sequence[str] = ()
    hints: Hints = field(default_factory=dict)


def explain_nodes(roots: Sequence[Node], known: Known | None = None) -> str:
    """Return a topology as text: `roots` and the steps that lead to them, by stream; the stages; then the states."""
    nodes, known = walk(*roots), known or Known()
    partitions = _partitions(nodes, known.hints)
    lines: list[str] = []
    for label, steps in _by_stream(nodes).items():
        lines += [_headline(label, steps[0]), *_steps(steps, known, partitions)]
    lines += known.stages
    written = [node for node in nodes if isinstance(node, StateWriter)]
    queried = [state for node in nodes for state in asked_by(node)]
    states = list(dict.fromkeys([*written, *queried]))
    if states:
        lines.append("states")
        for node in states:
            lines += _state(node, known)
    return "\n".join(lines)


def fields_of(node: Node) -> str:
    """Return the output fields of a step as text; for a step with several named streams, the fields of each."""
    streams = streams_of(node)
    return shown_streams(streams) if streams else ddl(node.schema)


def _partitions(nodes: Sequence[Node], hints: Hints) -> dict[int, str]:
    """Return a note on the number of partitions for each step that changes it, by the id of the step."""
    counts, notes = partition_counts(nodes, hints=hints), {}
    for node in nodes:
        count = counts[id(node)]
        if count is not None and not (
            keeps_partitions(node) and {counts[id(source)] for source in sources_of(node)} == {count}
        ):
            notes[id(node)] = f"in {count} partition{'s' if count > 1 else ''}"
    return notes


def policy_of(node: Node) -> str:
    """Return a step's treatment of tuples on which its function fails; "" if the batch fails."""
    policy = getattr(node, "onError", None)
    if policy == "skip":
        return "skips what fails"
    if isinstance(policy, DeadLetter):
        after = f" after {policy.attempts} attempt{'s' if policy.attempts > 1 else ''}" if policy.attempts else ""
        return f"dead letters{after}"
    return f"dead letters of {node.source.step.partition(':')[0]}" if isinstance(node, LettersOf) else ""


def carries_changes(node: Node) -> bool:
    """Return whether the tuples that leave a step have a kind of change."""
    return node.schema.names[-1:] == [CHANGE]


def _by_stream(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    streams: dict[str, list[Node]] = {}
    for node in nodes:
        streams.setdefault(node.step.rpartition("/")[0] if "/" in node.step else node.step, []).append(node)
    return streams


def _headline(label: str, first: Node) -> str:
    if isinstance(first, RequestSource):
        return f"DRPC function {first.function}({ddl(first.schema)})"
    return f"stream {label}"


_WRITERS = {
    "executors": "the executors",
    "auto": "the executors if the result is in files, else the driver",
    "refused": "the executors, which only Spark has; a start on this engine is refused",
}
"""The writers of a state in words, by the `writers` of its factory; no entry means the driver, as usual."""


_READERS = {
    "executors": "; the executors read it",
    "auto": "; the executors may read it for a large batch, else the driver",
}
"""The readers of a static state in words, by the `writers` of its factory; without an entry the driver reads it."""


def _steps(steps: Sequence[Node], known: Known, partitions: Mapping[int, str]) -> list[str]:
    width = min(_WIDEST, max(len(step.step) for step in steps))
    fields = min(_WIDEST, max(len(fields_of(step)) for step in steps))
    lines = []
    before: Node | None = None
    for step in steps:
        notes = [known.runners.get(id(step), ""), summary_of(step), policy_of(step), partitions.get(id(step), "")]
        if carries_changes(step):
            notes.append("changes")
        if isinstance(step, StateQuery) and id(step) in known.why_driver:
            notes.append(f"the driver asks: {known.why_driver[id(step)]}")
        if sources_of(step) and sources_of(step) != (before,):
            notes.append("<- " + ", ".join(_short(source) for source in sources_of(step)))
        if id(step) in known.answers:
            notes.append("is the answer")
        line = f"  {step.step:<{width}}  {fields_of(step):<{fields}}  {'; '.join(note for note in notes if note)}"
        lines.append(line.rstrip())
        before = step
    return lines


def _short(node: Node) -> str:
    """Return a step's stream and number, such as "words/2"."""
    return node.step.partition(":")[0]


def _state(node: HeldState, known: Known) -> list[str]:
    keys = ddl(keys_of(node))
    value = ddl(node.schema).removeprefix(keys).removeprefix(", ")
    factory = node.state.factory
    chosen = known.writers.get(id(node), factory.writers if isinstance(factory, Sharing) else "driver")
    if isinstance(node, StaticState):
        writer = f"topology {node.writer} writes it" if node.writer else "no topology writes it"
        readers = _READERS.get(chosen)
        return [
            f"  {node.state.name}: static, {node.state.factory!r}; ({keys}) -> {value}",
            f"    only read: {writer}{readers or ''}",
        ]
    guarantee = guarantee_of(node)
    durability = {
        "process": "ends with the process",
        "checkpoint": "survives with a checkpointLocation",
        "server": "survives in its store",
    }[node.state.factory.survives]
    writers = _WRITERS.get(chosen)
    if (why := known.why_driver.get(id(node))) is not None:
        writers = f"the driver ({why})"
    return [
        f"  {guarantee.state}: {guarantee.kind.value}, {guarantee.store}; ({keys}) -> {value}",
        *([f"    written by: {writers}"] if writers else []),
        f"    promised: {guarantee}; {durability}",
        f"    from: {guarantee.origin}",
        *([f"    not compared: {guarantee.trusted}"] if guarantee.trusted else []),
        f"    Trident: {guarantee.trident}",
    ]
