"""A shop's database under random transactions of several writers, and the states that follow its tables."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from tests.spouts.postgres_changes.changed_table import ChangedTable
from tests.support.postgres import PostgresServer
from trident import Count, Max, Sum, TridentTopology
from trident.state import MemoryMapState

IDS = 40
CUSTOMERS = ("Ann", "Bob", "Cy", None)
BIG = "(select string_agg(md5(random()::text), '') from generate_series(1, 120))"
"""A value of 3,840 letters, stored outside of its row. It is not in the log if an update does not change it."""


class Shop:
    """Two tables with the same keys, orders and shipments, and writers that change them."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self._server = server
        self.orders, self.shipments = ChangedTable(server, f"{name}_orders"), ChangedTable(server, f"{name}_shipments")
        self.orders.create("id bigint primary key, customer text, price bigint, note text")
        self.shipments.create("id bigint primary key, city text")
        self.orders.run("alter table T alter note set storage external")
        self.transactions = 0

    def close(self) -> None:
        for table in (self.orders, self.shipments):
            table.drop_slot()

    @contextmanager
    def writers(self, seed: int, count: int = 3) -> Iterator[None]:
        """Let writers run random transactions in the block, also while the server is killed and restarted."""
        ended = threading.Event()
        threads = [
            threading.Thread(target=self._write, args=(random.Random(f"{seed}/{at}"), ended)) for at in range(count)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join(timeout=60)

    def _write(self, chance: random.Random, ended: threading.Event) -> None:
        while not ended.is_set():
            with suppress(psycopg.OperationalError, psycopg.InterfaceError), self._server.connect() as connection:
                while not ended.is_set():
                    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
                        self._transaction(connection, chance)
                        self.transactions += 1
                    if connection.info.transaction_status:
                        connection.execute("rollback")
                    ended.wait(chance.random() / 200)
            ended.wait(0.02)

    def _transaction(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        connection.execute("begin")
        for _ in range(chance.randint(1, 4)):
            inside = chance.random() < 0.3
            if inside:
                connection.execute("savepoint inside")
            connection.execute(self._statement(chance).encode())
            if inside:
                connection.execute(chance.choice(("release savepoint inside", "rollback to savepoint inside")))
        connection.execute(chance.choice(("commit", "commit", "commit", "rollback")))

    def _statement(self, chance: random.Random) -> str:
        orders, shipments = self.orders.name, self.shipments.name
        key, other, price = chance.randint(1, IDS), chance.randint(1, IDS), chance.randint(-5, 50)
        customer = chance.choice(CUSTOMERS)
        name = "null" if customer is None else f"'{customer}'"
        note = chance.choice(("null", "''", BIG))
        return chance.choice(
            (
                f"insert into {orders} values ({key}, {name}, {price}, {note}) on conflict do nothing",
                f"insert into {orders} values ({key}, {name}, {price}, {note}) on conflict (id) "
                f"do update set customer = excluded.customer, note = excluded.note",
                f"update {orders} set price = {price} where id = {key}",
                f"update {orders} set customer = {name} where id in ({key}, {other})",
                f"update {orders} set id = {other} where id = {key}",
                f"update {orders} set note = {note} where id = {key}",
                f"delete from {orders} where id = {key}",
                f"delete from {orders} where price = {price}",
                f"insert into {shipments} values ({key}, 'Rome') on conflict do nothing",
                f"update {shipments} set city = 'Oslo {price}' where id between {key} and {other}",
                f"update {shipments} set id = {other} where id = {key}",
                f"delete from {shipments} where id = {key}",
            )
        )

    def topology(self, **options: Any) -> TridentTopology:
        """Return a program with a table, an aggregate over a changed field, and a join of two tables."""
        topology = TridentTopology()
        spout = self.orders.spout("id long, customer string, price long, note string", **options)
        orders = topology.newStream("orders", spout).asChanges()
        shipments = topology.newStream("shipments", self.shipments.spout("id long, city string", **options))
        totals = {"n": Count(), "total": Sum("price"), "most": Max("price")}
        orders.groupBy("customer").persistentAggregate(MemoryMapState.opaque(), totals, name="totals")
        table = orders.toTable("id", name="orders")
        joined = table.join(shipments.asChanges().toTable("id", name="shipments"))
        joined.toTable("id", name="joined")
        return topology

    def expected(self) -> dict[str, dict[Any, Any]]:
        """Return what the states must hold, by queries of the database."""
        orders, shipments = self.orders.name, self.shipments.name
        queries = {
            "orders": f"select id, customer, price, note from {orders}",
            "totals": f"select customer, count(*), sum(price)::bigint, max(price) from {orders} group by customer",
            "joined": f"select id, customer, price, note, city from {orders} join {shipments} using (id)",
        }
        with self._server.connect() as connection:
            rows = {name: connection.execute(query.encode()).fetchall() for name, query in queries.items()}
        return {name: {key: tuple(values) for key, *values in held} for name, held in rows.items()}


def found(running: Any) -> dict[str, dict[Any, Any]]:
    """Return what the states hold."""
    return {
        name: {key: tuple(value) for key, value in running.state(name).items()}
        for name in ("orders", "totals", "joined")
    }
