"""Pictures of a plan in four formats, drawn in pure Python."""

import re
from collections.abc import Callable

from trident.base.errors import TopologyError
from trident.picture.picture import Picture, picture
from trident.picture.svg import svg
from trident.picture.text import as_json, dot, mermaid

__all__ = ["as_html", "picture", "write"]

_WRITERS: dict[str, Callable[[Picture], str]] = {"svg": svg, "mermaid": mermaid, "dot": dot, "json": as_json}

_LEAST = 0.6
"""The least fraction of its width to which a picture shrinks on a narrow page. A smaller picture is not readable."""


def as_html(svg: str) -> str:
    """Return an SVG of `write` as HTML that is no wider than its page. The picture shrinks to a limit, then scrolls.

    Without this HTML, some front ends, such as JupyterLab, would show the SVG in its full width.
    """
    width = re.search(r'width="(\d+)"', svg)
    assert width is not None
    least = round(int(width[1]) * _LEAST)
    return f'<div style="overflow-x:auto"><div style="min-width:{least}px">{svg}</div></div>'


def write(drawn: Picture, format: str) -> str:
    """Return the picture in a format: svg, mermaid, dot or json."""
    if format not in _WRITERS:
        raise TopologyError(f"unknown picture format {format!r}; expected one of {', '.join(_WRITERS)}")
    return _WRITERS[format](drawn)
