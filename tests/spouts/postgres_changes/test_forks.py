"""A fork of a topology that reads a slot: it needs a slot of its own, and the first slot does not move."""

from pathlib import Path

import pytest

from tests.spouts.postgres_changes.changed_table import ChangedTable
from tests.support.forks import contents, save
from trident import TridentTopology, forkTopology
from trident.errors import SavepointError

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_slot_belongs_to_the_first_topology(orders: ChangedTable, tmp_path: Path) -> None:
    def program(slot: str) -> TridentTopology:
        topology = TridentTopology()
        stream = topology.newStream("orders", orders.spout(slot=slot)).asChanges()
        stream.toTable("id", valueFields="price", name="counts")
        return topology

    def read(slot: str, name: str) -> dict[int, int]:
        return {key: value.price for key, value in contents(program(slot), name, tmp_path).items()}

    orders.run("insert into T values (1, 'x', 10), (2, 'x', 20)")
    save(program(orders.name), tmp_path)
    with pytest.raises(SavepointError, match=r"'orders' reads from PostgresChangesSpout.* anew=\['orders'\]"):
        forkTopology("first", "before", "second", tmp_path)
    forkTopology("first", "before", "second", tmp_path, anew=["orders"])
    orders.run("update T set price = 11 where id = 1")
    with pytest.raises(SavepointError, match=f"the slot '{orders.name}' belongs to topology 'first'"):
        read(orders.name, "second")
    other = f"{orders.name}_2"
    try:
        assert read(other, "second") == {1: 11, 2: 20}
        orders.run("delete from T where id = 2")
        assert read(other, "second") == {1: 11}
        assert read(orders.name, "first") == {1: 11}
    finally:
        orders.server.run(f"select pg_drop_replication_slot('{other}')")
