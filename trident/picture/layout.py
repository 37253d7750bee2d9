"""The layout of a picture: boxes in layers from top to bottom, and each cluster in a separate column.

The usual three steps (layers by longest path, an order with few crossings, positions near the neighbours) are kept
simple: a topology has tens of boxes. An arrow over several layers gets a narrow gap (here called a lane) in each layer
between its boxes, so that it runs around other boxes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from trident.picture.picture import Arrow, Box, Picture

CHAR, TITLE_CHAR, LINE, PAD_X, PAD_Y = 6.3, 7.4, 16.0, 12.0, 9.0
GAP_X, GAP_Y, MARGIN, HEAD, COLUMN = 26.0, 34.0, 16.0, 26.0, 48.0
LEAST_WIDTH, WIDEST_CHARS, LANE = 96.0, 46, 14.0
_SWEEPS = 8


@dataclass(slots=True)
class Rectangle:
    """A rectangle. `x` and `y` are the coordinates of its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The x of the rectangle's vertical axis."""
        return self.x + self.width / 2


@dataclass(slots=True)
class PictureLayout:
    """The rectangle of each box and cluster, and the points of each arrow within a cluster."""

    width: float
    height: float
    boxes: dict[str, Rectangle] = field(default_factory=dict)
    clusters: dict[str, Rectangle] = field(default_factory=dict)
    routes: dict[int, list[tuple[float, float]]] = field(default_factory=dict)


def shortened_label(text: str) -> str:
    """Return the text, cut if it is too long for a box."""
    return text if len(text) <= WIDEST_CHARS else text[: WIDEST_CHARS - 1] + "…"


def lay_out(drawn: Picture) -> PictureLayout:
    """Return the layout of a picture. The same picture always has the same layout."""
    layout = PictureLayout(0.0, 0.0)
    x = MARGIN
    for cluster in drawn.clusters:
        column = _Column([box for box in drawn.boxes if box.cluster == cluster.id], drawn.arrows)
        width = max(column.width, len(cluster.title) * TITLE_CHAR) + 2 * MARGIN
        column.write_to(layout, x + (width - column.width) / 2, MARGIN + HEAD)
        layout.clusters[cluster.id] = Rectangle(x, MARGIN, width, column.height + HEAD + MARGIN)
        x += width + COLUMN
    layout.width = max((frame.x + frame.width for frame in layout.clusters.values()), default=0.0) + MARGIN
    layout.height = max((frame.height for frame in layout.clusters.values()), default=0.0) + 2 * MARGIN
    return layout


@dataclass(slots=True)
class _Slot:
    """A position in a layer for a box, or for an arrow that passes through the layer (the arrow's lane)."""

    width: float
    height: float = 0.0
    box: str = ""
    above: list["_Slot"] = field(default_factory=list)
    below: list["_Slot"] = field(default_factory=list)
    x: float = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    def wanted_x(self, down: bool) -> float:
        """Return the x at which the slot is in the middle of its neighbours, of those above if `down`."""
        neighbours = (self.above if down else self.below) or self.above or self.below
        middle = _mean([slot.middle for slot in neighbours])
        return self.x if middle is None else middle - self.width / 2


