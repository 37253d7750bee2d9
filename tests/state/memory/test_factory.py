"""What users write."""

import pickle

import pytest

import trident.state
from trident.state import MemoryMapState, StateFactory, StateKind


@pytest.mark.parametrize(
    ("state", "kind", "shown"),
    [
        (MemoryMapState.opaque(), StateKind.OPAQUE, "MemoryMapState.opaque()"),
        (
            MemoryMapState.transactional(maxBytes=10),
            StateKind.TRANSACTIONAL,
            "MemoryMapState.transactional(maxBytes=10)",
        ),
        (MemoryMapState.nonTransactional(), StateKind.NON_TRANSACTIONAL, "MemoryMapState.nonTransactional()"),
    ],
)
def test_a_memory_state_is_plain_data(state: MemoryMapState, kind: StateKind, shown: str) -> None:
    factory: StateFactory = state
    assert (factory.kind, factory.survives, repr(factory)) == (kind, "checkpoint", shown)
    assert pickle.loads(pickle.dumps(state)) == state  # noqa: S301
    assert hash(state) == hash(eval(shown))
    with pytest.raises(AttributeError):
        state.maxBytes = 1  # type: ignore[misc]


@pytest.mark.parametrize("wrong", [0, -1, "1 GB", 1.5, True])
def test_a_limit_is_a_positive_number_of_bytes(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"maxBytes=.*: expected a positive number of bytes, or None for no limit"):
        MemoryMapState.opaque(maxBytes=wrong)  # type: ignore[arg-type]


def test_the_public_module_names_what_it_has() -> None:
    assert set(trident.state.__all__) <= set(dir(trident.state))
    with pytest.raises(AttributeError, match=r"did you mean .*MemoryMapState"):
        trident.state.MemoryMapStat  # noqa: B018
