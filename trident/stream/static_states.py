"""States that a topology only reads: what a user gives for one, read."""

from collections.abc import Mapping

from trident.base.errors import TopologyError
from trident.base.names import brief
from trident.base.step import Step
from trident_state.static import StaticMapState
from trident_state.store import StateFactory

STATIC_USAGE = "newStaticState(stateFactory, keyFields=, valueType=, name=, topology=)"


def static_factory(
    given: object, name: str | None, topology: str | None, number: int, step: Step
) -> tuple[StateFactory, str]:
    """The factory of a static state, and its name."""
    if isinstance(given, Mapping) or _reads(given):
        if topology is not None:
            raise step.error(TopologyError, f"{brief(given)} is no topology's state: leave topology={topology!r} out")
        return StaticMapState(given), name or f"static{number + 1}"  # type: ignore[return-value]
    if isinstance(given, type) or not all(hasattr(given, method) for method in ("kind", "survives", "open")):
        raise step.error(
            TopologyError,
            f"{brief(given)} is no state to read: give the factory that its writer has, such as "
            f"RedisMapState.opaque(url), a dict, or an object with multiGet(keys) or get(); write {STATIC_USAGE}",
        )
    if given.survives != "server":  # type: ignore[attr-defined]
        raise step.error(
            TopologyError,
            f"{given!r} lives inside the driver that writes it, where no other topology can read it: keep the state in "
            "Redis, or ask it where it is written",
        )
    if name is None or topology is None:
        raise step.error(
            TopologyError,
            f"whose state in {given!r}? Give name=, the state's name where it is written, and topology=, the name of "
            "the topology that writes it",
        )
    return given, name  # type: ignore[return-value]


def _reads(given: object) -> bool:
    """Whether this is a read-only state of a user's own."""
    if isinstance(given, type) or hasattr(given, "open"):
        return False
    return callable(getattr(given, "multiGet", None)) or callable(getattr(given, "get", None))