class _Column:
    """The layout of one cluster, without regard to other clusters."""

    def __init__(self, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> None:
        ids = {box.id for box in boxes}
        self.arrows = [(at, arrow) for at, arrow in enumerate(arrows) if arrow.source in ids and arrow.target in ids]
        self.slots = {box.id: _Slot(*_size(box), box=box.id) for box in boxes}
        layer = self._layers([box.id for box in boxes])
        self.layers: list[list[_Slot]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
        # States come last, to the right: the DRPC functions that read them have their columns there.
        for box in sorted(boxes, key=lambda box: box.kind == "state"):
            self.layers[layer[box.id]].append(self.slots[box.id])
        self.lanes = {at: self._lane(layer, arrow) for at, arrow in self.arrows}
        for sweep in range(_SWEEPS):
            self._order(down=sweep % 2 == 0)
        self._spread()
        self._measure()

    def _measure(self) -> None:
        self.width = max((slot.x + slot.width for row in self.layers for slot in row), default=0.0)
        heights = [max((slot.height for slot in row), default=0.0) for row in self.layers]
        self.tops = [sum(heights[:at]) + GAP_Y * at for at in range(len(heights))]
        self.height = sum(heights) + GAP_Y * max(0, len(heights) - 1)

    def _layers(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the layer of each box, by its id: the length of the longest path from the top down to the box."""
        layer = dict.fromkeys(ids, 0)
        for _ in ids:
            for _, arrow in self.arrows:
                layer[arrow.target] = max(layer[arrow.target], layer[arrow.source] + 1)
        return layer

    def _lane(self, layer: dict[str, int], arrow: Arrow) -> list[_Slot]:
        """Return the slots of an arrow: its two boxes, and a new slot in each layer between them."""
        chain = [self.slots[arrow.source]]
        for row in range(layer[arrow.source] + 1, layer[arrow.target]):
            slot = _Slot(LANE)
            self.layers[row].append(slot)
            chain.append(slot)
        chain.append(self.slots[arrow.target])
        for upper, lower in zip(chain, chain[1:], strict=False):
            upper.below.append(lower)
            lower.above.append(upper)
        return chain

    def _order(self, down: bool) -> None:
        """Sort the slots of each layer by the mean position of their neighbours above (with `down`) or below."""
        for row in self.layers if down else reversed(self.layers):
            position = {id(slot): at for layer in self.layers for at, slot in enumerate(layer)}
            means = {id(slot): _mean([position[id(n)] for n in (slot.above if down else slot.below)]) for slot in row}
            row.sort(key=lambda slot: position[id(slot)] if means[id(slot)] is None else means[id(slot)] or 0.0)

    def _spread(self) -> None:
        """Give every slot an x coordinate near the slots of its arrows, without overlaps."""
        for row in self.layers:
            _pack(row, [0.0] * len(row))
        for sweep in range(2 * _SWEEPS + 1):  # the last sweep runs down, so that a chain of boxes is straight
            down = sweep % 2 == 0
            for row in self.layers if down else reversed(self.layers):
                _pack(row, [slot.wanted_x(down) for slot in row])
        least = min((slot.x for row in self.layers for slot in row), default=0.0)
        for row in self.layers:
            for slot in row:
                slot.x -= least

    def write_to(self, layout: PictureLayout, x: float, y: float) -> None:
        """Write the rectangles and routes into `layout`, with this column's corner at (x, y)."""
        frames: dict[int, Rectangle] = {}
        for top, row in zip(self.tops, self.layers, strict=True):
            tallest = max((slot.height for slot in row), default=0.0)
            for slot in row:
                height = slot.height or tallest
                frames[id(slot)] = Rectangle(x + slot.x, y + top + (tallest - height) / 2, slot.width, height)
                if slot.box:
                    layout.boxes[slot.box] = frames[id(slot)]
        for at, chain in self.lanes.items():
            first, last = frames[id(chain[0])], frames[id(chain[-1])]
            route = [(first.middle, first.y + first.height)]
            for slot in chain[1:-1]:
                lane = frames[id(slot)]
                route += [(lane.middle, lane.y), (lane.middle, lane.y + lane.height)]
            layout.routes[at] = [*route, (last.middle, last.y)]


def _size(box: Box) -> tuple[float, float]:
    longest = max(
        [len(shortened_label(line)) * CHAR for line in box.lines] + [len(shortened_label(box.title)) * TITLE_CHAR]
    )
    cap = 8.0 if box.kind == "state" else 0.0
    return max(LEAST_WIDTH, longest + 2 * PAD_X), (1 + len(box.lines)) * LINE + 2 * PAD_Y + cap


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _pack(row: Sequence[_Slot], wanted: Sequence[float]) -> None:
    """Put slots at the wanted positions, in order. Push neighbours apart evenly if they would overlap."""
    lefts = list(wanted)
    for at in range(1, len(row)):
        lefts[at] = max(lefts[at], lefts[at - 1] + row[at - 1].width + GAP_X)
    rights = list(wanted)
    for at in range(len(row) - 2, -1, -1):
        rights[at] = min(rights[at], rights[at + 1] - row[at].width - GAP_X)
    for slot, left, right in zip(row, lefts, rights, strict=True):
        slot.x = (left + right) / 2
