"""Descriptions for explain and pictures: the engine or thread that runs each step, and the outputs of each stage."""

from collections.abc import Sequence

from trident.compiler.carrier_choice import CarrierPlan, Choice, choice_of_static
from trident.compiler.columns.kernels import in_sql
from trident.compiler.program import Group, Program, Stage
from trident.plan.nodes import Derived, Node, RequestSource, StateQuery, StateUpdate, StaticState, walk
from trident.plan.topology_protocol import EngineName
from trident.plan.traits import DRIVER, NO_RUNNER, PYTHON, SPARK, has_python_form, traits_of

JOB = "a Spark job"
ONLY_SPARK = "only on Spark"


def runners_of_steps(program: Program, engine: EngineName = "spark") -> dict[int, str]:
    """Return the engine or thread that runs each step on this engine, by the step's id.

    On Spark: "Spark" (Catalyst), "Python" (in Spark's workers), "Spark or Python" for a function of the library that
    stays beside its neighbours, or "driver"; in a DRPC function, which the driver
    answers, a step that has no Python form has the runner "a Spark job". On the embedded engine the driver runs all
    steps that it can run; the others have the runner "only on Spark". On ``"auto"`` a step that both engines can run
    has both runners, such as "driver or Spark".
    """
    nodes = [node for group in program.groups for stage in group.stages for node in stage.nodes]
    answering = [node for request in program.requests for node in walk(request.leaf)]
    runners = {id(node): _embedded_runner(node) for node in (*nodes, *answering)}
    if engine != "embedded":
        on_spark = _on_spark(program, nodes)
        either = engine == "auto"
        runners = {at: _either(runners[at], runner) if either else runner for at, runner in on_spark.items()}
        runners |= {id(node): _request_runner(node) for node in answering}
    return {at: runner for at, runner in runners.items() if runner}


def _either(embedded: str, spark: str) -> str:
    return f"{DRIVER} or {spark}" if embedded == DRIVER and spark not in (DRIVER, NO_RUNNER) else spark


def _on_spark(program: Program, nodes: Sequence[Node]) -> dict[int, str]:
    """Return the runner of each step of a batch on Spark, by the step's id."""
    runners = {id(node): traits_of(node).runner(node) for node in nodes}
    writers = writers_of_states(program)
    updates = [node for node in nodes if isinstance(node, StateUpdate) and writers.get(id(node)) == "executors"]
    runners |= {id(node): f"{SPARK} or {PYTHON}" for node in nodes if in_sql(node)}
    return runners | {id(node): PYTHON for node in updates}


def writers_of_states(program: Program, engine: EngineName = "spark") -> dict[int, str]:
    """Return the writers of each state (for a static state: the readers) on this engine, by the id of the state's step.

    A value is "driver", "executors" or "auto"; "refused" on the embedded engine for a state that only executors may
    write.
    """
    chosen = {at: choice.writers for at, choice in _choices(program).items()}
    chosen |= {id(state): choice_of_static(state).writers for state in program.statics}
    if engine == "embedded":
        return {at: "refused" if writers == "executors" else "driver" for at, writers in chosen.items()}
    return chosen


def reasons_of_drivers(program: Program, engine: EngineName = "spark") -> dict[int, str]:
    """Return why the driver does work that executors may do, too, by the id of the step that updates or queries.

    Queries of a static state that was given as entries are left out, because the user cannot move them to executors.
    """
    if engine == "embedded":
        return {}
    reasons = {at: choice.why_driver for at, choice in _choices(program).items() if choice.wanted != choice.writers}
    for group in program.groups:
        for query, choice in CarrierPlan(group).by_query.items():
            if choice.wanted != "driver" and not (isinstance(query.updated, StaticState) and not query.updated.writer):
                reasons[id(query)] = choice.why_driver
    return {at: why for at, why in reasons.items() if why is not None}


def _choices(program: Program) -> dict[int, Choice]:
    """Return the choice of driver or executors for each state, by the id of the step that updates it."""
    return {
        id(step): choices[step.state.name]
        for group in program.groups
        for choices in [CarrierPlan(group).by_state]
        for step in group.states
    }


def _embedded_runner(node: Node) -> str:
    if traits_of(node).runner(node) == NO_RUNNER:
        return NO_RUNNER
    return DRIVER if has_python_form(node) else ONLY_SPARK


def _request_runner(node: Node) -> str:
    if isinstance(node, RequestSource):
        return ""
    return DRIVER if has_python_form(node) else JOB


def stage_lines(program: Program, engine: EngineName = "spark") -> list[str]:
    """Return lines that name the engine, the batch groups, and the inputs and outputs of each of their stages."""
    lines = [f"engine {engine}"] if program.groups else []
    for group in program.groups:
        lines.append(f"batch group {group.name}{_streams_of(group)}")
        for stage in group.stages:
            inputs = ", ".join(node.step.partition(":")[0] for node in stage.reads)
            lines.append(f"  stage {stage.number}: {inputs} -> {_outputs(stage)}")
    return lines


def _streams_of(group: Group) -> str:
    """Return in words the streams of a group and the steps that connect them, if the group has several streams."""
    if len(group.spouts) == 1:
        return ""
    links = "; ".join(_link(node) for node in group.links)
    return f": the streams {', '.join(spout.stream for spout in group.spouts)} share txids, because of {links}"


def _link(node: Node) -> str:
    if isinstance(node, StateQuery):
        return f"{node.step}, which asks state {node.updated.state.name} (asOf='committed' would not connect them)"
    return node.step


def _outputs(stage: Stage) -> str:
    """Return the names of a stage's outputs in words.

    Outputs with the tuples that updaters and windows emit are left out, because they always accompany the output of
    their state.
    """
    shown = [o for o in stage.frozen if not (isinstance(o.step, Derived) and o.step.beside_state)]
    named = [frozen_in_words(output.name) for output in shown]
    return ", ".join(named) or "no state"


def frozen_in_words(name: str) -> str:
    """Return an output's name in words. The mark at its end shows the output's content.

    >>> [frozen_in_words(name) for name in ("counts", "counts|", "lines/1:each(f)|", "hours>late|", "out!")]
    ['counts', 'what enters counts', 'tuples of lines/1', 'what may be late for hours', 'output out']
    >>> frozen_in_words("lines/1:each(int)~"), frozen_in_words("counts?1"), frozen_in_words("counts?1=")
    ('dead letters of lines/1', 'what asks counts', 'answers of counts')
    """
    if name.endswith(">late|"):
        return f"what may be late for {name.removesuffix('>late|')}"
    step = name[:-1].partition(":")[0]
    if name[-1] == "|":
        return f"tuples of {step}" if ":" in name else f"what enters {step}"
    if name[-1] == "=":
        return f"answers of {step.rpartition('?')[0]}"
    if name[-1] in "!~":
        return f"output {name[:-1]}" if name[-1] == "!" else f"dead letters of {step}"
    state, asked, number = name.rpartition("?")
    return f"what asks {state}" if asked and number.isdigit() else name
