"""The context that the `open` of a spout gets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trident.base.user_config import UserConfig
from trident_spouts.user_calls import asks_for

if TYPE_CHECKING:
    from trident_spouts.executor import Spout, SpoutExecutor


@dataclass(frozen=True, slots=True)
class SpoutContext:
    """The stream and the configuration of a spout. A spout gets it if its `open` has a parameter `context`.

    A `TridentSpout` gets it in `getCoordinator` and `getEmitter`. Meaning: the ``Map`` of the configuration and the
    ``TopologyContext`` that Storm's spouts get.

    >>> context = SpoutContext("shop", "orders", {"region": "eu"})
    >>> context.stream, context.config["region"]
    ('orders', 'eu')
    """

    topology: str = ""
    """The name of the topology; "" in a preview (`take`, `show`)."""
    stream: str = ""
    """The stream that the spout feeds."""
    config: Mapping[str, Any] = field(default_factory=UserConfig)
    """The user configuration: ``[user]`` in ``trident.toml``, ``TRIDENT_USER_...``, and ``start(user=...)``."""


NO_CONTEXT = SpoutContext()
"""The context of a spout that is opened outside of a run."""


def opened(spout: "Spout", context: SpoutContext) -> "SpoutExecutor":
    """Open a spout. Its `open` gets the context if it has a parameter of that name."""
    opening: Any = spout.open
    executor: SpoutExecutor = opening(context=context) if asks_for(opening, "context") else opening()
    return executor
