"""The display of streams, states and topologies: as text by explain, as a picture by draw and in notebooks."""

from collections.abc import Sequence
from typing import Any

from trident.picture import draw
from trident.picture.explain import explain_nodes
from trident.plan.nodes import Node
from trident.stream.checked_calls import CheckedCalls


class Drawable(CheckedCalls):
    """An object that can be explained and drawn, without a JVM or another program."""

    __slots__ = ()

    def _ends(self) -> Sequence[Node]:
        """Return the last steps of this stream, state or topology."""
        raise NotImplementedError

    def explain(self) -> None:
        """Print the steps before this object, stream by stream, with the guarantee of each of their states."""
        print(explain_nodes(self._ends()))

    def draw(self, format: str = "svg") -> str:
        """Return a picture of the steps before this object, as "svg", "mermaid", "dot" or "json"."""
        return draw.write(draw.picture(self._ends()), format)

    def _repr_svg_(self) -> str:
        return self.draw("svg")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        svg = self.draw("svg")
        return {"text/plain": repr(self), "text/html": draw.as_html(svg), "image/svg+xml": svg}
