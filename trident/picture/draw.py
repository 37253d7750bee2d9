"""Pictures of a plan in four formats, drawn in pure Python."""

from collections.abc import Callable

from trident.base.errors import TopologyError
from trident.picture.picture import Picture, picture
from trident.picture.svg import svg
from trident.picture.text import as_json, dot, mermaid

__all__ = ["picture", "write"]

_WRITERS: dict[str, Callable[[Picture], str]] = {"svg": svg, "mermaid": mermaid, "dot": dot, "json": as_json}


def write(drawn: Picture, format: str) -> str:
    """Return the picture in a format: svg, mermaid, dot or json."""
    if format not in _WRITERS:
        raise TopologyError(f"no picture in format {format!r}; there are {', '.join(_WRITERS)}")
    return _WRITERS[format](drawn)
