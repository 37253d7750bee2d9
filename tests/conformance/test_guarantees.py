"""Three kinds of spouts over three kinds of states, where batch 2 fails after its state was written.

Every cell twice. At the map: attempts of one txid follow each other as in Trident, with what each of them holds, and
the map's rule makes of it what Trident's makes. In a topology: what batch 2 holds is frozen before it is written, so
the commit is repeated with the same content, what the spout would have added comes in a later batch, and the totals are
right wherever the state keeps a txid.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kit import CASES, Case, Seen, conforms, ran, unordered
from tests.conformance.maps import Fragile, MapAtHand, of_records, totals
from tests.support.spouts import ReplayingSpout
from trident import CollectList, Count, Last, MaxBy, Sum, TridentTopology
from trident.plan.guarantee import Promise, guarantees
from trident.spouts import BatchSpout, FixedBatchSpout
from trident.state import BackingMapState, StateIdentity
from trident_state.state_shape import StateKind

KINDS = {"nontx": StateKind.NON_TRANSACTIONAL, "tx": StateKind.TRANSACTIONAL, "opaque": StateKind.OPAQUE}


# --- at the map ----------------------------------------------------------------------------------------------------


def at_the_map(case: Case, kind: StateKind) -> None:
    """Every attempt as the case has it; the first one at batch 2 does not come to its end."""
    state = MapAtHand(kind)
    values: dict[str, dict[str, int]] = {}
    batches = case.batches
    for at, batch in enumerate(batches):
        txid, attempt, given = batch["txid"], batch["attempt"], totals(batch["tuples"]["s"])
        if at + 1 < len(batches) and batches[at + 1]["txid"] == txid:
            state.broken_off(txid, given)
            assert state.records() == of_records(case.expected["state_after_2:0"])
        else:
            values[f"{txid}:{attempt}"] = state.values(txid, given)
    for name, expected in case.expected["new_values"].items():
        assert unordered(values[name].items()) == unordered(expected)
    assert state.records() == of_records(case.expected["final"])


# --- in a topology -------------------------------------------------------------------------------------------------


class Queue(BatchSpout):
    """Non-transactional: what was handed out is gone."""

    outputFields = "k string, n long"

    def __init__(self, batches: Sequence[Any]) -> None:
        self.left: Iterator[Any] = iter(batches)

    def emitBatch(self, batchId: int) -> Any:
        return next(self.left, None)


def source_of(case: Case) -> Any:
    """The case's records: those that only a failed attempt held come once."""
    first, failed, again, later = [[tuple(row) for row in rows] for rows in case.rows()]
    match case.id.split("-")[1]:
        case "tx":
            assert failed == again
            return FixedBatchSpout("k string, n long", [first, failed, later])
        case "opaque":
            added = [row for row in again if row not in failed]
            script = {(1, 0): len(first), (2, 0): len(failed), (2, 1): len(again)}
            return ReplayingSpout("k string, n long", {"p": [*first, *failed, *added, *later]}, script, otherwise=9)
    assert later == failed, "what the failed attempt held comes back"
    return Queue([first, failed, again])


def in_a_topology(case: Case, kind: StateKind, checkpoint: Path) -> None:
    """The state's connection goes when batch 2 is written and not committed."""
    home, seen = Fragile(kind), Seen()
    topology = TridentTopology()
    sums = topology.newStream("s", source_of(case)).groupBy("k").persistentAggregate(home.state, "n", Sum(), "sum")
    seen.watch(sums.newValuesStream())
    with ran(topology, checkpoint) as running:
        found = dict(running.state(sums.name).items())
        assert running.recentProgress[-1]["txid"] == 3
    (promised,) = [each for each in guarantees(topology.sinks) if each.state == sums.name]
    assert home.records_when_broken("k string", "long") == of_records(case.expected["state_after_2:0"])
    exact = case.expected["true_totals"]
    if kind is StateKind.NON_TRANSACTIONAL:
        assert not case.expected["exactly_once"] and promised.promise is not Promise.EXACTLY_ONCE
        twice = totals(case.rows()[1])
        assert found == {k: n + twice.get(k, 0) for k, n in exact.items()}
        assert home.records("k string", "long") == of_records(case.expected["final"])
    else:
        assert found == exact
        assert (promised.promise is Promise.EXACTLY_ONCE) is ("nontx" not in case.id)
    after, spent = [], Counter[str]()
    for batch in _batches_of(case, kind):
        spent.update(batch)
        after.append([(k, spent[k]) for k in dict.fromkeys(batch)])
    assert [unordered(rows) for rows in seen.batches] == [unordered(rows) for rows in after], "new values"


