"""Many tuples of a batch to few."""

from tests.compiler.kit import Slots
from tests.conformance.kit import Case, check, conforms
from trident import Sum, TridentTopology


@conforms("agg-group-field-order")
def test_group_fields_come_first_in_their_order_and_null_is_a_group(case: Case, engine: Slots) -> None:
    topology = TridentTopology()
    stream = case.stream(topology, "city string, day int, n long")
    check(case, engine, topology, out=stream.groupBy("day, city").aggregate("n", Sum(), "tot"))
