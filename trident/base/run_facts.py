"""The facts of a run that user code may read: the topology's name and the user's configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trident.base.user_config import UserConfig


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts that are the same for all spouts and operations of a run."""

    topology: str = ""
    """The name of the topology; "" in a preview."""
    config: Mapping[str, Any] = field(default_factory=UserConfig)
    """The user's configuration."""


NO_FACTS = RunFacts()
"""The facts of operations that are not part of a run."""
