"""A record of the notebook cell that defined each step, so that a cell that runs again can replace its steps."""

from collections.abc import Iterable, Mapping

from trident.base.notebook import CellRun, current_run
from trident.plan.nodes import Node, RequestSource, Sink, SpoutSource, StateWriter, StaticState


class DefiningCells:
    """The notebook cells that defined the steps of one register. Outside a notebook it stays empty."""

    def __init__(self) -> None:
        self._runs: dict[Node, CellRun] = {}
        self._replaced: set[Node] = set()

    def record(self, node: Node) -> None:
        """Record that the cell being executed has defined `node`."""
        run = current_run()
        if run is not None:
            self._runs[node] = run

    def outdated(self) -> list[Node]:
        """Return the steps that were defined by earlier runs of the cell being executed."""
        now = current_run() if self._runs else None
        if now is None:
            return []
        return [node for node, run in self._runs.items() if run.cell == now.cell and run.request != now.request]

    def run_of(self, node: Node) -> CellRun | None:
        """Return the run that defined a step; None if it was not defined in a cell."""
        return self._runs.get(node)

    def way_to_replace(self, node: Node) -> str:
        """Return the end of a message: how to replace a step that another cell defined; "" for all other steps."""
        run, now = self._runs.get(node), current_run()
        if run is None or now is None or run.cell == now.cell:
            return ""
        return f"; to replace it, edit and run {run}, or run the cell that makes the TridentTopology"

    def replace(self, nodes: Iterable[Node]) -> None:
        """Record that these steps were removed because a cell ran again."""
        for node in nodes:
            self._runs.pop(node, None)
            self._replaced.add(node)

    def has_replaced(self, node: Node) -> bool:
        """Return whether a step was removed because a cell ran again."""
        return node in self._replaced


def note_of(own: Iterable[Node], others: Mapping[Node, CellRun | None]) -> str:
    """Return a note for the user about steps that were removed; "" if the cell only had steps without a name.

    `own`: the steps that the cell itself had defined. `others`: steps that were built on them, with their cells' runs.
    The note lists each of these cells: by its named steps, or by the label of its first step.
    """
    mine = [name for node in own if (name := _name(node))]
    theirs, shown = list[str](), {run for node, run in others.items() if _name(node)}
    for node, run in others.items():
        if _name(node) or run not in shown:
            theirs.append(f"{_name(node) or node.step} ({run or 'no cell'})")
            shown.add(run)
    lines = [f"This cell ran before. It replaces: {', '.join(mine)}."] if mine else []
    if theirs:
        lines.append(f"Removed, because they were built on these: {', '.join(theirs)}. Run their cells again.")
    return " ".join(lines)


def _name(node: Node) -> str:
    """Return the kind and the name of a named step, such as ``stream 'words'``; "" for a step without a name."""
    if isinstance(node, SpoutSource):
        return f"stream {node.stream!r}"
    if isinstance(node, RequestSource):
        return f"function {node.function!r}"
    if isinstance(node, StateWriter | StaticState):
        return f"state {node.state.name!r}"
    return f"output {node.name!r}" if isinstance(node, Sink) else ""
