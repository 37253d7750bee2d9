"""A process that writes batches and snapshots until it is killed, and what it should have written."""

from pathlib import Path

from tests.state.memory.homes import MemoryStorage
from trident.base.attempt import Lease
from trident.testing.contracts.stores.fixtures import Setting
from trident_state.memory import MemoryStore

KEYS = 2_000


def batch(txid: int) -> dict[int, int]:
    """A third of the keys, each by its own amount."""
    return {n: txid + n for n in range(txid % 3, KEYS, 3)}


def write(root: str, epoch: int) -> None:
    """What the child does: go on from the last snapshot, batch after batch, a snapshot after every second one."""
    setting = Setting(MemoryStorage(Path(root)))
    store, lease = setting.open(), Lease(epoch, f"token{epoch}")
    assert isinstance(store, MemoryStore)
    if store.report().absent:
        store.create(lease, 0)
    store.acquire(lease)
    txid = store.groups_of()[0].marker or 0
    while True:
        txid += 1
        setting.apply(store, txid, batch(txid), lease=lease)
        if txid % 2 == 0:
            print(store.snapshot(), flush=True)


def expected(upto: int) -> list[int | None]:
    values: dict[int, int] = {}
    for txid in range(1, upto + 1):
        for key, delta in batch(txid).items():
            values[key] = values.get(key, 0) + delta
    return [values.get(n) for n in range(KEYS)]
