"""The program: whether its options fit together, and its sources, states and outputs."""

from collections.abc import Iterable, Iterator

from trident.base.clock import SystemClock
from trident.base.errors import TridentError
from trident.base.finding import Examined, Finding
from trident.compiler.engine_choice import check_engine
from trident.compiler.program import Program
from trident.compiler.stages import cut
from trident.configuration.settings import Settings
from trident.configuration.start_options import OptionValues, checked
from trident.doctor.examination import examined
from trident.doctor.examined_setup import ExaminedSetup
from trident.plan.nodes import Sink
from trident.plan.sinks import sink_traits
from trident.plan.spout_options import with_spout_options
from trident.run.start import check_fit


def program(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for options that contradict each other or do not fit the program."""
    if setup.program is None:
        return
    try:
        values = checked(setup.options)
        plan = with_spout_options(setup.program, values.spouts)
        check_engine(values.engine, None, plan.nodes)
        whole = cut(plan)
        check_fit(plan, whole, Settings.of(values, {}, SystemClock()))
    except TridentError as error:
        todo = "Change the option or the step that the message names; `trident explain` shows steps and guarantees"
        yield Finding(f"the program, started as {setup.name!r}", str(error), "a start is refused", todo)
        return
    yield from _unkept(setup, whole, values)


def parts(setup: ExaminedSetup) -> Iterable[Finding]:
    """Examine each source, state and output of the program that can examine its own environment."""
    seen = set()
    for about, part in parts_of(setup):
        for finding in examined(about, part, setup.now):
            if (finding.about, finding.found) not in seen:
                seen.add((finding.about, finding.found))
                yield finding


def parts_of(setup: ExaminedSetup) -> Iterator[tuple[str, Examined]]:
    """Yield the sources, states and outputs of the program that can examine themselves, each with its name."""
    for node in setup.plan.nodes if setup.plan else ():
        spout, state = getattr(node, "spout", None), getattr(node, "state", None)
        if isinstance(spout, Examined):
            yield f"the spout {spout!r}", spout
        if isinstance(factory := getattr(state, "factory", None), Examined):
            yield f"the state {state.name!r}", factory  # type: ignore[union-attr]
        if isinstance(node, Sink) and isinstance(target := sink_traits(node).target(node), Examined):
            yield f"the output {node.name!r}", target


def _unkept(setup: ExaminedSetup, whole: Program, values: OptionValues) -> Iterator[Finding]:
    """Yield a finding for states that end with the process."""
    if values.checkpointLocation is None and values.log is None and any(group.states for group in whole.groups):
        yield Finding(
            f"the program, started as {setup.name!r}",
            "its start has neither a checkpointLocation nor a log",
            "states and the positions of spouts end with the process: the next start begins from the beginning",
            "Give --checkpoint DIR (TRIDENT_CHECKPOINT, checkpointLocation in trident.toml), or --log-url",
            grave=False,
        )
