"""Who runs each step of a topology: Spark itself, Python in its workers, or the driver; and what each stage makes."""

from trident.compiler.program import Program, RequestPlan, Stage
from trident.plan.nodes import Emitted, LateTuples, Node, RequestSource, walk
from trident.plan.traits import DRIVER, has_python_form, traits_of

JOB = "a Spark job"


def whereabouts(program: Program) -> dict[int, str]:
    """By the id of each step: "Spark" (Catalyst), "Python" (in Spark's workers), "driver"; in a DRPC function that the
    driver answers "a Spark job" for a step that needs one."""
    found: dict[int, str] = {}
    for group in program.groups:
        for stage in group.stages:
            for node in _nodes(stage):
                found.setdefault(id(node), traits_of(node).runner(node))
    for request in program.requests:
        found.update((id(node), _answerer(node, request)) for node in walk(request.leaf))
    return {at: runner for at, runner in found.items() if runner}


def _nodes(stage: Stage) -> list[Node]:
    ends = [output.step for output in stage.frozen] + [*stage.debugs, *stage.effects]
    return walk(*ends, starts={id(node) for node in stage.inputs})


def _answerer(node: Node, request: RequestPlan) -> str:
    if isinstance(node, RequestSource):
        return ""
    return DRIVER if has_python_form(node) else JOB


def stage_lines(program: Program) -> list[str]:
    """The batch groups, and what each stage of them starts from and makes."""
    lines = []
    for group in program.groups:
        lines.append(f"batch group {group.name}")
        for stage in group.stages:
            starts = ", ".join(node.step.partition(":")[0] for node in stage.reads)
            lines.append(f"  stage {stage.number}: {starts} -> {_ends(stage)}")
    return lines


def _ends(stage: Stage) -> str:
    """What a stage makes; what an updater or a window emits goes without saying."""
    named = [
        frozen_in_words(output.name) for output in stage.frozen if not isinstance(output.step, Emitted | LateTuples)
    ]
    return ", ".join(named) or "no state"


def frozen_in_words(name: str) -> str:
    """What a stage freezes, in words for the marks that its name ends in.

    >>> [frozen_in_words(name) for name in ("counts", "counts|", "lines/1:each(f)|", "hours>late|", "out!")]
    ['counts', 'what enters counts', 'tuples of lines/1', 'what may be late for hours', 'output out']
    >>> frozen_in_words("lines/1:each(int)~"), frozen_in_words("counts?1")
    ('dead letters of lines/1', 'what asks counts')
    """
    if name.endswith(">late|"):
        return f"what may be late for {name.removesuffix('>late|')}"
    step = name[:-1].partition(":")[0]
    if name[-1] == "|":
        return f"tuples of {step}" if ":" in name else f"what enters {step}"
    if name[-1] in "!~":
        return f"output {name[:-1]}" if name[-1] == "!" else f"dead letters of {step}"
    state, asked, number = name.rpartition("?")
    return f"what asks {state}" if asked and number.isdigit() else name
