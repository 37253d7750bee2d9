"""Streams and their verbs, one file for each family of verbs. A stream holds one node of the plan."""

from trident.stream.stream import (
    ChangeStream,
    EarlyStream,
    GroupedChanges,
    GroupedStream,
    JoinedStream,
    StatefulStream,
    Stream,
    TridentState,
    UpsertStream,
    WindowedStream,
)

__all__ = [
    "ChangeStream",
    "EarlyStream",
    "GroupedChanges",
    "GroupedStream",
    "JoinedStream",
    "StatefulStream",
    "Stream",
    "TridentState",
    "UpsertStream",
    "WindowedStream",
]
