"""The first argument of newStaticState: a state factory, a dict, or a read-only state that the user wrote."""

from collections.abc import Mapping

from trident.base.names import brief
from trident.base.verb_call import Step
from trident.stream.arguments import is_factory
from trident_state.static_state import StaticMapState
from trident_state.store import StateFactory

STATIC_USAGE = "newStaticState(stateFactory, keyFields=, valueType=, name=, topology=)"


def static_factory(
    source: object, name: str | None, topology: str | None, number: int, step: Step
) -> tuple[StateFactory, str]:
    """Return the factory of the static state that `source` describes, and the state's name.

    `number` counts the static states before this one: without `name`, the name is ``static<number + 1>``. Raises
    TopologyError if `source` does not describe a static state, if its store is another driver's memory, or if `name`
    or `topology` contradicts `source`.
    """
    if isinstance(source, Mapping) or _reads(source):
        if topology is not None:
            raise step.wrong(f"{brief(source)} is not the state of a topology: remove topology={topology!r}")
        return StaticMapState(source), name or f"static{number + 1}"  # type: ignore[return-value]
    if not is_factory(source):
        raise step.wrong(
            f"{brief(source)} is not a readable state: pass the factory with which its topology writes it, such as "
            f"RedisMapState.opaque(url), a dict, or an object with multiGet(keys) or get(); write {STATIC_USAGE}"
        )
    if source.survives != "server":  # type: ignore[attr-defined]
        raise step.wrong(
            f"{source!r} is in the memory of the driver that writes it, and no other topology can read it: keep the "
            "state in Redis, or read it in the topology that writes it"
        )
    if name is None or topology is None:
        raise step.wrong(
            f"the state in {source!r} is not identified: pass name=, the state's name, and topology=, the name of the "
            "topology that writes it"
        )
    return source, name  # type: ignore[return-value]


def _reads(source: object) -> bool:
    """Return whether `source` is a user's read-only state: an object with ``multiGet`` or ``get``."""
    if isinstance(source, type) or hasattr(source, "open"):
        return False
    return callable(getattr(source, "multiGet", None)) or callable(getattr(source, "get", None))
