"""The windows of a group, batch by batch: what a stage made for them, through the steps of the commit turn."""

from typing import Any

import pyarrow as pa

from tests.compiler.window_runner import states_of
from trident.compiler.program import Group
from trident.compiler.state_updates import compile_window
from trident.compiler.windows.types import WindowBatch
from trident.plan.nodes import Watermark, Window


class Windows:
    """They wait in dicts."""

    def __init__(self, group: Group) -> None:
        nodes = [output.step for stage in group.stages for output in stage.updates]
        self._run = {node: compile_window(node) for node in nodes if isinstance(node, Window | Watermark)}
        self._outputs = group.stages[0].outputs if group.stages else ()
        self._states = states_of(group)

    def results(self, txid: int, entered: dict[str, Any]) -> dict[str, pa.Table]:
        """What leaves each window with a batch, by its name."""
        by_step = {id(output.step): entered[output.name] for output in self._outputs}
        found, puts = dict[str, pa.Table](), dict[str, pa.Table]()
        for node, run in self._run.items():
            name = node.state.name
            mark = self._states.get(name if isinstance(node, Watermark) else f"{name}.watermark")
            made = run(by_step[id(node.source)], self._states[name], WindowBatch(txid, lambda: 0.0, mark))
            puts[name] = made.puts
            if isinstance(node, Window):
                assert made.emitted is not None
                found[name] = made.emitted
        for name, table in puts.items():
            self._states[name].put(table)
        return found
