"""Queries that compare the fields of an index with constants: the state is read by the index, and not scanned."""

from collections.abc import Iterator

import pytest

from trident import Average, Count, Sum, TridentTopology
from trident.reads.committed_reads import Snapshot
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

PEOPLE = ("Ann", "Bob", "Cleo", None)
ROWS = [[(number, PEOPLE[number % 4], number % 5) for number in range(first, first + 20)] for first in (0, 20)]


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTopology]:
    topology, state = TridentTopology(), MemoryMapState.opaque()
    stream = topology.newStream("s", FixedBatchSpout("id long, person string, floor long", ROWS))
    stream.toTable("id", state, name="visits", index=["person", ("floor", "person")])
    by_floor = stream.groupBy("floor")
    by_floor.persistentAggregate(state, Count(), "n", name="counts", index="n")
    by_floor.persistentAggregate(state, {"n": Count(), "total": Sum("id")}, name="sums", index="total")
    by_floor.persistentAggregate(state, "id", Average(), "mean", name="means", index="mean")
    folder = tmp_path_factory.mktemp("visits")
    with start_local(topology, name="v", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=20)
        yield running


BY_INDEX = (
    "select * from visits where latest.person = 'Ann' order by id",
    "select id from visits v where v.latest.person in ('Ann', 'Bob', 'nobody') and id > 3 order by id",
    "select id from visits where visits.latest.person = 'Ann' and latest.floor = 3 order by id",
    "select id from visits where latest.floor in (1, 2) and 'Bob' = latest.person order by id",
    "select * from counts where n = 8 order by floor",
    "select floor, n from sums where total = 140",
    "select v.id, c.n from visits v join counts c on c.floor = v.latest.floor"
    " where v.latest.person = 'Cleo' and c.n = 8 order by 1",
    "with one as (select * from visits where latest.person = 'Bob') select count(*) from one",
)

BY_SCAN = (
    "select * from visits where latest.person = 'Ann' or id = 3 order by id",
    "select * from visits where latest.person is null order by id",
    "select * from visits where latest.floor = 3 order by id",
    "select * from visits where lower(latest.person) = 'ann' order by id",
    "select a.id from visits a, visits b where a.latest.person = 'Ann' and a.id = b.id order by 1",
    "select id from visits where latest.person = 7::varchar",
    "select * from means where mean = 17.5",
    "select latest.n from counts as latest, visits where latest.n = 8 and visits.latest.person is null order by 1",
)


@pytest.mark.parametrize("query", BY_INDEX + BY_SCAN)
def test_a_query_reads_a_state_by_its_index_if_it_fixes_the_fields(
    visits: RunningTopology, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    scanned = list[str]()
    original = Snapshot.scan
    monkeypatch.setattr(Snapshot, "scan", lambda self, name: scanned.append(name) or original(self, name))
    found = visits.sql(query)
    assert bool(scanned) == (query in BY_SCAN)
    assert found.asOfTxid == 2
    for column, constant in (("'Ann'", "upper('a') || 'nn'"), ("'Bob'", "'B' || 'ob'"), ("'Cleo'", "'Cl' || 'eo'")):
        query = query.replace(column, f"({constant})")
    for number in ("8", "140"):
        query = query.replace(f"= {number}", f"+ 0 = {number}")
    assert visits.sql(query).collect() == found.collect()
