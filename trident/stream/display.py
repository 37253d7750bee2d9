"""How things show themselves: as text by explain, as a picture by draw and in a notebook's cell."""

from collections.abc import Sequence
from typing import Any

from trident.picture import draw
from trident.picture.explain import explain_nodes
from trident.plan.nodes import Node
from trident.stream.checked_calls import Told


class Shown(Told):
    """What can be explained and drawn. Starts no JVM and no other program."""

    __slots__ = ()

    def _ends(self) -> Sequence[Node]:
        """The last steps of what is to be shown."""
        raise NotImplementedError

    def explain(self) -> None:
        """Print the steps that lead here stream by stream, and the states on the way with what each is promised."""
        print(explain_nodes(self._ends()))

    def draw(self, format: str = "svg") -> str:
        """The steps that lead here as a picture: "svg", "mermaid", "dot" or "json", as text."""
        return draw.write(draw.picture(self._ends()), format)

    def _repr_svg_(self) -> str:
        return self.draw("svg")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "image/svg+xml": self.draw("svg")}
