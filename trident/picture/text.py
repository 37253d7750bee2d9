"""The writers of pictures as text for other programs: mermaid, dot, JSON."""

import json
from dataclasses import asdict
from typing import Any

from trident.picture.layout import PictureLayout, lay_out
from trident.picture.paths import path_of
from trident.picture.picture import Arrow, Box, Picture

_MERMAID = {"source": ('(["', '"])'), "state": ('[("', '")]'), "query": ('[/"', '"/]'), "meeting": ('{{"', '"}}')}
_DOT = {"source": "oval", "state": "cylinder", "query": "parallelogram", "meeting": "hexagon"}


def mermaid(drawn: Picture) -> str:
    """Return the picture as a mermaid flowchart."""
    lines = ["flowchart TD"]
    for cluster in drawn.clusters:
        lines.append(f'  subgraph {cluster.id} ["{_mermaid_text(cluster.title)}"]')
        lines += [f"    {_mermaid_box(box)}" for box in drawn.boxes if box.cluster == cluster.id]
        lines.append("  end")
    for arrow in drawn.arrows:
        shaft = "-.->" if arrow.dashed else "-->"
        label = f'|"{_mermaid_text(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {arrow.source} {shaft}{label} {arrow.target}")
    return "\n".join(lines) + "\n"


def dot(drawn: Picture) -> str:
    """Return the picture in the language of Graphviz."""
    lines = ["digraph topology {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    for cluster in drawn.clusters:
        lines += [f"  subgraph cluster_{cluster.id} {{", f"    label={_quoted(cluster.title)};"]
        for box in drawn.boxes:
            if box.cluster == cluster.id:
                shape = f", shape={_DOT[box.kind]}, style=solid" if box.kind in _DOT else ""
                lines.append(f"    {box.id} [label={_quoted(_text(box))}{shape}];")
        lines.append("  }")
    for arrow in drawn.arrows:
        marks = [f"label={_quoted(arrow.label)}"] if arrow.label else []
        marks += ["style=dashed", "constraint=false"] if arrow.dashed else []
        lines.append(f"  {arrow.source} -> {arrow.target}{_marked(marks)};")
    return "\n".join([*lines, "}"]) + "\n"


def as_json(drawn: Picture) -> str:
    """Return the picture as JSON: boxes, arrows and clusters, each with its position in the layout.

    Boxes and clusters have the corner and size of their rectangles, arrows a `path` in the language of SVG.
    """
    layout = lay_out(drawn)
    content = {
        "width": round(layout.width),
        "height": round(layout.height),
        "boxes": [asdict(box) | asdict(layout.boxes[box.id]) for box in drawn.boxes],
        "arrows": [_arrow(at, arrow, layout) for at, arrow in enumerate(drawn.arrows)],
        "clusters": [asdict(cluster) | asdict(layout.clusters[cluster.id]) for cluster in drawn.clusters],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _arrow(at: int, arrow: Arrow, layout: PictureLayout) -> dict[str, Any]:
    path, points = path_of(at, arrow, layout)
    return asdict(arrow) | {"path": path, "points": points}


def _mermaid_box(box: Box) -> str:
    before, after = _MERMAID.get(box.kind, ('["', '"]'))
    return f"{box.id}{before}{'<br/>'.join(_mermaid_text(line) for line in (box.title, *box.lines))}{after}"


def _mermaid_text(text: str) -> str:
    for char, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("`", "#96;")):
        text = text.replace(char, code)
    return text


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _text(box: Box) -> str:
    return "\n".join((box.title, *box.lines))


def _marked(marks: list[str]) -> str:
    return f" [{', '.join(marks)}]" if marks else ""
