"""The paths of arrows, in the language of SVG: down through the layers of a cluster, or across to another cluster."""

from trident.picture.layout import PictureLayout, Rectangle
from trident.picture.picture import Arrow

Points = list[tuple[float, float]]


def path_of(at: int, arrow: Arrow, layout: PictureLayout) -> tuple[str, Points]:
    """Return the path of arrow number `at`, and its points."""
    if at in layout.routes:
        points = layout.routes[at]
        return _down(points), points
    points = _ends(layout.boxes[arrow.source], layout.boxes[arrow.target])
    return _across(*points), points


def _down(points: Points) -> str:
    """Return a smooth path from top to bottom: straight through every layer, bent between two layers."""
    path = f"M{points[0][0]:g},{points[0][1]:g}"
    for at in range(1, len(points)):
        (x1, y1), (x2, y2) = points[at - 1], points[at]
        between = at % 2 == 1
        bend = (y1 + y2) / 2
        path += f" C{x1:g},{bend:g} {x2:g},{bend:g} {x2:g},{y2:g}" if between and x1 != x2 else f" L{x2:g},{y2:g}"
    return path


def _ends(source: Rectangle, target: Rectangle) -> Points:
    """Return the two ends of a path between boxes in two columns: on the sides of the boxes that face each other."""
    right = target.middle > source.middle
    out, into = (source.x + source.width, target.x) if right else (source.x, target.x + target.width)
    return [(out, source.y + source.height / 2), (into, target.y + target.height / 2)]


def _across(begin: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a smooth path between boxes in two columns. It leaves and enters the boxes at their sides."""
    (x1, y1), (x2, y2) = begin, end
    pull = max(40.0, abs(x2 - x1) / 2) * (1 if x2 > x1 else -1)
    return f"M{x1:g},{y1:g} C{x1 + pull:g},{y1:g} {x2 - pull:g},{y2:g} {x2:g},{y2:g}"
