"""The writer of pictures as inline SVG, for notebooks. It needs no other program, and the SVG holds no script."""

import zlib
from html import escape

from trident.picture.layout import HEAD, LINE, PAD_Y, PictureLayout, Rectangle, lay_out, shortened_label
from trident.picture.paths import path_of
from trident.picture.picture import Arrow, Box, Picture

_FONT = "ui-sans-serif, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_INK, _SOFT, _FRAME, _ARROW, _READ = "#1f2933", "#52606d", "#d5dce4", "#7b8794", "#0b7285"
_COLOURS = {
    "source": ("#e7f5ff", "#4dabf7"),
    "step": ("#ffffff", "#adb5bd"),
    "effect": ("#fff9db", "#fab005"),
    "aggregate": ("#f3f0ff", "#9775fa"),
    "state": ("#e6fcf5", "#12b886"),
    "query": ("#e3fafc", "#22b8cf"),
    "meeting": ("#fff0f6", "#f06595"),
}


def svg(drawn: Picture) -> str:
    """Return the picture as one SVG element."""
    layout = lay_out(drawn)
    mark = f"t{zlib.crc32(repr(drawn).encode()):08x}"  # unique: the pictures on a page share all ids
    width, height = round(layout.width), round(layout.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'style="max-width:100%;height:auto" role="img" font-family="{escape(_FONT)}" font-size="11.5" fill="{_INK}">',
        f"<title>{escape(', '.join(cluster.title for cluster in drawn.clusters))}</title>",
        _markers(mark),
        f'<rect width="{width}" height="{height}" rx="10" fill="#ffffff"/>',
    ]
    for cluster in drawn.clusters:
        parts.append(_cluster(layout.clusters[cluster.id], cluster.title))
    for at, arrow in enumerate(drawn.arrows):
        parts.append(_arrow(at, arrow, layout, mark))
    parts += [_box(box, layout.boxes[box.id]) for box in drawn.boxes]
    return "\n".join([*parts, "</svg>"])


def _markers(mark: str) -> str:
    heads = [
        f'<marker id="{mark}{name}" viewBox="0 0 8 8" refX="7.2" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0,0.6 L7.4,4 L0,7.4 z" fill="{colour}"/></marker>'
        for name, colour in (("a", _ARROW), ("r", _READ))
    ]
    return f"<defs>{''.join(heads)}</defs>"


def _cluster(frame: Rectangle, title: str) -> str:
    return (
        f'<rect x="{frame.x:g}" y="{frame.y:g}" width="{frame.width:g}" height="{frame.height:g}" rx="8" '
        f'fill="#f8fafc" stroke="{_FRAME}"/>'
        f'<text x="{frame.x + 12:g}" y="{frame.y + HEAD - 9:g}" fill="{_SOFT}" font-size="11">{escape(title)}</text>'
    )


def _box(box: Box, frame: Rectangle) -> str:
    fill, stroke = _COLOURS[box.kind]
    x, y, width, height = frame.x, frame.y, frame.width, frame.height
    if box.kind == "state":
        shape = _cylinder(x, y, width, height, fill, stroke)
    else:
        corner = height / 2 if box.kind == "source" else 6
        shape = (
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{min(corner, 20):g}" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="1.2"/>'
        )
    top = y + PAD_Y + LINE * 0.72 + (8 if box.kind == "state" else 0)
    texts = [f'<text x="{frame.middle:g}" y="{top:g}" font-weight="600">{escape(shortened_label(box.title))}</text>']
    for at, line in enumerate(box.lines, 1):
        y_of = top + LINE * at
        texts.append(f'<text x="{frame.middle:g}" y="{y_of:g}" fill="{_SOFT}">{escape(shortened_label(line))}</text>')
    full = "\n".join([box.hint, *(line for line in (box.title, *box.lines) if shortened_label(line) != line)])
    return f'<g text-anchor="middle"><title>{escape(full)}</title>{shape}{"".join(texts)}</g>'


def _cylinder(x: float, y: float, width: float, height: float, fill: str, stroke: str) -> str:
    cap, paint = 7.0, f'fill="{fill}" stroke="{stroke}" stroke-width="1.2"'
    half = width / 2
    return (
        f'<path d="M{x:g},{y + cap:g} v{height - 2 * cap:g} a{half:g},{cap:g} 0 0 0 {width:g},0 '
        f'v{2 * cap - height:g}" {paint}/>'
        f'<ellipse cx="{x + half:g}" cy="{y + cap:g}" rx="{half:g}" ry="{cap:g}" {paint}/>'
    )


def _arrow(at: int, arrow: Arrow, layout: PictureLayout, mark: str) -> str:
    path, points = path_of(at, arrow, layout)
    colour, head = (_READ, "r") if arrow.dashed else (_ARROW, "a")
    dashes = ' stroke-dasharray="5 4"' if arrow.dashed else ""
    drawn = (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.3"{dashes} marker-end="url(#{mark}{head})"/>'
    )
    if not arrow.label:
        return drawn
    (x, y), left = points[-1], points[-1][0] < points[0][0]
    side = "end" if left else "start"
    position = f'x="{x - 6 if left else x + 6:g}" y="{y - 10:g}" text-anchor="{side}"'
    return drawn + f'<text {position} fill="{_SOFT}" font-size="10">{escape(arrow.label)}</text>'
