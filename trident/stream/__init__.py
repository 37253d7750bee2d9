"""The fluent skin: streams, one file a family of verbs. A stream holds one plan node; all else is derived from it."""

from trident.stream.grouped import GroupedStream
from trident.stream.state import TridentState
from trident.stream.stream import Stream
from trident.stream.windowed import WindowedStream

__all__ = ["GroupedStream", "Stream", "TridentState", "WindowedStream"]
