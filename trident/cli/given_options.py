"""The start options on a command line. Commands that only query a server do not import this module."""

from collections.abc import Iterable
from typing import Any

from trident.cli.program_options import ProgramArguments, once, pairs
from trident.cluster.submission import read_settings
from trident.configuration.start_options import StartOptions


def given_options(topology: ProgramArguments, options: StartOptions, settings: Iterable[str]) -> dict[str, Any]:
    """Return the start options on a command line: those of --set, and those with dedicated options.

    Raises UsageError if one is given in both ways.
    """
    texts = pairs("--set", settings)
    own = {**options, "checkpointLocation": topology.checkpoint, "log": topology.log}
    once(texts, **own)
    return read_settings(texts) | {name: value for name, value in own.items() if value is not None}
