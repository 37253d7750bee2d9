"""A user needs REPLICATION and the right to read the table, and no more."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.spouts.jdbc.reads import planned
from tests.spouts.postgres_changes.changed_table import ChangedTable, drained
from trident.errors import SourceUnreadableError


@pytest.fixture
def reader(orders: ChangedTable) -> Iterator[str]:
    """A user who may log in, and nothing else."""
    name = f"reader_{orders.name}"
    orders.run(f"create role {name} login password 'x'")
    yield name
    orders.run(f"revoke all on {orders.name} from {name}", f"drop role {name}")


def test_the_rights_that_the_guide_names_are_enough(orders: ChangedTable, reader: str) -> None:
    orders.run(
        f"alter role {reader} replication", f"grant select on T to {reader}", "insert into T values (1, 'Ann', 10)"
    )
    with closing(orders.spout(user=reader, password="x").open()) as executor:
        read, position = drained(executor)
        orders.run("delete from T")
        read += drained(executor, position)[0]
    assert read == [(1, "Ann", 10, "insert"), (1, "Ann", 10, "delete")]


@pytest.mark.parametrize("missing", ["replication", "select"])
def test_a_right_that_is_missing_is_named(orders: ChangedTable, reader: str, missing: str) -> None:
    orders.run(f"grant select on T to {reader}" if missing == "replication" else f"alter role {reader} replication")
    named = "REPLICATION" if missing == "replication" else "SELECT"
    spout = orders.spout(user=reader, password="x")
    with closing(spout.open()) as executor, pytest.raises(SourceUnreadableError, match=named):
        planned(executor)


def test_row_level_security_is_refused(orders: ChangedTable, reader: str) -> None:
    """The rows at the beginning would lack those that the user may not see, and the changes would have them."""
    orders.run(f"alter role {reader} replication", f"grant select on T to {reader}", "alter table T enable row level "
               "security")  # fmt: skip
    spout = orders.spout(user=reader, password="x")
    with closing(spout.open()) as executor, pytest.raises(SourceUnreadableError, match="row level security"):
        planned(executor)
