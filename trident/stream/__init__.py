"""The fluent skin: streams, one file a family of verbs. A stream holds one plan node; all else is derived from it."""

from trident.stream.stream import GroupedStream, Stream, TridentState, WindowedStream

__all__ = ["GroupedStream", "Stream", "TridentState", "WindowedStream"]