def _batches_of(case: Case, kind: StateKind) -> list[dict[str, int]]:
    """What each txid adds to the state in a topology."""
    first, failed, again, later = case.rows()
    third = {"tx": later, "opaque": [*(row for row in again if row not in failed), *later], "nontx": again}
    rows = [first, failed, third[case.id.split("-")[1]]]
    if kind is StateKind.NON_TRANSACTIONAL:
        rows[1] = [*failed, *failed]
    return [totals(each) for each in rows]


@conforms("x3-nontx-nontx", differs=True)
def test_nontransactional_spout_and_state(case: Case, tmp_path: Path) -> None:
    at_the_map(case, StateKind.NON_TRANSACTIONAL)
    in_a_topology(case, StateKind.NON_TRANSACTIONAL, tmp_path)


@conforms("x3-nontx-tx", differs=True)
def test_nontransactional_spout_transactional_state(case: Case, tmp_path: Path) -> None:
    at_the_map(case, StateKind.TRANSACTIONAL)
    in_a_topology(case, StateKind.TRANSACTIONAL, tmp_path)


@conforms("x3-tx-nontx")
def test_transactional_spout_nontransactional_state(case: Case, tmp_path: Path) -> None:
    at_the_map(case, StateKind.NON_TRANSACTIONAL)
    in_a_topology(case, StateKind.NON_TRANSACTIONAL, tmp_path)


@conforms("x3-tx-tx")
def test_transactional_spout_and_state(case: Case, tmp_path: Path) -> None:
    at_the_map(case, StateKind.TRANSACTIONAL)
    in_a_topology(case, StateKind.TRANSACTIONAL, tmp_path)


@conforms("x3-tx-opaque")
def test_transactional_spout_opaque_state(case: Case, tmp_path: Path) -> None:
    at_the_map(case, StateKind.OPAQUE)
    in_a_topology(case, StateKind.OPAQUE, tmp_path)


@conforms("x3-opaque-nontx", differs=True)
def test_opaque_spout_nontransactional_state(case: Case, tmp_path: Path) -> None:
    at_the_map(case, StateKind.NON_TRANSACTIONAL)
    in_a_topology(case, StateKind.NON_TRANSACTIONAL, tmp_path)


@conforms("x3-opaque-opaque", differs=True)
def test_opaque_spout_and_state(case: Case, tmp_path: Path) -> None:
    at_the_map(case, StateKind.OPAQUE)
    in_a_topology(case, StateKind.OPAQUE, tmp_path)


# --- the two cells that Trident's table has no case of ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("like", "kind", "final"),
    [
        ("x3-opaque-opaque", "tx", {"cap": 3, "ink": 25, "pen": 11}),
        ("x3-nontx-nontx", "opaque", {"cap": 6, "ink": 45, "pen": 9}),
    ],
)
def test_the_other_cells(like: str, kind: str, final: dict[str, int], tmp_path: Path) -> None:
    """In Trident a transactional state skips what an opaque replay added, and an opaque one keeps what only the failed
    attempt touched; the rules at the map do so here."""
    case = CASES[like]
    state = MapAtHand(KINDS[kind])
    for at, (txid, rows) in enumerate(zip([1, 2, 2, 3], case.rows(), strict=True)):
        if at == 1:
            state.broken_off(txid, totals(rows))
        else:
            state.update(txid, totals(rows))
    assert {key: each["value"] for (key,), each in state.records().items()} == final
    home = Fragile(KINDS[kind])
    topology = TridentTopology()
    stream = topology.newStream("s", source_of(case)).groupBy("k")
    sums = stream.persistentAggregate(home.state, "n", Sum(), "sum", name="sums")
    with ran(topology, tmp_path) as running:
        assert dict(running.state(sums.name).items()) == case.expected["true_totals"]
    assert home.broken is not None


# --- the nine cells for dropDuplicates, which Trident has not --------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("like", ["x3-nontx-nontx", "x3-tx-tx", "x3-opaque-opaque"])
def test_each_key_goes_on_once_for_every_spout_and_every_state(like: str, kind: str, tmp_path: Path) -> None:
    """Batch 2 breaks off when the keys that it brought are written: what goes on is frozen before."""
    case = CASES[like]
    home, seen = Fragile(KINDS[kind]), Seen()
    topology = TridentTopology()
    distinct = topology.newStream("s", source_of(case)).dropDuplicates("k", home.state, name="keys")
    seen.watch(distinct)
    with ran(topology, tmp_path) as running:
        held = dict(running.state("keys").items())
    assert home.broken is not None
    passed = [row[0] for rows in seen.batches for row in rows]
    assert sorted(passed) == sorted(held) == sorted(case.expected["true_totals"])


