"""The contents of states after a run of everything that the sources have."""

from pathlib import Path
from typing import Any

from trident import TridentTopology
from trident.testing.local import start_local


def contents(topology: TridentTopology, checkpoint: Path, *states: str, **options: Any) -> list[dict[Any, Any]]:
    """Run a topology until its sources have nothing more, and return the entries of these states."""
    with start_local(topology, name="t", checkpointLocation=checkpoint, **options) as running:
        running.processAllAvailable(timeout=30)
        return [dict(running.state(state).items()) for state in states]
