"""The check at a start that no state or output outlives the log, because only the log records their batches."""

from trident.base.errors import TopologyError
from trident.compiler.program import Program
from trident.configuration.settings import Settings
from trident.plan.nodes import Sink
from trident.plan.sinks import sink_traits


def check_lasting(program: Program, settings: Settings) -> None:
    """Raise TopologyError for a state or an output that would outlive the log, or end before the log does.

    Only the log records which batches such a state or output has.
    """
    if settings.lasting:
        return
    logged = settings.log is not None
    for group in program.groups:
        for sink in (output.step for output in group.sinks if isinstance(output.step, Sink)):
            place = sink_traits(sink).place(sink)
            if place and not logged:
                raise TopologyError(
                    f"output {sink.name!r} ({place}) outlives this process, so its batches must be in a log: give "
                    f"start(..., checkpointLocation=...) or log=RedisLog(...)"
                )
        for step in group.states:
            name, factory = step.state.name, step.state.factory
            if factory.survives == "server" and not logged:
                raise TopologyError(
                    f"state {name!r} ({factory!r}) outlives this process, so its batches must be in a log: give "
                    f"start(..., checkpointLocation=...) or log=RedisLog(...)"
                )
            if factory.survives != "server" and logged and settings.objects is None:
                raise TopologyError(
                    f"state {name!r} ({factory!r}) is in this process's memory, and the log in Redis outlives it: "
                    f"give start(..., filesLocation=...) or checkpointLocation=... too, for the state's snapshots"
                )