# --- the nine cells for the other verbs with states, and for several aggregates ---------------------------------------

SPOUTS = ["x3-nontx-nontx", "x3-tx-tx", "x3-opaque-opaque"]


def homes_of(kind: StateKind, breaks: str) -> tuple[BackingMapState, dict[str, Fragile]]:
    """A factory whose state of this name breaks off in batch 2, and the homes of its states."""
    homes: dict[str, Fragile] = {}

    def home(identity: StateIdentity) -> Fragile:
        return homes.setdefault(identity.name, Fragile(kind, times=int(identity.name == breaks)))

    return BackingMapState(kind, home), homes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("like", SPOUTS)
def test_several_aggregates_count_each_batch_once_for_every_spout(like: str, kind: str, tmp_path: Path) -> None:
    """A non-transactional state takes batch 2 twice, with all of its aggregates, as it would with one."""
    home, seen = Fragile(KINDS[kind]), Seen()
    topology = TridentTopology()
    stream = topology.newStream("s", source_of(CASES[like]))
    seen.watch(stream)
    several = {"count": Count(), "sum": Sum("n"), "last": Last("n"), "all": CollectList("n"), "of": MaxBy("k", "n")}
    stream.groupBy("k").persistentAggregate(home.state, several, name="several")
    with ran(topology, tmp_path) as running:
        found = {k: row.asDict() for k, row in running.state("several").items()}
    assert home.broken is not None
    batches = seen.batches if KINDS[kind] is not StateKind.NON_TRANSACTIONAL else [*seen.batches[:2], *seen.batches[1:]]
    by_key: dict[str, list[int]] = {}
    for k, n in (row for batch in batches for row in batch):
        by_key.setdefault(k, []).append(n)
    assert found == {
        k: {"count": len(ns), "sum": sum(ns), "last": ns[-1], "all": ns, "of": k} for k, ns in by_key.items()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("like", SPOUTS)
def test_a_table_has_the_latest_tuples_for_every_spout_and_every_state(like: str, kind: str, tmp_path: Path) -> None:
    """Batch 2 breaks off when its tuples are in the table. What they found there is frozen by then, so it is right
    even with a non-transactional state, which no longer has it."""
    home, seen, joined = Fragile(KINDS[kind]), Seen(), Seen()
    topology = TridentTopology()
    stream = topology.newStream("s", source_of(CASES[like]))
    seen.watch(stream)
    table = stream.toTable("k", home.state, name="latest")
    joined.watch(stream.joinTable(table, "k", joinType="left", outputFields="before"), "joined")
    with ran(topology, tmp_path) as running:
        found = {k: value["n"] for k, value in running.state("latest").items()}
    assert home.broken is not None
    latest, expected = dict[str, int](), []
    for batch in seen.batches:
        expected.append([(k, n, latest.get(k)) for k, n in batch])
        latest |= dict(batch)
    assert found == latest
    assert [unordered(rows) for rows in joined.batches] == [unordered(rows) for rows in expected]


def moment(n: int) -> datetime:
    """A time so many seconds after 1970."""
    return datetime.fromtimestamp(n, UTC)


@pytest.mark.parametrize("breaks", ["pairs", "pairs.left.watermark", "pairs.right.watermark"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("like", SPOUTS)
def test_each_pair_leaves_once_for_every_spout_and_every_state(
    like: str, kind: str, breaks: str, tmp_path: Path
) -> None:
    """A stream joined with itself: each tuple meets all of its key that are not more than 10 seconds apart."""
    (state, homes), seen, pairs = homes_of(KINDS[kind], breaks), Seen(), Seen()
    topology = TridentTopology()
    stream = topology.newStream("s", source_of(CASES[like])).each("n", moment, "at timestamp")
    seen.watch(stream.project("k", "n"))
    near = ("-10 seconds", "10 seconds")
    joined = stream.intervalJoin(
        stream,
        "k",
        near,
        timestampField="at",
        lateness="1 hour",
        outputFields="k, n, at, other, otherAt",
        stateFactory=state,
        name="pairs",
    )
    pairs.watch(joined.project("k", "n", "other"), "seenPairs")
    with ran(topology, tmp_path):
        pass
    # A watermark is one value: what breaks off is its only write, or in a batch that does not move it none.
    assert homes[breaks].broken is not None or breaks != "pairs"
    rows = [row for batch in seen.batches for row in batch]
    met = [(k, n, m) for k, n in rows for j, m in rows if k == j and abs(m - n) <= 10]
    assert sorted(row for batch in pairs.batches for row in batch) == sorted(met)
